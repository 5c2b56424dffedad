"""The frozen target: a Hugging Face causal language model behind four calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from runtime.cache import RowCache
from runtime.errors import TargetError
from runtime.pack import Packed, pack_text
from runtime.packed import pack_weights
from runtime.selfcheck import check_rows
from runtime.states import FeatureAddress, TargetRows

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_ATTENTION = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, eq=False)
class Target:
    """A frozen causal language model with its tokenizer.

    Attributes
    ----------
    model, tokenizer
        As transformers loads them; the weights are never changed.
    name
        For logs.
    eos : frozenset of int
        Tokens that end a request.
    """

    model: Any
    tokenizer: Any
    name: str
    eos: frozenset[int]

    @classmethod
    def load(cls, folder: Path, dtype: str = "fp32", device: str = "cpu") -> Target:
        """Load a local Hugging Face folder.

        Raises
        ------
        TargetError
            The folder is absent, holds no configuration, weights or tokenizer, or its attention cannot be rolled back.
        """
        if dtype not in DTYPES:
            raise TargetError(f"dtype {dtype!r}, expected {', '.join(DTYPES)} or auto")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise TargetError(f"device {device!r}, but torch sees no CUDA device here")
        _check_folder(folder)
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()
        try:
            model, found = AutoModelForCausalLM.from_pretrained(
                folder, dtype=DTYPES[dtype], local_files_only=True, output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model.to(device)
        except Exception as error:
            # transformers raises many kinds for a broken folder; one line names the folder and the first cause.
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise TargetError(f"{folder}: not a loadable target ({reason[:200]})") from error
        # transformers fills what a file lacks with random numbers and goes on; the output would be noise.
        if missing := sorted(found["missing_keys"]):
            raise TargetError(f"{folder}: the weights lack {len(missing)} tensors of the model, such as {missing[0]}")
        return cls.wrap(model, tokenizer, name=folder.resolve().name)

    @classmethod
    def wrap(cls, model: Any, tokenizer: Any = None, name: str = "model") -> Target:
        """Freeze a model that is already in memory."""
        kinds = set(getattr(model.config, "layer_types", None) or {"full_attention"})
        if not kinds <= _ATTENTION:
            raise TargetError(f"{name}: layers {sorted(kinds - _ATTENTION)} keep a state that cannot be rolled back")
        if any("local" in str(kind) for kind in getattr(model.config, "attention_layers", None) or ()):
            raise TargetError(f"{name}: its local attention goes by cache row and not by position, which trees need")
        model.eval().requires_grad_(False)
        ends = model.generation_config.eos_token_id if model.generation_config else None
        ends = model.config.eos_token_id if ends is None else ends
        target = cls(model, tokenizer, name, frozenset([ends] if isinstance(ends, int) else ends or ()))
        # Before the weights are laid out anew: the model as transformers runs it is the reference.
        check_rows(target)
        pack_weights(model)
        return target

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.model.device)

    @property
    def dtype(self) -> str:
        """Name of the weights' type."""
        return next((name for name, dtype in DTYPES.items() if dtype == self.model.dtype), str(self.model.dtype))

    @property
    def max_context(self) -> int:
        """Most rows that the positions of the model cover, and that one set of rotary factors serves."""
        limits = [getattr(self.model.config, name, None) for name in ("max_position_embeddings", "n_positions")]
        rope = getattr(self.model.config, "rope_parameters", None) or {}
        if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
            # Beyond it the factors change, and keys that were cached before would be wrong.
            limits.append(rope.get("original_max_position_embeddings"))
        return min((int(limit) for limit in limits if limit), default=1 << 20)

    @property
    def window(self) -> int | None:
        """Length of the sliding window, where the model has one."""
        config = self.model.config
        kinds = getattr(config, "layer_types", None)
        sliding = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
        window = getattr(config, "sliding_window", None)
        return int(window) if sliding and window else None

    @property
    def vocabulary(self) -> int:
        """Size of the output vocabulary."""
        return int(self.model.config.vocab_size)

    def encode(self, prompt: str) -> list[int]:
        """Tokenize a user message with the chat template, or as plain text where the target has none."""
        if self.tokenizer is None:
            raise TargetError(f"{self.name}: no tokenizer, expected token ids")
        if self.tokenizer.chat_template:
            message = [{"role": "user", "content": prompt}]
            try:
                tokens = self.tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
            except Exception as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise TargetError(f"{self.name}: its chat template fails ({reason[:160]})") from error
            return list(tokens)
        return list(self.tokenizer(prompt)["input_ids"])

    def decode(self, tokens: list[int]) -> str:
        """Turn output tokens into text."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def new_cache(self, capacity: int) -> RowCache:
        """Make an empty cache for ``capacity`` rows."""
        return RowCache(int(self.model.config.num_hidden_layers), capacity)

    @torch.inference_mode()
    def prefill(self, tokens: list[int], cache: RowCache, reads: FeatureAddress | None = None) -> TargetRows:
        """Feed and commit text; return the logits of its last row, and the states of all rows that ``reads`` names."""
        packed = pack_text(tokens, cache.committed, self.device)
        rows = self._forward(packed, cache, reads, logits_to_keep=1)
        cache.commit(list(range(len(tokens))))
        return rows

    @torch.inference_mode()
    def verify(self, packed: Packed, cache: RowCache, reads: FeatureAddress | None = None) -> TargetRows:
        """Feed the rows of a tree provisionally; return their logits, and the states that ``reads`` names."""
        return self._forward(packed, cache, reads, logits_to_keep=0)

    def _forward(
        self, packed: Packed, cache: RowCache, reads: FeatureAddress | None, logits_to_keep: int
    ) -> TargetRows:
        output = self.model(
            packed.tokens,
            attention_mask=self._mask(packed),
            position_ids=packed.positions,
            cache=cache,
            use_cache=True,
            logits_to_keep=logits_to_keep,
            output_hidden_states=reads is not None,
        )
        return TargetRows(output.logits[0].float(), reads.take(output.hidden_states)[0] if reads else None)

    def _mask(self, packed: Packed) -> Any:
        """Give one mask, or one for each kind of attention where the model has several."""
        kinds = getattr(self.model.config, "layer_types", None)
        if self.window is None:
            return self._form(packed.mask)
        # The key of a context row sits at its own index; the keys of the tree sit at their depth positions.
        mask, query = packed.mask, packed.positions[0]
        if mask is None:
            mask = torch.ones(1, 1, 1, int(query[0]) + 1, dtype=torch.bool, device=query.device)
        context = mask.shape[-1] - len(query)
        keys = torch.cat([torch.arange(context, device=query.device), query])
        near = query[:, None] - keys[None, :] < self.window
        sliding = self._form(mask & near[None, None])
        return {"full_attention": self._form(mask), "sliding_attention": sliding} if kinds else sliding

    def _form(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """Give the mask in the form that the model's attention takes: true and false, or numbers to add."""
        if mask is None or self.model.config._attn_implementation == "sdpa":
            return mask
        lowest = torch.finfo(self.model.dtype).min
        return torch.zeros(mask.shape, dtype=self.model.dtype, device=mask.device).masked_fill(~mask, lowest)


def _check_folder(folder: Path) -> None:
    """Name what a target folder lacks before transformers looks for it elsewhere."""
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder, expected a Hugging Face model folder")
    if not (folder / "config.json").is_file():
        raise TargetError(f"{folder}: no config.json, expected a Hugging Face model folder")
    if not any(folder.glob("*.safetensors")):
        raise TargetError(f"{folder}: no *.safetensors weights, expected a Hugging Face model folder with weights")
    try:
        AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TargetError(f"{folder}: config.json is not usable ({reason[:200]})") from error
