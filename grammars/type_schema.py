"""From a type to a JSON schema that asks all that the type's parser will ask. Owns what pydantic's
own schema leaves out: it is added where that is easy and exact, and refused with its place where it
is not.

* added: the bounds of floats and decimals as their reader rounds, decimals as numbers, datetimes
  and times without a zone, lengths in bytes, lengths of stripped strings;
* refused: every core type and every check of pydantic that is not listed here as described.

A validator that the user wrote is beyond any schema, and left to the parser.
It must not know how a schema is enforced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from grammars.errors import GrammarError, UnsupportedError

Core = dict[str, Any]

_DESCRIBED_TYPES = """
any none bool int float decimal str bytes date time datetime timedelta uuid literal enum list tuple
deque generator set frozenset dict ordered-dict counter frozendict function-before function-after
function-wrap function-plain default nullable union tagged-union chain lax-or-strict json-or-python
typed-dict typed-dict-field model model-fields model-field dataclass dataclass-args dataclass-field
named-tuple named-tuple-field call arguments custom-error definitions definition-ref
"""
_DESCRIBED = frozenset(_DESCRIBED_TYPES.split())
"""Core types whose JSON schema says all that is asked, or is refused by the reader of schemas."""

_WHAT = {
    "complex": "complex numbers",
    "json": "JSON text inside of a string",
    "is-instance": "a check of the instance's class",
    "is-subclass": "a class as its value",
    "callable": "a function as its value",
    "call": "the call of a function",
    "url": "a URL",
    "multi-host-url": "a URL",
}

_INTERNAL = "pydantic._internal"
_EXACT_CHECKS = frozenset(
    {
        (f"{_INTERNAL}._generate_schema", "path_validator"),
        (f"{_INTERNAL}._validators", "ip_v4_address_validator"),
        (f"{_INTERNAL}._validators", "defaultdict_validator"),
        (f"{_INTERNAL}._validators", "sequence_validator"),
        ("pydantic.types", "SecretStr"),
        ("pydantic.types", "SecretBytes"),
        ("pydantic.types", "<lambda>"),  # of Secret[...]
    }
)
"""Functions of pydantic that refuse nothing of what the JSON schema allows."""

_USERS = (f"{_INTERNAL}._decorators", "pydantic.functional_validators", "pydantic.v1")
"""Modules of pydantic whose functions only call what the user wrote."""

_UNSTATED: dict[str, tuple[str, ...]] = {
    "decimal": ("max_digits", "decimal_places", "multiple_of"),
    **dict.fromkeys(("date", "time", "datetime", "timedelta"), ("gt", "ge", "lt", "le")),
}
"""Settings of a core type that its JSON schema does not have."""

_TRIMMED = r"^[^\s\x85](?:[\s\S]*[^\s\x85])?$"

# The reader of schemas takes a pattern in ECMA-262's syntax, pydantic in that of Rust or of Python.
# There, digits and letters are those of Unicode: \d and \w hold for more characters, \D and \W for
# fewer. About white space the three differ in a few characters, which are then not written.
_ASCII = r"^[\x00-\x7f]*$"
_COMPLEMENT = re.compile(r"\\[DW]|\[\^[^\]]*\\[dw]")
_SPACE = re.compile(r"\\[sS]")
_SURE_SPACE = r"^[^\x1c-\x1f\x85\ufeff]*$"
_SETS = re.compile(r"(?<!\\)\[\]?[^\]]*(?<!\\)(?:\[|&&|--|~~)")
"""A set inside of a set of characters (`[[:alpha:]]`, `[a-z&&[^b]]`), which only Rust knows."""


def schema_of(tp: Any, adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON schema whose values all are instances of `tp`, but for validators of the user.

    Raises UnsupportedError for what cannot be described, with its place in the type.
    """
    schema = adapter.json_schema(schema_generator=_ExactJsonSchema)
    core: Any = adapter.core_schema
    if not isinstance(core, dict):  # a stand-in for a type that was not complete when it was made
        core = core.rebuild()
        if not isinstance(core, dict):
            raise GrammarError(f"the type {tp!r} is not complete; define the names that it uses")
    if core["type"] == "call" and not isinstance(core["function"], type):
        raise GrammarError(f"{tp!r} is a function; give a type")
    _Check(tp).visit(core, "", "", {})
    return schema


