"""What a JSON Schema asks of a value, per JSON type. Owns the shapes.

A schema is read as alternatives: a tuple of shapes, each for one type (`any of them`). Every
keyword has a shape that asks for it, and shapes that refute it, so that `not`, `oneOf` and `if`
are alternatives like all others, and no schema is ever rewritten into another schema. What a shape
says of parts (properties, items) it says by operands: terms that must all hold there, read when
they are needed. It must not know of keywords, texts or expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from grammars.json_values import JsonValue, Number

T = TypeVar("T")


def _hashed_once(kind: type[T]) -> type[T]:
    """Makes instances remember their hash: they nest, and are looked up again and again."""
    compute = kind.__hash__

    def hash_of(self: T) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = compute(self)
        return found

    kind.__hash__ = hash_of  # type: ignore[method-assign, assignment]
    return kind


@_hashed_once
@dataclass(frozen=True)
class Spot:
    """A place in the schema, asked for or (`negated`) refused; two of one place are the same.

    `place` is its JSON pointer (of another document: its URI, `#`, pointer), `base` the URI that
    references in it are relative to, `scope` the resources it was reached through (`$dynamicRef`).
    """

    place: str
    schema: JsonValue = field(compare=False)
    base: str = field(compare=False, default="")
    scope: tuple[str, ...] = ()
    negated: bool = False


@_hashed_once
@dataclass(frozen=True)
class Either:
    """At least one of the operands holds."""

    operands: tuple[Operand, ...]


Term = Spot | Either
Operand = tuple[Term, ...]
"""All of these must hold; () holds for every value."""

ANYTHING: Operand = ()
NOTHING: Operand = (Spot("false", False),)


def both(left: Operand, right: Operand) -> Operand:
    """What holds where both hold."""
    if not left or not right:
        return left or right
    added = tuple(term for term in right if term not in left)
    for term in added:
        if isinstance(term, Spot) and replace(term, negated=not term.negated) in left:
            return NOTHING  # asked for and refused
    return left + added


def place_of(operand: Operand) -> str:
    """Where in the schema an operand stands, as far as that is known."""
    due = list(operand)  # a stack: the last term first
    while due:
        term = due.pop()
        if isinstance(term, Spot):
            return term.place
        due += [inner for each in term.operands for inner in each]
    return ""


def negations(operand: Operand) -> tuple[Operand, ...]:
    """Operands of which one holds exactly where `operand` does not."""
    found: list[Operand] = []
    for term in operand:
        if isinstance(term, Spot):
            found.append((replace(term, negated=not term.negated),))
        else:
            refuted: list[Operand] = [ANYTHING]
            for option in term.operands:
                refuted = [both(one, other) for one in refuted for other in negations(option)]
            found += refuted
    return tuple(found)


@dataclass(frozen=True)
class NullShape:
    """null"""


@dataclass(frozen=True)
class BooleanShape:
    """One of the given values."""

    values: tuple[bool, ...] = (False, True)


@_hashed_once
@dataclass(frozen=True)
class NumberShape:
    """A number within bounds (None: unbounded), exactly; `open` bounds are not in it.

    `integer`: it has no fraction (1.0 has none); `fractional`: it has one. It is a multiple of each
    of `multiples` (all positive), of none of `non_multiples`, and is none of `excluded`.
    """

    integer: bool = False
    low: Number | None = None
    high: Number | None = None
    low_open: bool = False
    high_open: bool = False
    fractional: bool = False
    multiples: tuple[Number, ...] = ()
    non_multiples: tuple[Number, ...] = ()
    excluded: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Pattern:
    """A pattern that is found in a string (`negated`: is not); `pointer` says where it stands."""

    text: str
    pointer: str = field(compare=False)
    negated: bool = False


@dataclass(frozen=True)
class Format:
    """A format that a string has."""

    name: str


@_hashed_once
@dataclass(frozen=True)
class StringShape:
    """A string of so many code points, for which every pattern and format holds, and none of
    `excluded`.
    """

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[Pattern, ...] = ()
    formats: tuple[Format, ...] = ()
    excluded: tuple[str, ...] = ()

    @cached_property
    def others(self) -> frozenset[str]:
        """`excluded`, to be looked up in; there may be many."""
        return frozenset(self.excluded)


@_hashed_once
@dataclass(frozen=True)
class GivenShape:
    """One of the given strings and numbers (from `enum` or `const`)."""

    values: tuple[str | Number, ...]

    @cached_property
    def members(self) -> frozenset[str | Number | None]:
        """The values, to be looked up in; there may be many."""
        return frozenset(self.values)


@dataclass(frozen=True)
class Contains:
    """Among the items from `start` on, `low` to `high` (None: any number) have `operand`."""

    operand: Operand
    low: int
    high: int | None = None
    start: int = 0


@dataclass(frozen=True)
class ItemsSeen:
    """The items that other keywords have evaluated: the first `count` (None: all), and those that
    have one of `matching`. Empty unless `unevaluatedItems` asks.
    """

    count: int | None = 0
    matching: tuple[Operand, ...] = ()


@_hashed_once
@dataclass(frozen=True)
class ArrayShape:
    """`prefix[i]` holds for item i, `rest` for the items after those.

    `unique`: where it is asked that no two items are equal, None where it is not; `repeated`: where
    that two are.
    """

    prefix: tuple[Operand, ...] = ()
    rest: Operand = ANYTHING
    min_items: int = 0
    max_items: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: str | None = None
    seen: ItemsSeen = ItemsSeen()
    repeated: str | None = None

    def operand(self, index: int) -> Operand:
        """What holds for item `index`."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True)
