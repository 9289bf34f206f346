"""Keywords that hold for one JSON type. Owns what each asks of a value, and what refutes it.

An assertion is a shape of its type (values of other types satisfy it always) and the shapes of that
type for which it does not hold. `not` needs both, and having them side by side keeps them equal.
It must not know of keywords that combine schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from grammars import keywords
from grammars.dialect import Dialect
from grammars.formats import FORMATS, TYPE_ANNOTATIONS, TYPE_FORMATS, UNSUPPORTED
from grammars.json_values import JsonValue, Number
from grammars.schema_document import escape
from grammars.shapes import (
    ANYTHING,
    EVERY_NAME,
    NOTHING,
    ArrayShape,
    Contains,
    Format,
    ItemsSeen,
    Names,
    NumberShape,
    ObjectShape,
    Operand,
    Pattern,
    Rule,
    Shape,
    StringShape,
    negations,
)

Schema = dict[str, JsonValue]
OperandOf = Callable[[JsonValue, str], Operand]
"""The operand of a schema inside of the one that is read, with its place."""


class Assertion(NamedTuple):
    """What a keyword asks for, and `refuted()`: where it does not hold, within the same type.

    `seen`: the members or items that it evaluates, for `unevaluatedProperties` and
    `unevaluatedItems` beside it.
    """

    asked: Shape
    refuted: Callable[[], Iterable[Shape]]
    seen: Shape | None = None


@dataclass(frozen=True)
class FormatRules:
    """Which formats are enforced. `of_type`: the schema describes a Python type, whose parser asks
    for what its formats say; otherwise a format that the standard does not know is an annotation.
    `is_ignored`: all of them are.
    """

    of_type: bool = False
    is_ignored: bool = False

    def is_enforced(self, name: str, pointer: str) -> bool:
        """Raises UnsupportedError for a format that a mask does not enforce, but ought to."""
        if self.is_ignored:
            return False
        if name in (TYPE_FORMATS if self.of_type else FORMATS):
            return True
        if name in UNSUPPORTED:
            raise keywords.unsupported(f"the format {name!r} ({UNSUPPORTED[name]})", pointer)
        if self.of_type and name not in TYPE_ANNOTATIONS:
            raise keywords.unsupported(f"the format {name!r}", pointer)
        return False


class Assertions:
    """Reads the assertions of one schema, which stands at `at`."""

    def __init__(
        self, schema: Schema, at: str, *, operand: OperandOf, dialect: Dialect, formats: FormatRules
    ) -> None:
        self._schema = schema
        self._at = at
        self._operand = operand
        self._dialect = dialect
        self._formats = formats

    def numbers(self) -> Iterator[Assertion]:
        """Of numbers."""
        schema, at = self._schema, self._at
        for keyword, exclusive in (
            ("minimum", "exclusiveMinimum"),
            ("maximum", "exclusiveMaximum"),
        ):
            is_open = False
            if isinstance(schema.get(exclusive), bool) and self._dialect.boolean_bounds:
                is_open = schema[exclusive]
            elif exclusive in schema:
                yield _bound(keyword, keywords.number(schema, exclusive, at), is_open=True)
            if keyword in schema:
                yield _bound(keyword, keywords.number(schema, keyword, at), is_open=is_open)
        if "multipleOf" in schema:
            divisor = keywords.number(schema, "multipleOf", at)
            if divisor <= 0:
                raise keywords.malformed(divisor, f"{at}/multipleOf", "a number above 0")
            others = NumberShape(non_multiples=(divisor,))
            yield Assertion(NumberShape(multiples=(divisor,)), lambda: [others])

    def _counted(
        self, least: str, most: str, shape: Callable[[int, int | None], Shape]
    ) -> Iterator[Assertion]:
        """Two keywords that bound a count; `shape` of the lowest and the highest count."""
        low = keywords.count(self._schema, least, self._at)
        if low:
            fewer = shape(0, low - 1)
            yield Assertion(shape(low, None), lambda: [fewer])
        high = keywords.count(self._schema, most, self._at)
        if high is not None:
            more = shape(high + 1, None)
            yield Assertion(shape(0, high), lambda: [more])

    def strings(self) -> Iterator[Assertion]:
        """Of strings."""
        schema, at = self._schema, self._at
        yield from self._counted("minLength", "maxLength", StringShape)
        if "pattern" in schema:
            pattern = Pattern(keywords.text(schema, "pattern", at), f"{at}/pattern")
            without = StringShape(patterns=(replace(pattern, negated=True),))
            yield Assertion(StringShape(patterns=(pattern,)), lambda: [without])
        if "format" in schema:
            name = keywords.text(schema, "format", at)
            if self._formats.is_enforced(name, f"{at}/format"):
                yield Assertion(StringShape(formats=(Format(name),)), self._unformatted)

    def _unformatted(self) -> list[Shape]:
        """A reader may take formats for annotations: what lacks one is not refuted for all."""
        raise keywords.unsupported("'format' under a negation", f"{self._at}/format")

    # -- arrays ------------------------------------------------------------------------------

    def arrays(self) -> Iterator[Assertion]:
        """Of arrays."""
        schema, at = self._schema, self._at
        yield from self._items()
        yield from self._counted(
            "minItems", "maxItems", lambda m, n: ArrayShape(min_items=m, max_items=n)
        )
        if "contains" in schema:
            yield self._contains()
        else:  # they ask for nothing, but are read: a malformed value is an error
            keywords.count(schema, "minContains", at)
            keywords.count(schema, "maxContains", at)
        unique = schema.get("uniqueItems", False)
        if not isinstance(unique, bool):
            raise keywords.malformed(unique, f"{at}/uniqueItems", "true or false")
        if unique:
            repeated = ArrayShape(min_items=2, repeated=f"{at}/uniqueItems")
            yield Assertion(ArrayShape(unique=f"{at}/uniqueItems"), lambda: [repeated])

    def _items(self) -> Iterator[Assertion]:
        schema, at = self._schema, self._at
        prefix, rest, keyword = schema.get("prefixItems"), schema.get("items"), "items"
        if isinstance(rest, list) and prefix is None and self._dialect.item_arrays:
            prefix, rest, keyword = rest, schema.get("additionalItems"), "additionalItems"
            place = f"{at}/items"
        else:
            place = f"{at}/prefixItems"
        operands: tuple[Operand, ...] = ()
        if prefix is not None:
            if not isinstance(prefix, list):
                raise keywords.malformed(prefix, place, "a list of schemas")
            operands = tuple(self._operand(s, f"{place}/{i}") for i, s in enumerate(prefix))
            yield Assertion(
                ArrayShape(operands),
                lambda: [_item(i, o) for i, p in enumerate(operands) for o in negations(p)],
                ArrayShape(seen=ItemsSeen(len(operands))),
            )
        if rest is not None:
            start, operand = len(operands), self._operand(rest, f"{at}/{keyword}")
            yield Assertion(
                ArrayShape((ANYTHING,) * start, operand),
                lambda: [
                    ArrayShape(contains=(Contains(o, 1, start=start),)) for o in negations(operand)
                ],
                ArrayShape(seen=ItemsSeen(None)),
            )

    def _contains(self) -> Assertion:
        schema, at = self._schema, self._at
        operand = self._operand(schema["contains"], f"{at}/contains")
        least = keywords.count(schema, "minContains", at)
        low = 1 if least is None else least
        high = keywords.count(schema, "maxContains", at)

        def refuted() -> Iterator[Shape]:
            if low:
                yield ArrayShape(contains=(Contains(operand, 0, low - 1),))
            if high is not None:
                yield ArrayShape(contains=(Contains(operand, high + 1),))

        asks = low or high is not None
        seen = ArrayShape(seen=ItemsSeen(0, (operand,)))
        if self._dialect.name == "2019-09":
            seen = ArrayShape()  # there, `contains` evaluates nothing
        counted = (Contains(operand, low, high),) if asks else ()
        return Assertion(ArrayShape(contains=counted), refuted, seen)

    # -- objects -----------------------------------------------------------------------------

    def objects(self) -> Iterator[Assertion]:
        """Of objects."""
        schema, at = self._schema, self._at
        yield from self._members()
        if "propertyNames" in schema:
            operand = self._operand(schema["propertyNames"], f"{at}/propertyNames")
            yield Assertion(
                ObjectShape(names=operand),
                lambda: [
                    ObjectShape(some=(Rule((EVERY_NAME,), ANYTHING, saying),))
                    for saying in negations(operand)
                ],
            )
        if "required" in schema:
            required = keywords.names(schema["required"], f"{at}/required")
            yield Assertion(
                ObjectShape(required=required), lambda: [without(name) for name in required]
            )
        yield from self._counted(
            "minProperties", "maxProperties", lambda m, n: ObjectShape(min_members=m, max_members=n)
        )
        for keyword in ("dependentRequired", "dependencies"):
            yield from self._implied(keyword)

    def _members(self) -> Iterator[Assertion]:
        """`properties`, `patternProperties`, `additionalProperties`."""
        schema, at = self._schema, self._at
        given = tuple(
            (name, self._operand(member, f"{at}/properties/{escape(name)}"))
            for name, member in keywords.schemas_by_name(schema, "properties", at).items()
        )
        if given:
            yield Assertion(
                ObjectShape(given),
                lambda: [_member(name, o) for name, operand in given for o in negations(operand)],
                ObjectShape(seen=(Names(frozenset(name for name, _ in given)),)),
            )
        patterns = []
        for text, member in keywords.schemas_by_name(schema, "patternProperties", at).items():
            place = f"{at}/patternProperties/{escape(text)}"
            patterns.append(Pattern(text, place))
            yield _ruled(Names(patterns=(patterns[-1],)), self._operand(member, place))
        if "additionalProperties" in schema:
            operand = self._operand(schema["additionalProperties"], f"{at}/additionalProperties")
            others = Names(frozenset(name for name, _ in given), tuple(patterns), outside=True)
            yield _ruled(others, operand)

    def _implied(self, keyword: str) -> Iterator[Assertion]:
        at = f"{self._at}/{keyword}"
        for name, value in keywords.schemas_by_name(self._schema, keyword, self._at).items():
            if keyword == "dependencies" and isinstance(value, dict | bool):
                continue  # a schema: see `schema_reader`
            others = keywords.names(value, f"{at}/{escape(name)}")
            if others:
                yield _implication(name, others)


def _implication(name: str, others: tuple[str, ...]) -> Assertion:
    refuted = [
        ObjectShape(((other, NOTHING),), required=(name,)) for other in others if other != name
    ]
    return Assertion(ObjectShape(implied=((name, others),)), lambda: refuted)


def _ruled(names: Names, operand: Operand) -> Assertion:
    """What holds for all members of some names."""
    return Assertion(
        ObjectShape(rules=(Rule((names,), operand),), open=names.outside or bool(names.patterns)),
        lambda: [ObjectShape(some=(Rule((names,), other),)) for other in negations(operand)],
        ObjectShape(seen=(names,)),
    )


def _bound(keyword: str, bound: Number, *, is_open: bool) -> Assertion:
    lower = NumberShape(low=bound, low_open=is_open)
    upper = NumberShape(high=bound, high_open=is_open)
    if keyword == "minimum":
        below = NumberShape(high=bound, high_open=not is_open)
        return Assertion(lower, lambda: [below])
    above = NumberShape(low=bound, low_open=not is_open)
    return Assertion(upper, lambda: [above])


def _item(index: int, operand: Operand) -> ArrayShape:
    """Arrays whose item `index` has `operand`."""
    return ArrayShape((ANYTHING,) * index + (operand,), min_items=index + 1)


def _member(name: str, operand: Operand) -> ObjectShape:
    """Objects whose member `name` is there and has `operand`."""
    return ObjectShape(((name, operand),), required=(name,))


def without(name: str) -> ObjectShape:
    """Objects that have no member `name`."""
    return ObjectShape(((name, NOTHING),))
