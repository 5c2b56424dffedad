"""The target's key-value cache as rows that can be committed or forgotten."""

from __future__ import annotations

from collections.abc import Set
from itertools import pairwise
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from runtime.errors import CommitError
from runtime.image import ImageState


class RowLayer(CacheLayerMixin):
    """One layer's keys and values in a buffer of fixed capacity, written in place.

    ``length`` rows are in use: the committed prefix, and after a verify pass the rows of the draft tree behind it.
    Every layer keeps all rows: a sliding window is a matter of the mask, so rejected rows can always be forgotten.
    """

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate the buffers once the head shape is known."""
        batch, heads, _, _ = key_states.shape
        self.keys = key_states.new_zeros(batch, heads, self.capacity, key_states.shape[3])
        self.values = value_states.new_zeros(batch, heads, self.capacity, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new rows and return all rows in use: (1, heads, length, head_dim) each."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, stop = self.length, self.length + key_states.shape[2]
        if stop > self.capacity:
            raise CommitError(f"cache of {self.capacity} rows cannot take rows {start}..{stop - 1}")
        self.keys[:, :, start:stop] = key_states
        self.values[:, :, start:stop] = value_states
        self.length = stop
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    @torch.inference_mode()
    def keep(self, base: int, rows: torch.Tensor) -> None:
        """Move ``rows`` (offsets behind ``base``, increasing) to directly behind ``base`` and forget the rest."""
        stop = base + len(rows)
        self.keys[:, :, base:stop] = self.keys[:, :, base + rows]
        self.values[:, :, base:stop] = self.values[:, :, base + rows]
        self.length = stop

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return key length and offset of a pass over ``query_length`` rows."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Return the rows in use."""
        return self.length

    def get_max_length(self) -> int:
        """Return the capacity."""
        return self.capacity


class ImageLayer(CacheLayerMixin):
    """One cross-attention layer's keys and values: of the image alone, written once, and no row of the text."""

    is_sliding = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Take the image's keys and values."""
        self.keys, self.values = key_states, value_states
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take the image's keys and values, (1, heads, patches, head_dim) each, and return them."""
        if self.is_initialized:
            raise CommitError("a second image for a cache that holds one already")
        self.lazy_initialization(key_states, value_states)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return key length and offset."""
        return (self.keys.shape[2] if self.is_initialized else 0), 0

    def get_seq_length(self) -> int:
        """Return the rows of text: none."""
        return 0

    def get_max_length(self) -> int:
        """Return that there is no limit."""
        return -1


class RowCache(Cache):
    """The cache of one request.

    Attributes
    ----------
    committed
        Rows that belong to the output; rows behind them are provisional until `commit`.
    image
        What the rows behind an image need of it.
    """

    def __init__(self, layers: int, capacity: int, cross: Set[int] = frozenset()) -> None:
        super().__init__(layers=[ImageLayer() if k in cross else RowLayer(capacity) for k in range(layers)])
        self.rows = [layer for layer in self.layers if isinstance(layer, RowLayer)]
        self.capacity, self.cross = capacity, cross
        self.committed = 0
        self.image: ImageState | None = None

    @property
    def provisional(self) -> int:
        """Rows fed since the last commit."""
        return self.rows[0].length - self.committed

    @torch.inference_mode()
    def fork(self) -> RowCache:
        """Copy the committed rows, for another way on from the same state; what comes of the image is shared."""
        twin = RowCache(len(self.layers), self.capacity, self.cross)
        for layer, source in zip(twin.layers, self.layers, strict=True):
            if not source.is_initialized:
                continue
            if isinstance(source, ImageLayer):
                layer.lazy_initialization(source.keys, source.values)
                continue
            layer.lazy_initialization(source.keys[:, :, :1], source.values[:, :, :1])
            layer.keys[:, :, : self.committed] = source.keys[:, :, : self.committed]
            layer.values[:, :, : self.committed] = source.values[:, :, : self.committed]
            layer.length = self.committed
        twin.committed, twin.image = self.committed, self.image
        return twin

    def commit(self, rows: list[int]) -> None:
        """Publish the provisional ``rows`` (increasing verifier row indices) and forget all others.

        Raises
        ------
        CommitError
            An index is not a provisional row, or the indices do not increase. Nothing is changed then.
        """
        increasing = all(a < b for a, b in pairwise(rows))
        if not increasing or (rows and not 0 <= rows[0] <= rows[-1] < self.provisional):
            raise CommitError(f"commit of rows {rows}, expected increasing indices below {self.provisional}")
        if rows == list(range(len(rows))):
            # A prefix is already where it belongs.
            for layer in self.rows:
                layer.length = self.committed + len(rows)
        else:
            index = torch.tensor(rows, device=self.rows[0].keys.device)
            for layer in self.rows:
                layer.keep(self.committed, index)
        self.committed += len(rows)
