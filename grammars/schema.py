"""From shapes to expressions: how JSON values are written. Owns arrays, objects and the entry
point.

The texts of a schema are one serialisation of its values (`compact`: no white space; `single`: one
space after each comma and colon), with the members in the schema's order. They are a subset of what
is valid, never more:

* members that are not declared are not written when some are declared or required (without any, an
  object is a map from any name to `additionalProperties`);
* a value of no declared shape (`{}`, `true`) nests at most ANY_DEPTH levels deep;
* recursion through `$ref` is refused.

It must not know of keywords (that is `schema_reader`).
"""

from __future__ import annotations

from dataclasses import replace

from grammars.admission import Admission
from grammars.algebra import Algebra
from grammars.charset import utf8
from grammars.errors import EmptyLanguageError, UnsupportedError
from grammars.expr import Expr
from grammars.json_values import JsonValue, is_text, spellings
from grammars.number_lowering import lower_number
from grammars.schema_reader import MAX_DEPTH, SchemaReader
from grammars.shapes import (
    ANYTHING,
    ArrayShape,
    BooleanShape,
    NullShape,
    NumberShape,
    ObjectShape,
    Operand,
    Shape,
    Shapes,
    StringShape,
    ValueShape,
    intersect,
)
from grammars.string_lowering import Strings

ANY_DEPTH = 6
"""Levels of a value about which the schema says nothing; recursion proper comes with references."""


def lower_schema(
    algebra: Algebra, document: JsonValue, *, whitespace: str, of_type: bool = False
) -> Expr:
    """The JSON texts of the values that `document` allows.

    `of_type`: it describes a Python type. When it allows nothing but strings, they are written as
    they are, without quotes and escapes, and no format is taken for an annotation.
    Raises GrammarError, UnsupportedError or EmptyLanguageError with the JSON pointer.
    """
    lowering = _SchemaLowering(algebra, document, whitespace, of_type=of_type)
    found = lowering.bare() if of_type else None
    if found is None:
        found = lowering.value(lowering.reader.root)
    if found is algebra.empty:
        pointer = lowering.blame.get(lowering.reader.root, "")
        raise EmptyLanguageError(
            f"no value satisfies the schema at {pointer or '/'}; loosen its keywords", pointer
        )
    return found


