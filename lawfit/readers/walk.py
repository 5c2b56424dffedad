"""A walk over nested JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def objects(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every JSON object within ``value``, itself included, with its path such as ``.runs[0].timings``."""
    left = [("", value)]
    while left:
        name, item = left.pop()
        if isinstance(item, dict):
            yield name, item
            left += reversed([(f"{name}.{key}", child) for key, child in item.items()])
        elif isinstance(item, list):
            left += reversed([(f"{name}[{k}]", child) for k, child in enumerate(item)])
