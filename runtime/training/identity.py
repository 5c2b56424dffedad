"""What a training run is: a folder holds one, and is gone on with only by the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lawfit.files import remove_unfinished, write_text
from runtime.errors import TrainingError
from runtime.training.corpus import Text

_FILE = "run.json"


def claim(folder: Path, identity: dict[str, Any]) -> None:
    """Write the identity of a run to its folder, or check that the run there is the same.

    Raises
    ------
    TrainingError
        Another run was begun there; the first field that differs is named, with both values.
    """
    path = folder / _FILE
    remove_unfinished(path)
    wanted = json.loads(json.dumps(identity))
    if not path.is_file():
        write_text(path, json.dumps(wanted, indent=1) + "\n")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path}: not the identity of a run ({error})") from error
    for name in sorted(set(wanted) | set(found)):
        if found.get(name) != wanted.get(name):
            values = f"{found.get(name)!s:.60}, now {wanted.get(name)!s:.60}"
            raise TrainingError(f"{folder}: another run was begun here: {name} is {values}; remove it, or name another")


def texts_digest(texts: Sequence[Text]) -> str:
    """SHA-256 of the tokens of some texts, in order."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(json.dumps([text.prompt, text.output]).encode())
    return digest.hexdigest()
