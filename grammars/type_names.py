"""Keys of a Python type's maps. Owns the texts from which a key is read: in JSON it is a name.

It must not know of values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

Core = dict[str, Any]
Schema = dict[str, Any]

_AS_STRINGS = frozenset({"str", "bytes", "date", "time", "datetime", "timedelta", "uuid", "url"})
"""Core types that are read from a name as from any other string."""

_INTEGER = r"^(?:0|-?[1-9][0-9]{0,99})$"
_DECIMAL = r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$"
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "max_digits", "decimal_places")


class Names:
    """Reads the core schemas of keys. `strings`: the JSON schema of one that is a string's."""

    def __init__(self, definitions: Mapping[str, Core], strings: Callable[[Core], Schema]) -> None:
        self._definitions = definitions
        self._strings = strings

    def of(self, core: Core) -> Schema | None:
        """The schema of the names that are read as `core`; None where it is not known."""
        kind = core["type"]
        if kind == "any":
            return {}
        if kind == "definition-ref":
            target = self._definitions.get(core["schema_ref"])
            return None if target is None else self.of(target)
        if kind in {"definitions", "nullable"} or kind.startswith("function-"):
            return self._strings(core) if "schema" not in core else self.of(core["schema"])
        if kind == "lax-or-strict":
            inner = core["lax_schema"]
            is_text = inner["type"] == "function-plain" or "str" in _kinds_below(inner)
            return self._strings(core) if is_text else None
        if kind == "union":
            return self._any_of(core)
        if kind in {"literal", "enum"}:
            return _members(core)
        if kind in _AS_STRINGS:
            return self._strings(core)
        return _numbers(core)

    def _any_of(self, core: Core) -> Schema | None:
        parts = [part[0] if isinstance(part, tuple) else part for part in core["choices"]]
        found = [self.of(part) for part in parts if part["type"] != "none"]
        known = [schema for schema in found if schema is not None]
        return {"anyOf": known} if known and len(known) == len(found) else None


def _kinds_below(core: Core) -> set[str]:
    """The core type that a function checks."""
    return {core["schema"]["type"]} if "schema" in core else set()


def _members(core: Core) -> Schema | None:
    """The members that a string is read as; an IntEnum is read from digits."""
    if core["type"] == "literal":
        values = core["expected"]
    else:
        values = [member.value for member in core["members"]]
    texts = [str(v.value) if isinstance(v, Enum) else v for v in values if isinstance(v, str)]
    if core.get("sub_type") == "int":
        texts = [str(value) for value in values]
    return {"enum": texts} if texts else None


def _numbers(core: Core) -> Schema | None:
    kind, asked = core["type"], {name for name in _LIMITS if core.get(name) is not None}
    if kind == "bool":
        return {"enum": ["true", "false"]}
    if kind == "int" and all(isinstance(core[name], int) for name in asked - {"multiple_of"}):
        bounds = _integer_bounds(core)
        found = {"type": "string", "pattern": _INTEGER, **({"allOf": bounds} if bounds else {})}
        return None if "multiple_of" in asked else found
    if kind in {"float", "decimal"} and not asked:
        return {"type": "string", "pattern": _DECIMAL}
    return None


def _integer_bounds(core: Core) -> list[Schema]:
    """Patterns of the integers within bounds, among those without leading zeros."""
    lows = [core["ge"]] if core.get("ge") is not None else []
    lows += [core["gt"] + 1] if core.get("gt") is not None else []
    highs = [core["le"]] if core.get("le") is not None else []
    highs += [core["lt"] - 1] if core.get("lt") is not None else []
    patterns = [_from(low, "", "-") for low in lows] + [_from(-high, "-", "") for high in highs]
    return [{"pattern": pattern} for pattern in patterns]


def _from(low: int, sign: str, other: str) -> str:
    """The integers from `low` on, or, with the signs exchanged, those down to its negative."""
    if low > 0:
        return f"^{sign}(?:{texts_from(str(low))}|[1-9][0-9]{{{len(str(low))},}})$"
    digits = str(-low)
    shorter = f"|[0-9]{{1,{len(digits) - 1}}}" if len(digits) > 1 else ""
    return f"^(?:{sign}[0-9]+|0|{other}(?:{texts_to(digits)}{shorter}))$"


def texts_from(low: str) -> str:
    """The texts from `low` on that have digits where it has some, and the same in between."""
    return _compared(low, lambda digit: f"[{chr(ord(digit) + 1)}-9]" if digit < "9" else "")


def texts_to(high: str) -> str:
    """Those up to `high`."""
    return _compared(high, lambda digit: f"[0-{chr(ord(digit) - 1)}]" if digit > "0" else "")


def _compared(text: str, beyond: Callable[[str], str]) -> str:
    found = [text]
    for index, char in enumerate(text):
        if char.isdigit() and beyond(char):
            rest = "".join("[0-9]" if c.isdigit() else c for c in text[index + 1 :])
            found.append(f"{text[:index]}{beyond(char)}{rest}")
    return f"(?:{'|'.join(found)})"


def date_bounds(core: Core) -> list[Schema] | None:
    """Patterns of the dates within bounds; None where they leave none."""
    found: list[Schema] = []
    one_day = dt.timedelta(1)
    try:
        for name, compared, days in (
            *(("ge", texts_from, 0), ("gt", texts_from, 1)),
            *(("le", texts_to, 0), ("lt", texts_to, -1)),
        ):
            if core.get(name) is not None:
                day: dt.date = core[name] + days * one_day
                found.append({"pattern": f"^{compared(day.isoformat())}$"})
    except OverflowError:
        return None
    return found
