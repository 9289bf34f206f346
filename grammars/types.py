"""Python types as constraints. Owns the way from a type to texts and back; the one place with
pydantic.

A type is constrained by its JSON schema and its text is validated back to an instance:

* a type of which every value is a string in JSON (str, an Enum or Literal of strings, date,
  datetime, UUID, Annotated[str, ...]) is written bare, without quotes and escapes: `2024-02-29`,
  not `"2024-02-29"`;
* every other type (BaseModel, dataclass, TypedDict, NamedTuple, list, dict, tuple, int, float,
  bool, None, unions) is written as JSON.

What pydantic checks beyond its JSON schema (validators in Python) is checked by `parse` only.
It must not know how a schema is enforced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from grammars.algebra import Algebra
from grammars.constraint import Constraint, Whitespace, check_whitespace
from grammars.errors import GrammarError, UnsupportedError
from grammars.expr import Expr
from grammars.json_values import parse_json
from grammars.schema import lower_schema, only_strings

_SCHEMAS: dict[object, dict[str, Any]] = {Decimal: {"type": "number"}}
"""Types whose schema by pydantic says more than one spelling needs."""


@dataclass(frozen=True, init=False)
class TypeOf(Constraint):
    """Texts of instances of `tp`; `parse` gives the instance.

    Raises GrammarError when pydantic knows no JSON schema for the type; what of the schema cannot
    be enforced is refused by the compile, with its JSON pointer. `parse` raises
    pydantic.ValidationError for a text that a validator of the type refuses.
    """

    tp: Any = field(hash=False)
    whitespace: Whitespace
    text: str = field(repr=False)
    _adapter: TypeAdapter[Any] = field(repr=False, compare=False)

    def __init__(self, tp: Any, *, whitespace: Whitespace = "compact") -> None:
        check_whitespace(whitespace)
        try:
            adapter = TypeAdapter(tp)
            schema = _SCHEMAS[tp] if tp is Decimal else adapter.json_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema, NameError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise GrammarError(f"the type {tp!r} has no JSON schema: {reason}") from None
        _refuse_unspellable(tp, adapter.core_schema)
        fields = {"tp": tp, "whitespace": whitespace, "text": json.dumps(schema)}
        for name, value in {**fields, "_adapter": adapter}.items():
            object.__setattr__(self, name, value)

    def lower(self, algebra: Algebra) -> Expr:
        return lower_schema(
            algebra, parse_json(self.text), whitespace=self.whitespace, bare_strings=True
        )

    def parse(self, text: str) -> Any:
        """The instance of the type."""
        return self._adapter.validate_json(json.dumps(text) if self._is_bare else text)

    @cached_property
    def _is_bare(self) -> bool:
        return only_strings(parse_json(self.text))


def _refuse_unspellable(tp: Any, core: Any) -> None:
    """Refuse types of which pydantic's JSON schema says less than its parser will ask for."""
    if isinstance(core, list | tuple):
        for part in core:
            _refuse_unspellable(tp, part)
    if not isinstance(core, dict):
        return
    keys = core.get("keys_schema", {}).get("type", "str") if core.get("type") == "dict" else "str"
    if core.get("type") == "complex" or keys not in {"str", "any", "enum", "literal"}:
        what = "complex numbers" if core.get("type") == "complex" else f"keys of type {keys}"
        raise UnsupportedError(
            f"the type {tp!r} has {what}, which its JSON schema does not describe; use str instead"
        )
    for name, part in core.items():
        if name not in {"metadata", "serialization"}:
            _refuse_unspellable(tp, part)
