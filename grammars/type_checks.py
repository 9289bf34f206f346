"""What of a type no JSON schema describes. Owns the refusals, each with its place in the type:
every core type and every check of pydantic that is not listed here as described.

It must not know how the rest is described (that is `type_schema`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any

from grammars.errors import UnsupportedError
from grammars.type_names import Names, date_bounds

Core = dict[str, Any]

_DESCRIBED_TYPES = """
any none bool int float decimal str bytes date time datetime timedelta uuid url multi-host-url
literal enum list tuple deque generator set frozenset dict ordered-dict counter frozendict
function-before function-after function-wrap function-plain default nullable union tagged-union
chain lax-or-strict json-or-python typed-dict typed-dict-field model model-fields model-field
dataclass dataclass-args dataclass-field named-tuple named-tuple-field call arguments custom-error
definitions definition-ref
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
}

_INTERNAL = "pydantic._internal"
_EXACT_NAMES = {
    f"{_INTERNAL}._generate_schema": ("path_validator",),
    f"{_INTERNAL}._validators": (
        *(
            f"ip_v{v}_{kind}_validator"
            for v in "46"
            for kind in ("address", "network", "interface")
        ),
        *("defaultdict_validator", "sequence_validator"),
    ),
    "pydantic.types": (
        *("SecretStr", "SecretBytes", "EncodedBytes.decode"),
        "<lambda>",  # of Secret[...]
    ),
    "pydantic.networks": (
        *(f"IPvAny{kind}._validate" for kind in ("Address", "Network", "Interface")),
        "wrap_val",  # of URLs
    ),
}
_EXACT_CHECKS = frozenset(
    (module, name) for module, names in _EXACT_NAMES.items() for name in names
)
"""Functions of pydantic that refuse nothing of what the JSON schema allows."""

_USERS = (f"{_INTERNAL}._decorators", "pydantic.functional_validators", "pydantic.v1")
"""Modules of pydantic whose functions only call what the user wrote."""

_UNSTATED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("time", "datetime", "timedelta"), ("gt", "ge", "lt", "le")),
}
"""Settings of a core type that its JSON schema does not have."""

_SETS = re.compile(r"(?<!\\)\[\]?[^\]]*(?<!\\)(?:\[|&&|--|~~)")
"""A set inside of a set of characters (`[[:alpha:]]`, `[a-z&&[^b]]`), which only Rust knows."""


def refuse_undescribed(tp: Any, core: Core) -> None:
    """Raises UnsupportedError for what of the type `tp` has no description."""
    _Check(tp, definitions_of(core)).visit(core, "", "", {})


def definitions_of(core: Core) -> dict[str, Core]:
    """The core schemas in one that others refer to."""
    found: dict[str, Core] = {}
    rest = [core]
    while rest:
        here = rest.pop()
        if "ref" in here:
            found[here["ref"]] = here
        rest += [part for _, part in _parts(here)]
    return found


_UNHASHABLE_TYPES = """
any object list dict set deque typed-dict ordered-dict counter frozendict defaultdict generator
"""
_UNHASHABLE = frozenset(_UNHASHABLE_TYPES.split())
"""Core types that may be read as something that no set can hold."""

_CHANGES = ("strip_whitespace", "to_lower", "to_upper")


