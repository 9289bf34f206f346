"""What is asked of an output. Owns the constraints' values: frozen, hashable, compared by content.

A constraint is cheap to make and validates its own text at once; what it costs to compile is paid
by the compiler. It must not know of vocabularies.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, get_args

from grammars import regex
from grammars.algebra import Algebra
from grammars.budget import At
from grammars.charset import utf8
from grammars.errors import CompileBudgetError, EmptyLanguageError, GrammarError
from grammars.expr import Expr
from grammars.json_values import is_text, parse_json
from grammars.regex_lowering import lower_full
from grammars.schema import SchemaSource, Style, lower_schema

Whitespace = Literal["compact", "single", "flexible"]
PropertyOrder = Literal["declared", "any"]
Formats = Literal["enforce", "ignore"]


MAX_PATTERN_LENGTH = 200_000
"""Characters of a pattern: to read so many takes about a second."""

BYTES_PER_CHARACTER = 6
"""What a character of a schema's text takes once it is read, about."""

CHARACTERS_PER_STEP = 128
"""Characters of JSON that are read in about the time of making one expression."""


class Constraint(ABC):
    """A set of texts, and how one of them is read back as a value."""

    @abstractmethod
    def lower(self, algebra: Algebra) -> Expr:
        """The expression of its texts in UTF-8. Raises the errors of `grammars.errors`."""

    def parse(self, text: str) -> Any:
        """The value that `text` stands for; by default the text itself."""
        return text

    def portable(self) -> Constraint:
        """A constraint of the same texts that consists of values alone, so that another process can
        have it; by default this one.
        """
        return self


def _at_column(column: int) -> At:
    return At(column, f"at column {column} of the pattern")


@dataclass(frozen=True)
class Regex(Constraint):
    """The texts that `re.fullmatch(pattern, text)` accepts.

    Raises GrammarError with the column when `pattern` is malformed, UnsupportedError when it has
    what is not supported (see `regex`).
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise GrammarError(f"Regex got {self.pattern!r}; give the pattern as a str")
        if len(self.pattern) > MAX_PATTERN_LENGTH:
            raise CompileBudgetError(
                f"the pattern {self.pattern[:40]!r}... has {len(self.pattern)} characters; give at "
                f"most {MAX_PATTERN_LENGTH}",
                MAX_PATTERN_LENGTH,
            )
        regex.parse(self.pattern)

    def lower(self, algebra: Algebra) -> Expr:
        algebra.budget.columns = _at_column
        algebra.budget.at = _at_column(0)
        algebra.budget.spend(len(self.pattern))
        made = lower_full(algebra, regex.parse(self.pattern), utf8)
        algebra.budget.columns = None  # what else is lowered has other columns
        return made


@dataclass(frozen=True, init=False)
class Choices(Constraint):
    """Exactly one of the given texts; hundreds of thousands are fine."""

    texts: tuple[str, ...]

    def __init__(self, texts: Sequence[str]) -> None:
        given: object = texts
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise GrammarError(f"Choices got {texts!r:.80}; give a sequence of str")
        if not all(isinstance(text, str) for text in texts):
            raise GrammarError(f"Choices got {texts!r:.80}; give a sequence of str")
        if not texts:
            raise EmptyLanguageError("Choices got no text; give at least one")
        object.__setattr__(self, "texts", tuple(texts))
        for text in self.texts:
            if not is_text(text):
                raise GrammarError(f"Choices got {text!r:.80} with a lone surrogate: it is no text")

    def lower(self, algebra: Algebra) -> Expr:
        return algebra.words(text.encode() for text in self.texts)


@dataclass(frozen=True, init=False, repr=False)
class JsonSchema(Constraint):
    """JSON texts that are valid under a JSON Schema (draft 2020-12, or 4 to 2019-09 by `$schema`).

    `schema`: a dict or bool, JSON text (numbers keep their exact digits), or a pydantic model
    class.

    * `whitespace`: "compact" writes `{"a":1,"b":2}`, "single" writes `{"a": 1, "b": 2}`,
      "flexible" leaves it to the model, up to `max_whitespace` characters at a time.
    * `property_order`: "declared" writes members in the schema's order, "any" in any.
    * `extra_properties`: whether members that the schema does not name are written where it allows
      them. By default they are in any order; in the declared one only where the schema speaks of
      them (`additionalProperties`, `patternProperties`) or names none.
    * `ascii_only`: what is not ASCII is escaped in strings.
    * `formats`: "enforce" refuses a standard format that cannot be enforced; "ignore" takes all
      formats for annotations.
    * `resources`: other schemas by their URI, for references to them. Nothing is fetched.

    Raises GrammarError when the schema is not JSON or an option is unknown; what it cannot enforce
    is refused by the compile.
    """

    text: str
    whitespace: Whitespace
    max_whitespace: int
    property_order: PropertyOrder
    extra_properties: bool | None
    ascii_only: bool
    formats: Formats
    resources: tuple[tuple[str, str], ...]

    def __init__(
        self,
        schema: Mapping[str, Any] | bool | str | type,
        *,
        whitespace: Whitespace = "compact",
        max_whitespace: int = 8,
        property_order: PropertyOrder = "declared",
        extra_properties: bool | None = None,
        ascii_only: bool = False,
        formats: Formats = "enforce",
        resources: Mapping[str, Mapping[str, Any] | bool | str] | None = None,
    ) -> None:
        check_option("whitespace", whitespace, get_args(Whitespace))
        check_option("property_order", property_order, get_args(PropertyOrder))
        check_option("formats", formats, get_args(Formats))
        if not isinstance(ascii_only, bool):
            raise GrammarError(f"ascii_only={ascii_only!r} is unknown; give a bool")
        if extra_properties is not None and not isinstance(extra_properties, bool):
            raise GrammarError(
                f"extra_properties={extra_properties!r} is unknown; give a bool or None"
            )
        if isinstance(max_whitespace, bool) or not isinstance(max_whitespace, int):
            raise GrammarError(f"max_whitespace={max_whitespace!r} is no number; give an int")
        if max_whitespace < 0:
            raise GrammarError(f"max_whitespace={max_whitespace!r} is below 0; give 0 or more")
        if resources is not None and not isinstance(resources, Mapping):
            raise GrammarError(
                f"resources={resources!r:.80} is no mapping; give schemas by their URI"
            )
        others = tuple((uri, _resource(uri, text)) for uri, text in (resources or {}).items())
        made = {
            "text": _schema_text(schema),
            "whitespace": whitespace,
            "max_whitespace": max_whitespace,
            "property_order": property_order,
            "extra_properties": extra_properties,
            "ascii_only": ascii_only,
            "formats": formats,
            "resources": others,
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """The text, and the options that are not the default."""
        asked = (
            f", {name}={getattr(self, name)!r}"
            for name, parameter in signature(JsonSchema).parameters.items()
            if name != "schema" and getattr(self, name) not in (parameter.default, ())
        )
        return f"JsonSchema({self.text!r}{''.join(asked)})"

    def lower(self, algebra: Algebra) -> Expr:
        size = len(self.text) + sum(len(text) for _, text in self.resources)
        algebra.budget.spend(size // CHARACTERS_PER_STEP, BYTES_PER_CHARACTER * size)
        return lower_schema(algebra, self.source(), self.style())

    def source(self) -> SchemaSource:
        """The document, and those that it may refer to."""
        others = {uri: parse_json(text) for uri, text in self.resources}
        return SchemaSource(parse_json(self.text), resources=others)

    def style(self) -> Style:
        """How its values are written."""
        return Style(
            whitespace=self.whitespace,
            max_whitespace=self.max_whitespace,
            any_order=self.property_order == "any",
            extra_properties=self.extra_properties,
            ascii_only=self.ascii_only,
            ignore_formats=self.formats == "ignore",
        )

    def parse(self, text: str) -> Any:
        """The JSON value."""
        return json.loads(text)


def check_option(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises GrammarError for a value that an option does not know."""
    if value not in allowed:
        choices = " or ".join(repr(choice) for choice in allowed)
        raise GrammarError(f"{name}={value!r} is unknown; give {choices}")