class _ExactJsonSchema(GenerateJsonSchema):
    """The JSON schema by pydantic, with what it leaves out."""

    def float_schema(self, schema: Any) -> dict[str, Any]:
        return _with_read_bounds(super().float_schema(schema), schema, float)

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        return _with_read_bounds({"type": "number"}, schema, Decimal)

    def str_schema(self, schema: Any) -> dict[str, Any]:
        found = super().str_schema(schema)
        more: list[dict[str, Any]] = []
        if schema.get("strip_whitespace") and not {"minLength", "pattern"}.isdisjoint(found):
            # lengths and patterns are asked of the stripped text: of one that is so already
            more.append({"anyOf": [{"pattern": _TRIMMED}, {"const": ""}]})
        if _COMPLEMENT.search(found.get("pattern", "")):
            more.append({"pattern": _ASCII})
        elif _SPACE.search(found.get("pattern", "")):
            more.append({"pattern": _SURE_SPACE})
        return {**found, "allOf": more} if more else found

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        found = {**super().bytes_schema(schema), "format": "binary"}
        if "maxLength" in found:
            found["pattern"] = _ASCII  # so that a character is a byte
        return found

    def date_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ARG002 - pydantic's signature
        return {"type": "string", "format": "date"}

    def time_schema(self, schema: Any) -> dict[str, Any]:
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "format": "naive-time" if naive else "time"}

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "format": "naive-date-time" if naive else "date-time"}

    def timedelta_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ARG002 - as above
        return {"type": "string", "format": "duration"}


def _with_read_bounds(
    found: dict[str, Any], schema: Core, kind: Callable[[Any], Any]
) -> dict[str, Any]:
    """`found` with bounds for the text such that they hold for the number that is read.

    JSON numbers are read as floats, also for a Decimal: 0.99999999999999999999 is read as 1.0,
    which is not below 1. Rounding keeps the order, so the nearest float within is a closed bound.
    """
    for keyword, exclusive, names, direction in (
        ("minimum", "exclusiveMinimum", ("ge", "gt"), math.inf),
        ("maximum", "exclusiveMaximum", ("le", "lt"), -math.inf),
    ):
        found.pop(exclusive, None)
        bounds = [
            _nearest(kind(schema[name]), kind, direction, strictly=name == names[1])
            for name in names
            if schema.get(name) is not None
        ]
        if bounds:
            found[keyword] = max(bounds) if direction > 0 else min(bounds)
    return found


def _nearest(bound: Any, kind: Callable[[Any], Any], direction: float, *, strictly: bool) -> float:
    """The first float on the right side of `bound`: from it on towards `direction`."""
    number = _float(bound)
    while math.isfinite(number) and not _is_within(kind, number, bound, direction, strictly):
        number = math.nextafter(number, direction)
    if not math.isfinite(number):
        raise UnsupportedError(
            f"the bound {bound!r} of a number leaves no float within; give one further inside"
        )
    return number


def _float(bound: Any) -> float:
    try:
        return float(bound)
    except OverflowError:
        return math.inf


def _is_within(
    kind: Callable[[Any], Any], number: float, bound: Any, direction: float, strictly: bool
) -> bool:
    """Whether `number`, as it is read, is on the right side of `bound`."""
    read = kind(repr(number))
    if read == bound:
        return not strictly
    return bool(read > bound) == (direction > 0)