class _Check:
    """Refuses what of a type its JSON schema does not describe."""

    def __init__(self, tp: Any, definitions: Mapping[str, Core]) -> None:
        self._tp = tp
        self._definitions = definitions
        self._names = Names(definitions, lambda _: {})

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
                yield from self._keys(keys)
        if core.get("min_length", 0) > 1 and "keys_schema" in core:
            yield from self._few_keys(core["keys_schema"], config)
        if kind in {"set", "frozenset"}:
            yield from self._items(core, config)
        if "validation_alias" in core and not _has_plain_alias(core["validation_alias"]):
            yield f"a path as its alias ({core['validation_alias']!r})"

    def _settings(self, kind: str, core: Core, config: Core) -> Iterator[str]:
        """Constraints, of the node or by the config, that are not in the schema."""
        for setting in _UNSTATED.get(kind, ()):
            if core.get(setting) is not None:
                yield f"the constraint {setting}={core[setting]!r}"
        if isinstance(core.get("tz_constraint"), int):
            yield "a time zone of a given offset"
        written = config.get("val_json_bytes", "utf8")
        lengths = {"min_length", "max_length"} & {n for n in core if core[n] is not None}
        if kind == "bytes" and written != "utf8" and lengths:
            yield f"a length of bytes that are written in {written}"
        if kind == "date":
            yield from self._dates(core)
        if "file" in core.get("allowed_schemes", ()):
            yield "a URL of a file"
        pattern = core.get("pattern", "") if kind == "str" else ""
        pattern = getattr(pattern, "pattern", pattern)  # of re.compile
        if _SETS.search(pattern):
            yield f"the pattern {pattern!r} with a set inside of a set"
        is_stripped = config.get("str_strip_whitespace") and "strip_whitespace" not in core
        if kind == "str" and is_stripped and (_stated(core, config) - {"max_length"}):
            yield "a minimal length or a pattern of a string that the config strips"

    def _dates(self, core: Core) -> Iterator[str]:
        """Bounds that no date, or more than a date, is needed for."""
        bounds = {name: core[name] for name in ("gt", "ge", "lt", "le") if core.get(name)}
        for name, bound in bounds.items():
            if isinstance(bound, dt.datetime):
                yield f"the constraint {name}={bound!r}"
                return
        if date_bounds(core) is None:
            yield f"the constraints {bounds!r}, between which no date is,"

    def _keys(self, keys: Core) -> Iterator[str]:
        """What is asked of the names of a map."""
        if self._names.of(keys) is None:
            yield f"keys of type {keys['type']}"

    def _few_keys(self, keys: Core, config: Core) -> Iterator[str]:
        """A minimal length of a map: no name comes twice, but two may be read as one."""
        if not self._are_read_apart(keys, config):
            yield "a minimal length of a map whose keys may be equal"

    def _items(self, core: Core, config: Core) -> Iterator[str]:
        """What is asked of the items of a set."""
        items = core.get("items_schema", {"type": "any"})
        if unhashable := next(self._unhashable(items, frozenset()), ""):
            yield f"items in a set that may have no hash ({unhashable})"
        elif core.get("min_length", 0) > 1 and not self._are_read_apart(items, config):
            yield "a minimal length of a set whose items may be equal when they are read"

    def _unhashable(self, core: Core, seen: frozenset[str]) -> Iterator[str]:
        """The kinds of values without a hash that `core` may have."""
        core = self._resolved(core)
        if core.get("ref", "") in seen:
            return
        if "ref" in core:
            seen |= {core["ref"]}
        kind = core["type"]
        has_none = kind in {"model", "dataclass"} and core["cls"].__hash__ is None
        if kind in _UNHASHABLE or has_none:
            yield kind
        for _, part in _parts(core):
            yield from self._unhashable(part, seen)

    def _are_read_apart(self, core: Core, config: Core) -> bool:
        """Whether values that differ in JSON differ when they are read."""
        core = self._resolved(core)
        kind = core["type"]
        if kind == "nullable":
            return self._are_read_apart(core["schema"], config)
        if kind in {"literal", "enum"}:
            values = core["expected"] if kind == "literal" else [m.value for m in core["members"]]
            return len(set(values)) == len(values)
        if kind == "str":
            asked = (core.get(name, config.get(f"str_{name}")) for name in _CHANGES)
            return not any(asked)
        return kind in {"int", "bool", "date"}

    def _resolved(self, core: Core) -> Core:
        """What a reference leads to."""
        while core["type"] in {"definition-ref", "definitions"}:
            is_ref = core["type"] == "definition-ref"
            core = self._definitions[core["schema_ref"]] if is_ref else core["schema"]
        return core

    def _values(self, kind: str, core: Core) -> Iterator[str]:
        """Members that JSON has no value for."""
        values = core["expected"] if kind == "literal" else [m.value for m in core["members"]]
        for value in values:
            if isinstance(value, Enum) and kind == "literal" and not isinstance(value, str):
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