def _resource(uri: object, schema: object) -> str:
    """Another schema as JSON text; errors say which."""
    if not isinstance(uri, str):
        raise GrammarError(f"resources has the name {uri!r:.80}; give URIs as str")
    try:
        return _schema_text(schema)
    except GrammarError as error:
        raise type(error)(f"resources[{uri!r:.80}]: {error}", error.position) from None


def _schema_text(schema: object) -> str:
    """The schema as JSON text; raises GrammarError for what is none."""
    if isinstance(schema, str):
        text = schema
    elif isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        text = json.dumps(schema.model_json_schema())
    elif isinstance(schema, Mapping | bool):
        try:
            text = json.dumps(schema, allow_nan=False)
        except RecursionError:
            raise GrammarError("the schema is nested too deep to be written as JSON") from None
        except (TypeError, ValueError) as error:
            raise GrammarError(f"the schema {schema!r:.80} is not JSON: {error}") from None
        _refuse_other_names(schema)
    else:
        raise GrammarError(
            f"JsonSchema got {schema!r:.80}; give a dict, a bool, JSON text or a pydantic model "
            "class"
        )
    value = parse_json(text)
    if not isinstance(value, dict | bool):
        raise GrammarError(f"the schema {text:.80} is neither an object nor a bool", "")
    return text


def _refuse_other_names(schema: object) -> None:
    """Refuse names that are no str: `json.dumps` would write 1 as "1", and keep both of two."""
    rest: list[tuple[str, Any]] = [("", schema)]
    while rest:
        pointer, value = rest.pop()
        if isinstance(value, list | tuple):
            rest += [(f"{pointer}/{index}", item) for index, item in enumerate(value)]
        if isinstance(value, dict):
            for name, item in value.items():
                if not isinstance(name, str):
                    raise GrammarError(
                        f"the schema has the name {name!r} at {pointer or '/'}; a name in JSON is "
                        "a str: quote it",
                        pointer,
                    )
                part = name.replace("~", "~0").replace("/", "~1")
                rest.append((f"{pointer}/{part}", item))
