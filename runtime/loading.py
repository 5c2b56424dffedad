"""Loading of a local Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer
from transformers.utils import logging as transformers_logging

from runtime.errors import TargetError
from runtime.vision import FAMILIES

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_model(folder: Path, dtype: str, device: str) -> tuple[Any, Any]:
    """Load a model and its tokenizer.

    Raises
    ------
    TargetError
        The folder is absent, or holds no configuration, weights or tokenizer that transformers can load.
    """
    if dtype not in DTYPES:
        raise TargetError(f"dtype {dtype!r}, expected {', '.join(DTYPES)} or auto")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise TargetError(f"device {device!r}, but torch sees no CUDA device here")
    kind = _check_folder(folder)
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    loader = AutoModelForImageTextToText if kind in FAMILIES else AutoModelForCausalLM
    try:
        model, found = loader.from_pretrained(
            folder, dtype=DTYPES[dtype], local_files_only=True, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model.to(device)
    except Exception as error:
        # transformers raises many kinds for a broken folder; one line names the folder and the first cause.
        raise TargetError(f"{folder}: not a loadable target ({_reason(error)})") from error
    # transformers fills what a file lacks with random numbers and goes on; the output would be noise.
    if missing := sorted(found["missing_keys"]):
        raise TargetError(f"{folder}: the weights lack {len(missing)} tensors of the model, such as {missing[0]}")
    return model, tokenizer


def _check_folder(folder: Path) -> str:
    """Name what a target folder lacks before transformers looks for it elsewhere; return the kind of its model."""
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder, expected a Hugging Face model folder")
    if not (folder / "config.json").is_file():
        raise TargetError(f"{folder}: no config.json, expected a Hugging Face model folder")
    if not any(folder.glob("*.safetensors")):
        raise TargetError(f"{folder}: no *.safetensors weights, expected a Hugging Face model folder with weights")
    try:
        return str(AutoConfig.from_pretrained(folder, local_files_only=True).model_type)
    except Exception as error:
        raise TargetError(f"{folder}: config.json is not usable ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    """Give the first line of an error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
