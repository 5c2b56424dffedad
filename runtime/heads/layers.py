"""Parts of draft heads: norm, rotary positions, attention over rows with a mask, and one decoder layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of a head's layers.

    Attributes
    ----------
    hidden, heads, kv_heads, inner
        Width, query heads, key-value heads, and width inside the feed-forward part.
    theta
        Base of the rotary positions.
    head_width
        Width of one attention head; 0 for ``hidden / heads``.
    query_norm
        Whether queries and keys are RMS-normed in each head before they are turned (Qwen3).
    eps
        Of the norms.
    query_bias, output_bias
        Whether queries, keys and values, and what leaves the attention, have a bias.
    rotary
        How the rotary speeds are stretched: not, ``linear`` by ``rotary_factor``, or ``llama3``, which stretches the
        waves longer than ``rotary_context / rotary_low``, leaves those shorter than ``rotary_context / rotary_high``
        and blends between.
    rotary_factor, rotary_low, rotary_high, rotary_context
        Of the stretching.
    """

    hidden: int
    heads: int
    kv_heads: int
    inner: int
    theta: float = 10000.0
    head_width: int = 0
    query_norm: bool = False
    eps: float = 1e-5
    query_bias: bool = False
    output_bias: bool = False
    rotary: Literal["default", "linear", "llama3"] = "default"
    rotary_factor: float = 1.0
    rotary_low: float = 1.0
    rotary_high: float = 4.0
    rotary_context: int = 0

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.head_width or self.hidden // self.heads


def unit_rms(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Divide the last axis by its root mean square, computed in fp32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


class RMSNorm(nn.Module):
    """Root-mean-square norm with a gain, computed in fp32."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return unit_rms(x, self.eps) * self.weight


def rotary_speeds(shape: Shape, device: torch.device | None = None) -> Tensor:
    """Give the radians per position of each pair of a head's width, (head_dim / 2,) fp32."""
    half = shape.head_dim // 2
    speed = shape.theta ** (-torch.arange(half, dtype=torch.float32, device=device) / half)
    if shape.rotary == "linear":
        return speed / shape.rotary_factor
    if shape.rotary == "llama3":
        turns = shape.rotary_context * speed / (2 * math.pi)
        kept = ((turns - shape.rotary_low) / (shape.rotary_high - shape.rotary_low)).clamp(0, 1)
        return kept * speed + (1 - kept) * speed / shape.rotary_factor
    return speed


def rotate(x: Tensor, positions: Tensor, shape: Shape) -> Tensor:
    """Turn (B, heads, R, head_dim) by their positions (B, R) or (R,): rotary embeddings in halves."""
    half = x.shape[-1] // 2
    angle = positions.float()[..., None] * rotary_speeds(shape, x.device)
    angle = angle[:, None] if angle.ndim == 3 else angle
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


@dataclass(frozen=True, eq=False)
class Keys:
    """Rows that queries may attend to: keys and values (B, kv_heads, K, head_dim)."""

    keys: Tensor
    values: Tensor

    def join(self, more: Keys) -> Keys:
        """Put more rows behind these."""
        return Keys(torch.cat([self.keys, more.keys], dim=2), torch.cat([self.values, more.values], dim=2))

    def rows(self, index: Tensor | slice) -> Keys:
        """Take rows by index."""
        return Keys(self.keys[:, :, index], self.values[:, :, index])

    @property
    def count(self) -> int:
        """Count the rows."""
        return int(self.keys.shape[2])


def windowed(mask: Tensor, positions: Tensor, window: int, causal: bool) -> Tensor:
    """Narrow a mask to what a sliding layer sees: keys less than ``window`` positions away, and none ahead if causal.

    Parameters
    ----------
    mask : (B or 1, 1, R, C + R)
        Over context rows at the positions 0 to C - 1 and, behind them, the rows themselves.
    positions : (B, R) or (R,)
        Of the rows.
    """
    own = positions if positions.ndim == 2 else positions[None]
    context = torch.arange(mask.shape[-1] - own.shape[-1], device=own.device).expand(len(own), -1)
    ahead = torch.cat([context, own], dim=-1)[:, None] - own[..., None]
    near = (ahead > -window) & (ahead < (1 if causal else window))
    return mask & near[:, None]


class Attention(nn.Module):
    """Grouped-query attention whose keys may come from other rows than its queries."""

    def __init__(self, shape: Shape, source: int | None = None) -> None:
        super().__init__()
        width = shape.hidden if source is None else source
        self.shape = shape
        self.q_proj = nn.Linear(width, shape.heads * shape.head_dim, bias=shape.query_bias)
        self.k_proj = nn.Linear(width, shape.kv_heads * shape.head_dim, bias=shape.query_bias)
        self.v_proj = nn.Linear(width, shape.kv_heads * shape.head_dim, bias=shape.query_bias)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=shape.output_bias)
        if shape.query_norm:
            self.q_norm = RMSNorm(shape.head_dim, shape.eps)
            self.k_norm = RMSNorm(shape.head_dim, shape.eps)

    def project(self, x: Tensor, positions: Tensor) -> Keys:
        """Make keys and values of rows (B, R, d)."""
        keys = self._split(self.k_proj(x), self.shape.kv_heads)
        keys = self.k_norm(keys) if self.shape.query_norm else keys
        return Keys(rotate(keys, positions, self.shape), self._split(self.v_proj(x), self.shape.kv_heads))

    def forward(self, x: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Attend from rows (B, R, d) to ``seen`` under ``mask`` (B or 1, 1, R, K), true where visible."""
        queries = self._split(self.q_proj(x), self.shape.heads)
        queries = self.q_norm(queries) if self.shape.query_norm else queries
        queries = rotate(queries, positions, self.shape)
        out = functional.scaled_dot_product_attention(
            queries, seen.keys, seen.values, attn_mask=mask, enable_gqa=self.shape.heads != self.shape.kv_heads
        )
        return torch.as_tensor(self.o_proj(out.transpose(1, 2).flatten(2)))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.shape.head_dim)).transpose(1, 2)


class FeedForward(nn.Module):
    """Gated feed-forward part."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., d) to (..., d)."""
        return torch.as_tensor(self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x)))


class DecoderLayer(nn.Module):
    """One pre-norm layer: attention and feed-forward, each added to its input."""

    def __init__(self, shape: Shape, *, first_norm: bool = True) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.eps) if first_norm else nn.Identity()
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.mlp = FeedForward(shape)

    def keys(self, x: Tensor, positions: Tensor) -> Keys:
        """Make the keys and values that rows (B, R, d) offer to others and to themselves."""
        return self.self_attn.project(self.input_layernorm(x), positions)

    def forward(self, x: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Map rows (B, R, d) to (B, R, d); ``seen`` holds all rows that ``mask`` speaks of, their own included."""
        x = x + self.self_attn(self.input_layernorm(x), positions, seen, mask)
        return torch.as_tensor(x + self.mlp(self.post_attention_layernorm(x)))
