"""Calibrations as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_type_hints

from lawfit.calibration.calibration import HAZARDS, Calibration
from lawfit.calibration.shrinkage import Levels
from lawfit.errors import LawfitError
from lawfit.json_object import read_object, require_keys, short_errors
from lawfit.laws.details import typed

FORMAT, VERSION = "lawfit.calibration", 1
KEYS = {"format", "version", "method", "hazard", "levels", "nodes", "prompts", "source"}


def encode(calibration: Calibration) -> str:
    """Write ``calibration`` as a JSON object."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "method": calibration.hazard.name,
        "hazard": asdict(calibration.hazard),
        "levels": None if calibration.levels is None else asdict(calibration.levels),
        "nodes": calibration.nodes,
        "prompts": calibration.prompts,
        "source": calibration.source,
    }
    return json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def decode(text: str, source: str) -> Calibration:
    """Read a calibration."""
    with short_errors(source):
        return _decode(text, source)


def _decode(text: str, source: str) -> Calibration:
    record = read_object(text, source)
    try:
        # Half of a surrogate pair is valid JSON and no text: it could be neither printed nor written again.
        json.dumps(record, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise LawfitError(f"{source}: holds text that is none, or nests too deep ({type(error).__name__})") from error
    if record.get("format") != FORMAT:
        raise LawfitError(f"{source}: format is {record.get('format')!r}, expected {FORMAT!r}")
    if type(record.get("version")) is not int or record["version"] != VERSION:
        raise LawfitError(
            f"{source}: calibration version {record.get('version')!r}, this lawfit reads version {VERSION}"
        )
    require_keys(record, KEYS, source)
    method = record["method"]
    kind = HAZARDS.get(method) if isinstance(method, str) else None
    if kind is None:
        raise LawfitError(f"{source}: method is {method!r}, expected one of {', '.join(HAZARDS)}")
    try:
        return Calibration(
            hazard=_build(kind, record["hazard"], f"{source}: hazard"),
            levels=None if record["levels"] is None else _build(Levels, record["levels"], f"{source}: levels"),
            nodes=typed(record["nodes"], float, f"{source}: nodes"),
            prompts=typed(record["prompts"], int | None, f"{source}: prompts"),
            source=typed(record["source"], str, f"{source}: source"),
        )
    except OverflowError as error:
        raise LawfitError(f"{source}: holds a number too large for a float") from error


def _build(kind: type, values: Any, where: str) -> Any:
    """Build a dataclass from JSON values: every field present, known, of its type, and accepted by the class."""
    if not isinstance(values, dict):
        raise LawfitError(f"{where} is {str(values)[:80]!r}, expected an object")
    hints = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    require_keys(values, set(hints), where)
    arguments = {name: _value(values[name], hint, f"{where}: {name}") for name, hint in hints.items()}
    try:
        return kind(**arguments)
    except LawfitError as error:
        raise LawfitError(f"{where}: {error}") from error


def _value(value: Any, hint: Any, where: str) -> Any:
    inner = next((option for option in get_args(hint) if is_dataclass(option)), None) if _optional(hint) else hint
    if not is_dataclass(inner):
        return typed(value, hint, where)
    if value is None and _optional(hint):
        return None
    return _build(inner, value, where)  # type: ignore[arg-type]


def _optional(hint: Any) -> bool:
    return isinstance(hint, UnionType) and type(None) in get_args(hint)