class _Check:
    """Refuses what of a type its JSON schema does not describe."""

    def __init__(self, tp: Any) -> None:
        self._tp = tp

    def visit(self, core: Core, owner: str, place: str, config: Core) -> None:
        """`owner`: the class whose fields come next; `config`: the settings that hold here."""
        kind = core["type"]
        if kind in {"model", "dataclass", "typed-dict", "named-tuple"}:
            owner = getattr(core.get("cls"), "__name__", owner)
        config = core.get("config", config)
        for reason in self._reasons(kind, core, config):
            where = f" at {place}" if place else ""
            raise UnsupportedError(
                f"the type {self._tp!r} has {reason}{where}, which its JSON schema does not "
                "describe; use a plainer type there, such as str",
                place or None,
            )
        for name, part in _parts(core):
            self.visit(part, owner, f"{owner}.{name}" if name else place, config)

    def _reasons(self, kind: str, core: Core, config: Core) -> Iterator[str]:
        """What is asked at one node beyond its schema."""
        is_class = kind == "call" and isinstance(core["function"], type)  # a NamedTuple
        if kind not in _DESCRIBED or (kind == "call" and not is_class):
            yield _WHAT.get(kind, f"values of the kind {kind!r}")
        if kind.startswith("function-") and (name := _own_check(core)):
            if not (name.endswith("_validator") and _is_of_user(core.get("schema", {}))):
                yield f"pydantic's check {name!r}"
        if kind in {"literal", "enum"}:
            yield from self._values(kind, core)
        yield from self._settings(kind, core, config)
        for keys in (core.get("keys_schema"), core.get("extras_keys_schema")):
            if keys:
                yield from self._keys(keys, config)
        if "validation_alias" in core and not _has_plain_alias(core["validation_alias"]):
            yield f"a path as its alias ({core['validation_alias']!r})"

    def _settings(self, kind: str, core: Core, config: Core) -> Iterator[str]:
        """Constraints, of the node or by the config, that are not in the schema."""
        for setting in _UNSTATED.get(kind, ()):
            if core.get(setting) is not None:
                yield f"the constraint {setting}={core[setting]!r}"
        if isinstance(core.get("tz_constraint"), int):
            yield "a time zone of a given offset"
        if kind == "bytes" and config.get("val_json_bytes", "utf8") != "utf8":
            yield f"bytes written in {config['val_json_bytes']}"
        pattern = core.get("pattern", "") if kind == "str" else ""
        pattern = getattr(pattern, "pattern", pattern)  # of re.compile
        if _SETS.search(pattern):
            yield f"the pattern {pattern!r} with a set inside of a set"
        is_stripped = config.get("str_strip_whitespace") and "strip_whitespace" not in core
        if kind == "str" and is_stripped and (_stated(core, config) - {"max_length"}):
            yield "a minimal length or a pattern of a string that the config strips"

    def _keys(self, keys: Core, config: Core) -> Iterator[str]:
        """What is asked of the names of a map."""
        if keys["type"] not in {"str", "any", "enum", "literal"}:
            yield f"keys of type {keys['type']}"
        elif keys["type"] == "str" and _stated(keys, config):
            yield "keys of a given length or pattern"

    def _values(self, kind: str, core: Core) -> Iterator[str]:
        """Members that JSON has no value for."""
        values = core["expected"] if kind == "literal" else [m.value for m in core["members"]]
        for value in values:
            if isinstance(value, Enum) and kind == "literal":
                yield f"the enum member {value} as a literal"
            elif not isinstance(value, str | int | float | None):
                yield f"the {kind} value {value!r}"


def _stated(core: Core, config: Core) -> set[str]:
    """What is asked of a string, at its node or by the config."""
    names = ("min_length", "max_length", "pattern")
    return {name for name in names if core.get(name, config.get(f"str_{name}"))}


def _function(core: Core) -> tuple[str, str]:
    """The module and the name of the function that checks here."""
    function = core["function"]["function"]
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return getattr(function, "__module__", None) or "", name.rpartition("<locals>.")[2]


def _is_of_user(core: Core) -> bool:
    """Whether a function that the user wrote checks here."""
    if not core.get("type", "").startswith("function-"):
        return False
    module, _ = _function(core)
    return not module.startswith("pydantic.") or module.startswith(_USERS)


def _own_check(core: Core) -> str:
    """The name of the function of pydantic that checks here; empty for one of the user's, and for
    one that refuses nothing.
    """
    module, name = _function(core)
    return "" if _is_of_user(core) or (module, name) in _EXACT_CHECKS else name


def _has_plain_alias(alias: str | list[Any]) -> bool:
    """Whether one way to name the field is a name, and not a path into what is written."""
    if isinstance(alias, str):
        return True
    choices = alias if all(isinstance(choice, list) for choice in alias) else [alias]
    return any(len(choice) == 1 for choice in choices)


_PLACES = """
schema items_schema keys_schema values_schema lax_schema json_schema extras_schema
extras_keys_schema var_args_schema var_kwargs_schema arguments_schema choices steps definitions
fields
"""
_NESTED = _PLACES.split()
"""Where a core schema has others. Only how JSON is read counts (and not, for instance, how Python
objects are), and defaults, which are never written."""


def _parts(core: Core) -> Iterator[tuple[str, Core]]:
    """The core schemas inside of one, with their names where they are fields."""
    for key in _NESTED:
        value = core.get(key)
        if isinstance(value, dict) and key in {"fields", "choices"}:
            named = key == "fields"
            found = [(str(name) if named else "", part) for name, part in value.items()]
        elif isinstance(value, list):
            parts = [part[0] if isinstance(part, tuple) else part for part in value]
            found = [(p.get("name", ""), p) for p in parts if isinstance(p, dict)]
        else:
            found = [("", value)]
        for name, part in found:
            if not isinstance(part, dict):
                continue
            if "type" in part:
                yield name, part
            elif "schema" in part:  # an argument: a name and a schema, without a type
                yield name, {**part["schema"]}
