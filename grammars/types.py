"""Python types as constraints. Owns the way from a type to texts and back.

A type is constrained by its JSON schema and its text is validated back to an instance:

* a type of which every value is a string in JSON (str, an Enum or Literal of strings, date,
  datetime, UUID, Annotated[str, ...]) is written bare, without quotes and escapes: `2024-02-29`,
  not `"2024-02-29"`;
* every other type (BaseModel, dataclass, TypedDict, NamedTuple, list, dict, tuple, int, float,
  bool, None, unions) is written as JSON.

What a type asks beyond a JSON schema is refused, or added to it (see `type_schema`). What a
validator in Python asks is checked by `parse` only.
It must not know how a schema is enforced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import SchemaError

from grammars.algebra import Algebra
from grammars.constraint import Constraint, JsonSchema, PropertyOrder, Whitespace
from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.json_values import parse_json
from grammars.schema import SchemaSource, Style, lower_schema, only_strings
from grammars.type_schema import schema_of

_NO_SCHEMA = (
    *(PydanticUserError, PydanticInvalidForJsonSchema),
    *(NameError, TypeError, ValueError, ImportError, SchemaError),
)
"""What pydantic raises for a type without a schema, or with one that needs a missing package."""


@dataclass(frozen=True)
class TypeTexts(Constraint):
    """The texts of a type whose schema is `text`: all of it that its compile takes."""

    text: str
    layout: Style

    def lower(self, algebra: Algebra) -> Expr:
        return lower_schema(algebra, self.source(), self.layout)

    def source(self) -> SchemaSource:
        """The schema of the type."""
        return SchemaSource(parse_json(self.text), of_type=True)


@dataclass(frozen=True, init=False)
class TypeOf(Constraint):
    """Texts of instances of `tp`; `parse` gives the instance.

    `whitespace`, `max_whitespace`, `property_order` and `ascii_only` are those of `JsonSchema`;
    they concern what is written as JSON.

    Raises GrammarError when pydantic knows no JSON schema for the type, UnsupportedError when its
    schema says less than its parser asks; what of the schema cannot be enforced is refused by the
    compile, with its JSON pointer. `parse` raises pydantic.ValidationError for a text that a
    validator of the type refuses.
    """

    tp: Any = field(hash=False)
    whitespace: Whitespace
    max_whitespace: int
    property_order: PropertyOrder
    ascii_only: bool
    text: str = field(repr=False)
    _adapter: TypeAdapter[Any] = field(repr=False, compare=False)

    def __init__(
        self,
        tp: Any,
        *,
        whitespace: Whitespace = "compact",
        max_whitespace: int = 8,
        property_order: PropertyOrder = "declared",
        ascii_only: bool = False,
    ) -> None:
        # the options are checked where they are shared
        style = JsonSchema(
            True,
            whitespace=whitespace,
            max_whitespace=max_whitespace,
            property_order=property_order,
            ascii_only=ascii_only,
        )
        try:
            adapter = TypeAdapter(tp)
            schema = schema_of(tp, adapter)
        except GrammarError:
            raise
        except _NO_SCHEMA as error:
            if getattr(error, "code", None) == "typed-dict-version":
                raise GrammarError(
                    f"the type {tp!r} has a TypedDict of typing, which can be read only from "
                    "Python 3.12 on; take TypedDict from typing_extensions"
                ) from None
            reason = str(error).splitlines()[0]
            raise GrammarError(f"the type {tp!r} has no JSON schema: {reason}") from None
        for name in ("whitespace", "max_whitespace", "property_order", "ascii_only"):
            object.__setattr__(self, name, getattr(style, name))
        for name, value in {"tp": tp, "text": json.dumps(schema), "_adapter": adapter}.items():
            object.__setattr__(self, name, value)

    def lower(self, algebra: Algebra) -> Expr:
        return self.portable().lower(algebra)

    def portable(self) -> TypeTexts:
        return TypeTexts(self.text, self.style())

    def source(self) -> SchemaSource:
        """The schema of the type."""
        return self.portable().source()

    def style(self) -> Style:
        """How its values are written."""
        return Style(
            whitespace=self.whitespace,
            max_whitespace=self.max_whitespace,
            any_order=self.property_order == "any",
            ascii_only=self.ascii_only,
        )

    def parse(self, text: str) -> Any:
        """The instance of the type."""
        return self._adapter.validate_json(json.dumps(text) if self._is_bare else text)

    @cached_property
    def _is_bare(self) -> bool:
        return only_strings(parse_json(self.text))
