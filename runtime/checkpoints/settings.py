"""The settings of a published head: a config.json that anybody may have written, one checked value at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lawfit.errors import LawfitError
from lawfit.json_object import read_object
from runtime.errors import ManifestMismatch

CONFIG = "config.json"
_MOST_CHARACTERS = 1_000_000
# Far beyond any head: what is larger is a mistake or an attack, and must not reach an allocation.
MOST_WIDTH = 1 << 20
MOST_LAYERS = 64


@dataclass(frozen=True)
class Settings:
    """Values of a configuration by name, with defaults where the published classes have them.

    Attributes
    ----------
    values
        As they stand in the file, over the defaults.
    source
        File, and part of it, for messages.
    """

    values: Mapping[str, Any]
    source: str

    def over(self, defaults: Mapping[str, Any]) -> Settings:
        """Fill in what the file leaves out."""
        return Settings({**defaults, **self.values}, self.source)

    def fail(self, name: str, expected: str) -> ManifestMismatch:
        """Make the error of a field."""
        found = f"{self.values[name]!r:.60}" if name in self.values else "absent"
        return ManifestMismatch(f"{self.source}: {name} is {found}, expected {expected}")

    def size(self, name: str, most: int = MOST_WIDTH, least: int = 1) -> int:
        """Read a whole number from ``least`` to ``most``."""
        value = self.values.get(name)
        if type(value) is not int or not least <= value <= most:
            raise self.fail(name, f"a whole number from {least} to {most}")
        return value

    def sizes(self, name: str, most: int) -> tuple[int, ...]:
        """Read a list of whole numbers from 0 to ``most``, not more than there can be layers."""
        value = self.values.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_LAYERS:
            raise self.fail(name, f"a list of at most {MOST_LAYERS} layers")
        if any(type(entry) is not int or not 0 <= entry <= most for entry in value):
            raise self.fail(name, f"layers from 0 to {most}")
        return tuple(value)

    def flag(self, name: str) -> bool:
        """Read true or false; false where it is absent."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.fail(name, "true or false")
        return value

    def positive(self, name: str) -> float:
        """Read a positive number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise self.fail(name, "a positive number")
        return float(value)

    def part(self, name: str) -> Settings:
        """Read an object within it; an empty one where it is absent or null."""
        value = self.values.get(name)
        value = {} if value is None else value
        if not isinstance(value, dict):
            raise self.fail(name, "an object")
        return Settings(value, f"{self.source}: {name}")

    def require(self, name: str, expected: object, meaning: str = "") -> None:
        """Check that a field has one value; where it is absent or null, that is as good."""
        value = self.values.get(name)
        if value is not None and value != expected:
            raise self.fail(name, f"{expected!r}{f', {meaning}' if meaning else ''}")


def read_settings(folder: Path) -> Settings:
    """Read the config.json of a folder.

    Raises
    ------
    ManifestMismatch
        It is absent, too long, or not a JSON object of finite numbers.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise ManifestMismatch(f"{folder}: no {CONFIG}, expected a published draft head")
    try:
        if path.stat().st_size > 4 * _MOST_CHARACTERS:
            raise ManifestMismatch(f"{path}: {path.stat().st_size} bytes, expected at most {4 * _MOST_CHARACTERS}")
        return Settings(read_object(path.read_text(encoding="utf-8"), str(path), _MOST_CHARACTERS), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestMismatch(f"{path}: cannot be read ({error!s:.120})") from error
    except ManifestMismatch:
        raise
    except LawfitError as error:
        raise ManifestMismatch(f"{error!s:.300}") from error
