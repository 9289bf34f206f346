"""Constraints made of constraints. Owns how they are put together; every part keeps its meaning.

`Concatenation`, `Alternation` and `Repetition` take constraints, and str for literal text. All
parts are lowered into one algebra, so the whole is one language: masks, budgets and completions
look across the borders of parts. A part means what it means alone: the anchors of `Regex("^a$")`
hold at the ends of that part.
It must not know what the parts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grammars.algebra import Algebra
from grammars.constraint import Constraint
from grammars.errors import EmptyLanguageError, GrammarError
from grammars.expr import Expr
from grammars.json_values import is_text

Part = str | Constraint
"""A literal text, or a constraint."""


@dataclass(frozen=True, init=False)
class Concatenation(Constraint):
    """A text of each part, one after another: JSON in a fenced block, say.

    Concatenation("```json\\n", JsonSchema(schema), "\\n```")

    Raises GrammarError for what is neither a text nor a constraint.
    """

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part) -> None:
        object.__setattr__(self, "parts", tuple(_joined_texts(_flat(parts, Concatenation))))

    def lower(self, algebra: Algebra) -> Expr:
        return algebra.sequence([lower_part(algebra, part) for part in self.parts])


@dataclass(frozen=True, init=False)
class Alternation(Constraint):
    """A text of any of the options.

    Raises GrammarError for what is neither a text nor a constraint, EmptyLanguageError without any
    option.
    """

    options: tuple[Part, ...]

    def __init__(self, *options: Part) -> None:
        flat = tuple(dict.fromkeys(_flat(options, Alternation)))
        if not flat:
            raise EmptyLanguageError("Alternation got no option; give at least one")
        object.__setattr__(self, "options", flat)

    def lower(self, algebra: Algebra) -> Expr:
        words = algebra.words(option.encode() for option in self.options if isinstance(option, str))
        others = [option.lower(algebra) for option in self.options if not isinstance(option, str)]
        return algebra.union([words, *others])


@dataclass(frozen=True)
class Repetition(Constraint):
    """`low` to `high` (None: any number of) texts of `part`, with `separator` between them.

    A counter, never copies. Raises GrammarError for bounds that are no numbers or in the wrong
    order, and for parts that are neither a text nor a constraint.
    """

    part: Part
    low: int = 0
    high: int | None = None
    separator: Part = ""

    def __post_init__(self) -> None:
        check_part(self.part, "Repetition")
        check_part(self.separator, "the separator of a Repetition")
        check_bounds("Repetition", self.low, self.high)

    def lower(self, algebra: Algebra) -> Expr:
        if self.high == 0:
            return algebra.epsilon
        part = lower_part(algebra, self.part)
        separator = lower_part(algebra, self.separator)
        again = algebra.concat(separator, part)
        high = None if self.high is None else self.high - 1
        several = algebra.concat(part, algebra.repeat(again, max(self.low - 1, 0), high))
        return several if self.low else algebra.optional(several)


def lower_part(algebra: Algebra, part: Part) -> Expr:
    """The expression of a literal text or a constraint."""
    return algebra.literal(part.encode()) if isinstance(part, str) else part.lower(algebra)


def check_part(part: object, owner: str) -> None:
    """Raises GrammarError for what is neither a text nor a constraint."""
    if isinstance(part, str):
        if not is_text(part):
            raise GrammarError(f"{owner} got {part!r:.80} with a lone surrogate: it is no text")
    elif not isinstance(part, Constraint):
        raise GrammarError(f"{owner} got {part!r:.80}; give a str or a constraint such as Regex")


def check_bounds(owner: str, low: object, high: object) -> None:
    """Raises GrammarError for counts that are no numbers, negative, or in the wrong order."""
    for bound in (low, 0 if high is None else high):
        if not isinstance(bound, int) or isinstance(bound, bool) or bound < 0:
            raise GrammarError(f"{owner} got the count {bound!r}; give an int of at least 0")
    if isinstance(high, int) and isinstance(low, int) and high < low:
        raise GrammarError(
            f"{owner} got at least {low} and at most {high}, which no text has; "
            "give the lower bound first"
        )


def _flat(parts: tuple[Part, ...], kind: type[Concatenation | Alternation]) -> Iterator[Part]:
    """The parts, with those of parts of the same kind in their place: what is built up in a loop
    nests no deeper with every round."""
    for part in parts:
        check_part(part, kind.__name__)
        if isinstance(part, Concatenation) and kind is Concatenation:
            yield from part.parts
        elif isinstance(part, Alternation) and kind is Alternation:
            yield from part.options
        else:
            yield part


def _joined_texts(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts with neighbouring texts made one, and without empty ones: equal means equal."""
    pending = ""
    for part in parts:
        if isinstance(part, str):
            pending += part
            continue
        if pending:
            yield pending
        pending = ""
        yield part
    if pending:
        yield pending
