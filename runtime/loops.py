"""Looping output: a small target repeats itself, and copies of itself are easy to draft."""

from __future__ import annotations

from collections.abc import Sequence


def loops(tokens: Sequence[int], copies: int = 3, least: int = 24) -> bool:
    """Tell whether an output ends in at least ``copies`` copies of one run, ``least`` tokens or more in all.

    Such rows inflate every figure of acceptance: report them beside it.
    """
    for period in range(1, len(tokens) // copies + 1):
        length = max(copies * period, least)
        if length > len(tokens):
            break
        tail = tokens[-length:]
        if list(tail[period:]) == list(tail[:-period]):
            return True
    return False