class _SchemaLowering:
    """Lowers operands, each once. `blame` says which place makes an operand unsatisfiable."""

    def __init__(
        self, algebra: Algebra, document: JsonValue, whitespace: str, *, of_type: bool
    ) -> None:
        self.algebra = algebra
        self.whitespace = whitespace
        gap = b"" if whitespace == "compact" else b" "
        self.comma = algebra.literal(b"," + gap)
        self.colon = b":" + gap
        self.strings = Strings(algebra)
        self.admission = Admission(self.strings, self.shapes)
        self.reader = SchemaReader(
            document,
            budget=algebra.budget,
            admits=self.admission.admits,
            excludes=self.excludes,
            of_type=of_type,
        )
        self.blame: dict[Operand, str] = {}
        self.lowered: dict[Operand, Expr] = {}
        self.open: list[Operand] = []
        self.by_depth: dict[int, Expr] = {}

    def shapes(self, operand: Operand) -> tuple[Shape, ...]:
        return self.reader.shapes(operand)

    def value(self, operand: Operand) -> Expr:
        """Any value that `operand` allows."""
        if operand == ANYTHING:
            return self.anything(ANY_DEPTH)
        if operand not in self.lowered:
            pointer = operand[-1].pointer
            if operand in self.open:
                raise UnsupportedError(
                    f"the schema at {pointer or '/'} contains itself; recursion is not supported "
                    "yet",
                    pointer,
                )
            if len(self.open) >= MAX_DEPTH:
                raise UnsupportedError(
                    f"the schema is nested deeper than {MAX_DEPTH} levels at {pointer}; flatten it",
                    pointer,
                )
            self.open.append(operand)
            self.lowered[operand] = self.alternatives(operand)
            self.open.pop()
        return self.lowered[operand]

    def bare(self) -> Expr | None:
        """The strings that the document allows, unquoted; None when it allows other values too."""
        shapes = self.shapes(self.reader.root)
        if not _are_strings(shapes):
            return None
        strings = Strings(self.algebra, utf8)
        values = [s.value for s in shapes if isinstance(s, ValueShape)]
        given = [value.encode() for value in values if is_text(value)]
        shaped = [strings.body(s) for s in shapes if isinstance(s, StringShape)]
        return self.algebra.union([self.algebra.words(given), *shaped])

    def alternatives(self, operand: Operand) -> Expr:
        algebra = self.algebra
        shapes = self.shapes(operand)
        values = [s.value for s in shapes if isinstance(s, ValueShape)]
        texts = (text for value in values for text in spellings(value, self.whitespace))
        options = [algebra.words(text.encode() for text in texts)]
        for shape in shapes:
            if not isinstance(shape, ValueShape):
                made = self.shape(shape)
                if made is algebra.empty and isinstance(shape, ObjectShape):
                    self.blame.setdefault(operand, self.blame_of(shape))
                options.append(made)
        found = algebra.union(options)
        if found is algebra.empty:
            self.blame.setdefault(operand, operand[-1].pointer)
        return found

    def shape(self, shape: Shape) -> Expr:
        """The texts of one shape."""
        algebra = self.algebra
        if isinstance(shape, NullShape):
            return algebra.literal(b"null")
        if isinstance(shape, BooleanShape):
            return algebra.words([b"true", b"false"])
        if isinstance(shape, NumberShape):
            return lower_number(algebra, shape)
        if isinstance(shape, StringShape):
            return self.strings.lower(shape)
        if isinstance(shape, ArrayShape):
            return self.array(shape)
        assert isinstance(shape, ObjectShape), "values are lowered together"
        return self.object(shape)

    def anything(self, depth: int) -> Expr:
        """Any JSON value with at most `depth` levels of containers."""
        if depth not in self.by_depth:
            algebra = self.algebra
            scalars: list[Shape] = [NullShape(), BooleanShape(), NumberShape(), StringShape()]
            options = [self.shape(shape) for shape in scalars]
            inner = self.anything(depth - 1) if depth else algebra.empty
            options.append(self.bracketed(b"[", self.listed(inner, 0, None), b"]"))
            options.append(self.bracketed(b"{", self.map_members(inner), b"}"))
            self.by_depth[depth] = algebra.union(options)
        return self.by_depth[depth]

    def excludes(self, left: Shape, right: Shape) -> bool:
        """Whether it is certain that no value has both shapes, also with formats as annotations."""
        left, right = _without_formats(left), _without_formats(right)
        for value, other in ((left, right), (right, left)):
            if isinstance(value, ValueShape):
                return not self.admission.admits(value.value, other)
        met = intersect(left, right)
        return met is None or self.is_void(met)

    def is_void(self, shape: Shape) -> bool:
        """Whether no value has `shape`, also for a reader who takes formats for annotations."""
        if isinstance(shape, ObjectShape):
            operands = [shape.operand(name) for name in shape.required]
            return any(
                self.value(operand) is self.algebra.empty
                and all(map(self.is_void, self.shapes(operand)))
                for operand in operands
            )
        if isinstance(shape, ValueShape):
            return False
        return self.shape(_without_formats(shape)) is self.algebra.empty

    # -- arrays ------------------------------------------------------------------------------

    def bracketed(self, opening: bytes, inside: Expr, closing: bytes) -> Expr:
        literal = self.algebra.literal
        return self.algebra.sequence([literal(opening), inside, literal(closing)])

    def listed(self, item: Expr, low: int, high: int | None) -> Expr:
        """`low` to `high` items with commas between them."""
        algebra = self.algebra
        if high == 0:
            return algebra.epsilon if low == 0 else algebra.empty
        if high is not None and low > high:
            return algebra.empty
        more = algebra.repeat(
            algebra.concat(self.comma, item), max(low - 1, 0), None if high is None else high - 1
        )
        some = algebra.concat(item, more)
        return algebra.optional(some) if low == 0 else some

    def array(self, shape: ArrayShape) -> Expr:
        algebra, low, high = self.algebra, shape.min_items, shape.max_items
        if high is not None and low > high:
            return algebra.empty
        size = len(shape.prefix) if high is None else min(len(shape.prefix), high)
        needed = high is None or high > size
        rest = self.value(shape.rest) if needed else algebra.empty
        if size == 0:
            return self.bracketed(b"[", self.listed(rest, low, high), b"]")
        following = algebra.repeat(
            algebra.concat(self.comma, rest),
            max(low - size, 0),
            None if high is None else high - size,
        )
        for index in range(size - 1, -1, -1):
            item = self.value(shape.prefix[index])
            if index:
                item = algebra.concat(self.comma, item)
            following = algebra.concat(item, following)
            if index >= low:
                following = algebra.optional(following)
        return self.bracketed(b"[", following, b"]")

    # -- objects -----------------------------------------------------------------------------

    def name(self, name: str) -> Expr:
        """A member's name and its colon."""
        return self.algebra.words(t.encode() + self.colon for t in spellings(name, self.whitespace))

    def map_members(self, value: Expr) -> Expr:
        """Any number of members of any names."""
        algebra = self.algebra
        any_name = algebra.concat(self.strings.lower(StringShape()), algebra.literal(self.colon))
        return self.listed(algebra.concat(any_name, value), 0, None)

    def object(self, shape: ObjectShape) -> Expr:
        declared = dict(shape.properties)
        members = [*declared, *(name for name in shape.required if name not in declared)]
        if not members:
            return self.bracketed(b"{", self.map_members(self.value(shape.others)), b"}")
        for name in shape.required:
            if self.value(shape.operand(name)) is self.algebra.empty:
                return self.algebra.empty
        pairs = [
            (self.algebra.concat(self.name(name), self.value(shape.operand(name))), name)
            for name in members
        ]
        required = set(shape.required)
        return self.bracketed(
            b"{", self.members([(pair, name in required) for pair, name in pairs]), b"}"
        )

    def members(self, pairs: list[tuple[Expr, bool]]) -> Expr:
        """Members in their order, with commas right for every subset; linear in their number.

        `following` is what may come after a member (each with its comma in front); `first` collects
        the ways to begin, one for each member before which all others are optional.
        """
        algebra = self.algebra
        following: Expr = algebra.epsilon
        first: list[Expr] = [algebra.epsilon]
        for pair, is_required in reversed(pairs):
            begun = algebra.concat(pair, following)
            first = [begun] if is_required else [*first, begun]
            part = algebra.concat(self.comma, pair)
            following = algebra.concat(part if is_required else algebra.optional(part), following)
        return algebra.union(first)

    def blame_of(self, shape: ObjectShape) -> str:
        """The place of the required member that cannot be."""
        for name in shape.required:
            operand = shape.operand(name)
            if operand and self.lowered.get(operand) is self.algebra.empty:
                return self.blame.get(operand, operand[-1].pointer)
        raise AssertionError("an object is empty only through a required member")


def _without_formats(shape: Shape) -> Shape:
    """The shape for a reader who takes formats for annotations."""
    return replace(shape, formats=()) if isinstance(shape, StringShape) else shape


def _are_strings(shapes: Shapes) -> bool:
    """Whether every alternative is a string, and there is one."""
    return bool(shapes) and all(
        isinstance(shape, StringShape)
        or (isinstance(shape, ValueShape) and isinstance(shape.value, str))
        for shape in shapes
    )


def only_strings(document: JsonValue) -> bool:
    """Whether the document of a type allows nothing but strings, which are then written bare."""
    lowering = _SchemaLowering(Algebra(), document, "compact", of_type=True)
    return _are_strings(lowering.shapes(lowering.reader.root))
