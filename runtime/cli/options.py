"""Options that the runtime's sub-commands share."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lawfit.errors import LawfitError

TargetFolder = Annotated[
    Path | None,
    typer.Option("--target", help="Hugging Face model folder; default: the embedded SmolLM2-135M-Instruct."),
]
Dtype = Annotated[str, typer.Option(help="fp32 (exact), bf16, or auto: the one that verifies fastest on this machine.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
NewTokens = Annotated[int, typer.Option("--max-new-tokens", "-n", min=1, help="Most tokens to emit for a prompt.")]
PromptFile = Annotated[
    Path | None,
    typer.Option("--prompts", help='JSON Lines of {"prompt_id", "task", "prompt"}; only prompt is required.'),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, for programs.")]


def require_runtime() -> None:
    """Raise one clear line where the runtime's packages are not installed."""
    absent = [name for name in ("torch", "transformers", "safetensors") if find_spec(name) is None]
    if absent:
        raise LawfitError(f"this command needs {', '.join(absent)}: pip install 'lawfit[runtime]'")


Temperature = Annotated[float, typer.Option(help="Sampling temperature; 0 is greedy.")]
TopP = Annotated[float, typer.Option(help="Draw from the likeliest tokens that hold this share; 1 keeps all.")]
TopK = Annotated[int, typer.Option(help="Draw from this many of the likeliest tokens; 0 keeps all.")]
Seed = Annotated[int, typer.Option(help="Seed of the draws.")]
DrafterName = Annotated[
    str, typer.Option("--drafter", help="ngram, none, a head's folder, HEAD+ngram, or two-model:FOLDER.")
]
