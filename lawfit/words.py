"""Words of messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 round``, ``2 rounds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