class Names:
    """The names that are given, or in which a pattern is found; all others where `outside`."""

    given: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    outside: bool = False


EVERY_NAME = Names(outside=True)


@_hashed_once
@dataclass(frozen=True)
class Rule:
    """What holds for the values of members whose name is in all of `names` and, as a string, has
    `saying`.
    """

    names: tuple[Names, ...]
    operand: Operand
    saying: Operand = ANYTHING


@_hashed_once
@dataclass(frozen=True)
class ObjectShape:
    """Members: those of given names in their order, and rules for the others.

    `required` names are there; where the first name of an `implied` pair is, the others are;
    `some`: for each of these rules there is a member; `names`: what every name has, as a string;
    `min_members` to `max_members`. `seen`: the names that other keywords have evaluated, empty
    unless `unevaluatedProperties` asks. `open`: names beyond the given were asked for.
    """

    properties: tuple[tuple[str, Operand], ...] = ()
    rules: tuple[Rule, ...] = ()
    required: tuple[str, ...] = ()
    implied: tuple[tuple[str, tuple[str, ...]], ...] = ()
    some: tuple[Rule, ...] = ()
    names: Operand = ANYTHING
    min_members: int = 0
    max_members: int | None = None
    seen: tuple[Names, ...] = ()
    open: bool = False


Shape = NullShape | BooleanShape | NumberShape | StringShape | GivenShape | ArrayShape | ObjectShape
Shapes = tuple[Shape, ...]


def size_of(shape: Shape) -> int:
    """The parts of a shape that are looked at when it meets another."""
    if isinstance(shape, ObjectShape):
        return (
            len(shape.properties)
            + len(shape.rules)
            + len(shape.required)
            + len(shape.implied)
            + len(shape.some)
        )
    if isinstance(shape, ArrayShape):
        return len(shape.prefix) + len(shape.contains)
    if isinstance(shape, GivenShape):
        return len(shape.values)
    if isinstance(shape, StringShape):
        return len(shape.patterns) + len(shape.excluded)
    return len(shape.excluded) + len(shape.multiples) if isinstance(shape, NumberShape) else 0


EVERY_TYPE: dict[str, Shape] = {
    "null": NullShape(),
    "boolean": BooleanShape(),
    "number": NumberShape(),
    "string": StringShape(),
    "array": ArrayShape(),
    "object": ObjectShape(),
}
EVERYTHING: Shapes = tuple(EVERY_TYPE.values())


def without_formats(shape: Shape) -> Shape:
    """The shape for a reader who takes formats for annotations."""
    if not isinstance(shape, StringShape) or not shape.formats:
        return shape
    return replace(shape, formats=())
