"""The frozen target: a Hugging Face language model, with or without images, behind four calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from runtime.cache import RowCache
from runtime.errors import TargetError
from runtime.image import Image, ImageState
from runtime.loading import DTYPES, load_model
from runtime.pack import Packed, pack_text
from runtime.packed import pack_weights
from runtime.selfcheck import check_rows
from runtime.states import FeatureAddress, TargetRows
from runtime.vision import FAMILIES, Vision, reserved_tokens, vision_of

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
        model, tokenizer = load_model(folder, dtype, device)
        return cls.wrap(model, tokenizer, name=folder.resolve().name)

    @classmethod
    def wrap(cls, model: Any, tokenizer: Any = None, name: str = "model") -> Target:
        """Freeze a model that is already in memory."""
        config = model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or {"full_attention"})
        if not kinds <= _ATTENTION:
            raise TargetError(f"{name}: layers {sorted(kinds - _ATTENTION)} keep a state that cannot be rolled back")
        if any("local" in str(kind) for kind in getattr(config, "attention_layers", None) or ()):
            raise TargetError(f"{name}: its local attention goes by cache row and not by position, which trees need")
        model.eval().requires_grad_(False)
        ends = model.generation_config.eos_token_id if model.generation_config else None
        ends = config.eos_token_id if ends is None else ends
        target = cls(model, tokenizer, name, frozenset([ends] if isinstance(ends, int) else ends or ()))
        # Before the weights are laid out anew: the model as transformers runs it is the reference.
        check_rows(target)
        pack_weights(model)
        return target

    @cached_property
    def config(self) -> Any:
        """Configuration of the language model, which may be one part of a larger model."""
        return self.model.config.get_text_config(decoder=True)

    @cached_property
    def vision(self) -> Vision | None:
        """The image side, where the target has one."""
        return vision_of(self.model)

    @cached_property
    def reserved(self) -> frozenset[int]:
        """Tokens that stand for images or videos."""
        return reserved_tokens(self.model.config)

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
        limits = [getattr(self.config, name, None) for name in ("max_position_embeddings", "n_positions")]
        rope = getattr(self.config, "rope_parameters", None) or {}
        if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
            # Beyond it the factors change, and keys that were cached before would be wrong.
            limits.append(rope.get("original_max_position_embeddings"))
        return min((int(limit) for limit in limits if limit), default=1 << 20)

    @property
    def window(self) -> int | None:
        """Length of the sliding window, where the model has one."""
        config = self.config
        kinds = getattr(config, "layer_types", None)
        sliding = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
        window = getattr(config, "sliding_window", None)
        return int(window) if sliding and window else None

    @property
    def vocabulary(self) -> int:
        """Size of the output vocabulary."""
        return int(self.config.vocab_size)

    @property
    def input_vocabulary(self) -> int:
        """Tokens that a prompt may hold: some families read image tokens that they cannot write."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @property
    def hidden(self) -> int:
        """Width of the language model's states."""
        return int(self.config.hidden_size)

    @property
    def layers(self) -> int:
        """Decoder layers of the language model, cross-attention layers included."""
        return int(self.config.num_hidden_layers)

    @cached_property
    def cross_layers(self) -> frozenset[int]:
        """Layers that look at the image and keep no row of the text."""
        return frozenset(getattr(self.config, "cross_attention_layers", None) or ())

    def encode(self, prompt: str) -> list[int]:
        """Tokenize a user message with the chat template, or as plain text where the target has none."""
        if self.tokenizer is None:
            raise TargetError(f"{self.name}: no tokenizer, expected token ids")
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise TargetError(f"the prompt's character {error.start + 1} is half of a pair, expected text") from error
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
        return RowCache(self.layers, capacity, self.cross_layers)

    @torch.inference_mode()
    def prefill(
        self, tokens: list[int], cache: RowCache, reads: FeatureAddress | None = None, image: Image | None = None
    ) -> TargetRows:
        """Feed and commit text; return the logits of its last row, and the states of all rows that ``reads`` names.

        Parameters
        ----------
        tokens, cache, reads
            The text, where its rows go, and the states to return.
        image
            What the image tokens of the text show. What later rows need of it stays with the cache.

        Raises
        ------
        TargetError
            Image and image tokens do not belong together, or this target takes no images.
        """
        packed = pack_text(tokens, cache.committed, self.device)
        inputs, state = self._see(tokens, cache, image)
        rows = self._forward(packed, cache, reads, logits_to_keep=1, inputs=inputs)
        cache.commit(list(range(len(tokens))))
        cache.image = state
        return rows

    @torch.inference_mode()
    def verify(self, packed: Packed, cache: RowCache, reads: FeatureAddress | None = None) -> TargetRows:
        """Feed the rows of a tree provisionally; return their logits, and the states that ``reads`` names."""
        return self._forward(packed, cache, reads, logits_to_keep=0)

    def layer_states(self, hidden_states: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Give the embedding and one state per layer, where a pass without an image goes past cross-attention layers.

        A layer that is passed over hands on what it got.
        """
        if len(hidden_states) == self.layers + 1:
            return hidden_states
        run = iter(hidden_states)
        states = [next(run)]
        for layer in range(self.layers):
            states.append(states[-1] if layer in self.cross_layers else next(run))
        return states

    def _see(
        self, tokens: list[int], cache: RowCache, image: Image | None
    ) -> tuple[dict[str, Any] | None, ImageState | None]:
        """Give the arguments that a prompt's image adds, and what later rows need of it."""
        if image is None:
            if self.reserved and (held := sorted(self.reserved.intersection(tokens))):
                raise TargetError(
                    f"{self.name}: the text holds image or video tokens {held}, but no image came with it"
                )
            return None, cache.image
        if self.vision is None:
            kind = self.model.config.model_type
            raise TargetError(f"{self.name}: {kind} takes no images here, expected one of {', '.join(FAMILIES)}")
        if cache.committed:
            raise TargetError(f"{self.name}: an image behind {cache.committed} rows, expected it in the first prefill")
        return self.vision.prefill(tokens, image)

    def _forward(
        self,
        packed: Packed,
        cache: RowCache,
        reads: FeatureAddress | None,
        logits_to_keep: int,
        inputs: dict[str, Any] | None = None,
    ) -> TargetRows:
        rows = {"position_ids": packed.positions} if cache.image is None else cache.image.inputs(packed.positions)
        output = self.model(
            packed.tokens,
            attention_mask=self._mask(packed),
            cache=cache,
            use_cache=True,
            logits_to_keep=logits_to_keep,
            output_hidden_states=reads is not None,
            **(rows | inputs if inputs else rows),
        )
        states = reads.take(self.layer_states(output.hidden_states))[0] if reads else None
        return TargetRows(output.logits[0].float(), states)

    def _mask(self, packed: Packed) -> Any:
        """Give one mask, or one for each kind of attention where the model has several."""
        kinds = getattr(self.config, "layer_types", None)
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
        if mask is None or self.config._attn_implementation == "sdpa":
            return mask
        lowest = torch.finfo(self.model.dtype).min
        return torch.zeros(mask.shape, dtype=self.model.dtype, device=mask.device).masked_fill(~mask, lowest)
