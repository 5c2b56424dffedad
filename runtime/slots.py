"""Greedy decoding of many prompts at once: a slot that ends is filled with the next prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from runtime.target import Target


class SlotLayer(CacheLayerMixin):
    """Keys and values of B slots, each with its own length; a pass adds one row to every slot."""

    is_sliding = False

    def __init__(self, slots: int, capacity: int) -> None:
        super().__init__()
        self.slots, self.capacity = slots, capacity
        self.places = torch.zeros(slots, dtype=torch.long)
        self.reach = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate the buffers once the head shape is known."""
        _, heads, _, width = key_states.shape
        self.keys = key_states.new_zeros(self.slots, heads, self.capacity, width)
        self.values = value_states.new_zeros(self.slots, heads, self.capacity, value_states.shape[3])
        self.rows = torch.arange(self.slots)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one row to each slot at its place, and return the rows up to the longest."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys[self.rows, :, self.places] = key_states[:, :, 0]
        self.values[self.rows, :, self.places] = value_states[:, :, 0]
        return self.keys[:, :, : self.reach], self.values[:, :, : self.reach]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return key length and offset of a pass."""
        return self.reach, 0

    def get_seq_length(self) -> int:
        """Return the rows of the longest slot."""
        return self.reach

    def get_max_length(self) -> int:
        """Return the capacity."""
        return self.capacity


class Slots:
    """B greedy requests in step."""

    def __init__(self, target: Target, slots: int, capacity: int) -> None:
        self.target, self.capacity = target, capacity
        self.cache = Cache(layers=[SlotLayer(slots, capacity) for _ in range(target.layers)])
        self.lengths = torch.zeros(slots, dtype=torch.long)
        self.pending = torch.zeros(slots, dtype=torch.long)

    @torch.inference_mode()
    def fill(self, slot: int, prompt: Sequence[int]) -> int:
        """Prefill a prompt into a slot; return its first output token."""
        own = self.target.new_cache(len(prompt))
        first = self.target.prefill(list(prompt), own).choices[-1]
        for layer, source in zip(self.cache.layers, own.layers, strict=True):
            if not source.is_initialized:  # a layer that looks at images only: text goes past it
                continue
            if not layer.is_initialized:
                layer.lazy_initialization(source.keys, source.values)
            layer.keys[slot, :, : len(prompt)] = source.keys[0, :, : len(prompt)]
            layer.values[slot, :, : len(prompt)] = source.values[0, :, : len(prompt)]
        self.lengths[slot], self.pending[slot] = len(prompt), first
        return first

    @torch.inference_mode()
    def rest(self, idle: Sequence[int]) -> None:
        """Let idle slots write where nobody reads, and not reach far."""
        for slot in idle:
            self.lengths[slot] = 0

    @torch.inference_mode()
    def step(self) -> list[int]:
        """Feed the pending token of every slot, and return the next one of each."""
        reach = int(self.lengths.max()) + 1
        for layer in self.cache.layers:
            layer.places, layer.reach = self.lengths, reach
        mask = (torch.arange(reach) <= self.lengths[:, None])[:, None, None]
        output = self.target.model(
            self.pending[:, None],
            attention_mask=self.target._form(mask),
            position_ids=self.lengths[:, None],
            cache=self.cache,
            use_cache=True,
        )
        self.lengths = self.lengths + 1
        self.pending = output.logits[:, -1].argmax(-1)
        return list(self.pending.tolist())


def generate_many(
    target: Target, prompts: Iterator[Sequence[int]], slots: int, max_new_tokens: int, longest_prompt: int = 400
) -> Iterator[tuple[list[int], list[int]]]:
    """Decode prompts greedily as they come, and yield (prompt, output) as they end.

    Prompts longer than ``longest_prompt`` are passed over. In bf16 the tokens are those of a batch, which may differ
    from those of single decoding where two logits nearly tie: rows to train on, not a reference output.
    """
    state = Slots(target, slots, longest_prompt + max_new_tokens + 1)
    fitting = (list(prompt) for prompt in prompts if len(prompt) <= longest_prompt)
    running: dict[int, tuple[list[int], list[int]]] = {}
    free = list(range(slots))
    while True:
        while free and (prompt := next(fitting, None)) is not None:
            slot = free.pop()
            running[slot] = (prompt, [state.fill(slot, prompt)])
        if not running:
            return
        state.rest(free)
        ended = [slot for slot, (_, out) in running.items() if out[-1] in target.eos or len(out) == max_new_tokens]
        for slot in ended:
            yield running.pop(slot)
            free.append(slot)
        if ended:
            continue
        for slot, token in enumerate(state.step()):
            if slot in running:
                running[slot][1].append(token)
