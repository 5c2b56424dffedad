"""Laws as JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from lawfit.errors import LawfitError
from lawfit.json_object import read_object, require_keys, short_errors
from lawfit.laws.details import FitDetails, typed

if TYPE_CHECKING:
    from lawfit.laws.base import Law

FORMAT, VERSION = "lawfit.law", 1
KEYS = {"format", "version", "law", "values", "fitted"}

# Beyond any fit, and squares still do not overflow.
_HUGE = 1e100

L = TypeVar("L", bound="Law")


def encode(law: Law) -> str:
    """Write ``law`` as a JSON object."""
    values = {field.name: getattr(law, field.name) for field in fields(law) if field.name != "fitted"}
    fitted = None if law.fitted is None else law.fitted.to_fields()
    record = {"format": FORMAT, "version": VERSION, "law": law.name, "values": values, "fitted": fitted}
    return json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def decode(text: str, kind: type[L], source: str) -> L:
    """Read a law that must be a ``kind``."""
    with short_errors(source):
        return _decode(text, kind, source)


def _decode(text: str, kind: type[L], source: str) -> L:
    from lawfit.laws import LAWS
    from lawfit.laws.base import require_horizon

    record = read_object(text, source)
    if record.get("format") != FORMAT:
        raise LawfitError(f"{source}: format is {record.get('format')!r}, expected {FORMAT!r}")
    if type(record.get("version")) is not int or record["version"] != VERSION:
        raise LawfitError(f"{source}: law version {record.get('version')!r}, this lawfit reads version {VERSION}")
    require_keys(record, KEYS, source)
    name = record["law"]
    law = LAWS.get(name) if isinstance(name, str) else None
    if law is None:
        raise LawfitError(f"{source}: law is {name!r}, expected one of {', '.join(LAWS)}")
    if not issubclass(law, kind):
        raise LawfitError(f"{source}: holds the law {name}, expected {kind.name}")
    fitted = record["fitted"]
    details = None if fitted is None else FitDetails.from_fields(fitted, source)
    made = law(**_values(law, record["values"], source), fitted=details)
    if made.ends:
        # A law that ends holds a hazard for each offset, however it came by its horizon.
        require_horizon(made.horizon)
    return made


def _values(law: type[Law], values: Any, source: str) -> dict[str, Any]:
    """Check the constructor's arguments: present, known and of their types."""
    if not isinstance(values, dict):
        raise LawfitError(f"{source}: values is {values!r}, expected an object")
    hints = get_type_hints(law)
    names = {field.name for field in fields(law) if field.name != "fitted"}
    require_keys(values, names, source)
    made = {name: typed(values[name], hints[name], f"{source}: {name}") for name in names}
    for name, value in made.items():
        several = value if isinstance(value, tuple) else (value,)
        # Edges are no coefficients but entropies as logged.
        if name != "edges" and any(isinstance(x, float) and abs(x) > _HUGE for x in several):
            raise LawfitError(f"{source}: {name} is {value}, expected coefficients within +-{_HUGE:g}")
    return made
