"""What is asked of an output. Owns the constraints' values: frozen, hashable, compared by content.

A constraint is cheap to make and validates its own text at once; what it costs to compile is paid
by the compiler. It must not know of vocabularies.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grammars import regex
from grammars.algebra import Algebra
from grammars.charset import utf8
from grammars.errors import EmptyLanguageError, GrammarError
from grammars.expr import Expr
from grammars.json_values import is_text, parse_json
from grammars.regex_lowering import lower_full
from grammars.schema import lower_schema

Whitespace = Literal["compact", "single"]


class Constraint(ABC):
    """A set of texts, and how one of them is read back as a value."""

    @abstractmethod
    def lower(self, algebra: Algebra) -> Expr:
        """The expression of its texts in UTF-8. Raises the errors of `grammars.errors`."""

    def parse(self, text: str) -> Any:
        """The value that `text` stands for; by default the text itself."""
        return text


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
        regex.parse(self.pattern)

    def lower(self, algebra: Algebra) -> Expr:
        return lower_full(algebra, regex.parse(self.pattern), utf8)


@dataclass(frozen=True, init=False)
class Choices(Constraint):
    """Exactly one of the given texts; hundreds of thousands are fine."""

    texts: tuple[str, ...]

    def __init__(self, texts: Sequence[str]) -> None:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise GrammarError(f"Choices got {texts!r:.80}; give a sequence of str")
        if not texts:
            raise EmptyLanguageError("Choices got no text; give at least one")
        object.__setattr__(self, "texts", tuple(texts))
        for text in self.texts:
            if not is_text(text):
                raise GrammarError(f"Choices got {text!r:.80} with a lone surrogate: it is no text")

    def lower(self, algebra: Algebra) -> Expr:
        return algebra.words(text.encode() for text in self.texts)


@dataclass(frozen=True, init=False)
class JsonSchema(Constraint):
    """JSON texts that are valid under a JSON Schema (draft 2020-12; see `schema` for the keywords).

    `schema`: a dict or bool, JSON text (numbers keep their exact digits), or a pydantic model
    class. `whitespace`: "compact" writes `{"a":1,"b":2}`, "single" writes `{"a": 1, "b": 2}`.
    Raises GrammarError when the schema is not JSON; what it cannot enforce is refused by the
    compile.
    """

    text: str
    whitespace: Whitespace

    def __init__(
        self, schema: Mapping[str, Any] | bool | str | type, *, whitespace: Whitespace = "compact"
    ) -> None:
        check_whitespace(whitespace)
        object.__setattr__(self, "text", _schema_text(schema))
        object.__setattr__(self, "whitespace", whitespace)

    def lower(self, algebra: Algebra) -> Expr:
        return lower_schema(algebra, parse_json(self.text), whitespace=self.whitespace)

    def parse(self, text: str) -> Any:
        """The JSON value."""
        return json.loads(text)


def check_whitespace(whitespace: str) -> None:
    """Raises GrammarError for what is no way to write white space."""
    if whitespace not in ("compact", "single"):
        raise GrammarError(f"whitespace={whitespace!r} is unknown; give 'compact' or 'single'")


def _schema_text(schema: object) -> str:
    """The schema as JSON text; raises GrammarError for what is none."""
    if isinstance(schema, str):
        text = schema
    elif isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        text = json.dumps(schema.model_json_schema())
    elif isinstance(schema, Mapping | bool):
        try:
            text = json.dumps(schema, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
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
