"""One case of the corpus: a constraint, and outputs whose verdict is known.

It must not know of an engine: what a case says is the same for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["schema", "regex", "grammar"]


@dataclass(frozen=True)
class Case:
    """`spec`: a schema as a dict, a pattern, or the text of a grammar. `valid` and `invalid` are
    values where `kind` is "schema", else texts.
    """

    name: str
    kind: Kind
    spec: Any
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]

    def texts(self) -> Iterator[tuple[str, bool]]:
        """What an engine reads, and whether it is right to accept it."""
        for values, verdict in ((self.valid, True), (self.invalid, False)):
            for value in values:
                yield (compact(value) if self.kind == "schema" else value), verdict


def compact(value: Any) -> str:
    """A value as all engines are asked to write it: without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Schema = dict[str, Any]


def schema_case(name: str, schema: Schema, valid: list[Any], invalid: list[Any]) -> Case:
    """A case of JSON Schema."""
    return Case(name, "schema", schema, tuple(valid), tuple(invalid))


def text(**more: Any) -> Schema:
    """The schema of a string."""
    return {"type": "string", **more}


def whole(low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    """The schema of an integer within bounds."""
    bounds = {"minimum": low, "maximum": high}
    return {"type": "integer", **{k: v for k, v in bounds.items() if v is not None}, **more}


def number(low: float | None = None, high: float | None = None, **more: Any) -> Schema:
    """The schema of a number within bounds."""
    bounds = {"minimum": low, "maximum": high}
    return {"type": "number", **{k: v for k, v in bounds.items() if v is not None}, **more}


def listing(items: Schema, low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    """The schema of an array."""
    counts = {"minItems": low, "maxItems": high}
    found = {k: v for k, v in counts.items() if v is not None}
    return {"type": "array", "items": items, **found, **more}


def record(optional: str = "", /, **properties: Schema) -> Schema:
    """The schema of an object without other members; all are required but those in `optional`."""
    left_out = optional.split()
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in left_out],
        "additionalProperties": False,
    }


def one_of(*values: Any) -> Schema:
    """The schema of given values."""
    return {"enum": list(values)}


def nullable(schema: Schema) -> Schema:
    """The schema of a value that may be missing."""
    return {"anyOf": [schema, {"type": "null"}]}


def tagged(tag: str, **properties: Schema) -> Schema:
    """A record that says by its `type` which one it is."""
    return record(**{"type": {"const": tag}, **properties})


DATE = text(format="date")
TIME = text(format="date-time")
EMAIL = text(format="email")
FLAG: Schema = {"type": "boolean"}
