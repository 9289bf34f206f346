"""From a JSON Schema to an expression. Owns how values are laid out, and the entry points.

The texts of a schema are those of its valid values in one layout: white space as asked, each
character and number in the spellings that `charset`, `string_lowering` and `number_lowering` name,
members in the schema's order or in any. They are a subset of what is valid, never more. Every value
is a reference, unfolded when a text comes to it: recursion costs nothing, and neither does what is
never reached.

It must not know of keywords (that is `schema_reader`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from grammars.admission import Admission
from grammars.algebra import Algebra
from grammars.array_lowering import ArrayForm
from grammars.assertions import FormatRules
from grammars.budget import Budget, Limits, at_pointer
from grammars.charset import Encoder, ascii_json_text, json_text, utf8
from grammars.contradiction import core, told
from grammars.equal_texts import EqualTexts
from grammars.errors import CompileBudgetError, EmptyLanguageError, GrammarError
from grammars.expr import Expr, Repeat
from grammars.json_values import JsonValue, Number, number_spellings
from grammars.number_lowering import lower_number
from grammars.object_lowering import ObjectForm
from grammars.scalar_form import ScalarForm
from grammars.schema_reader import SchemaReader, SelfReferenceError
from grammars.shapes import (
    ANYTHING,
    ArrayShape,
    BooleanShape,
    GivenShape,
    NullShape,
    NumberShape,
    ObjectShape,
    Operand,
    Shape,
    Shapes,
    StringShape,
    both,
    place_of,
    without_formats,
)
from grammars.string_lowering import Strings
from grammars.survey import Form, Survey

WHITE = frozenset(b" \t\n\r")

CORE_LIMITS = Limits(max_steps=200_000, max_seconds=2.0, max_bytes=128 << 20)
"""What it may cost to find out which keywords contradict each other."""


class Style(NamedTuple):
    """How values are written; see `constraint.JsonSchema` for what each option means."""

    whitespace: str = "compact"
    max_whitespace: int = 8
    any_order: bool = False
    extra_properties: bool | None = None
    ascii_only: bool = False
    ignore_formats: bool = False


@dataclass(frozen=True)
class SchemaSource:
    """A schema document. `of_type`: it describes a Python type: when it allows nothing but strings
    they are written as they are, without quotes and escapes; integers have no ".0"; no format is
    taken for an annotation. `resources`: the documents that references may lead to, by URI.
    """

    document: JsonValue
    of_type: bool = False
    resources: Mapping[str, JsonValue] = field(default_factory=dict)


def lower_schema(
    algebra: Algebra,
    source: SchemaSource,
    style: Style,
    *,
    schemas: dict[str, JsonValue] | None = None,
) -> Expr:
    """The texts of the values that a schema allows.

    `schemas` is filled with every schema that was read, by its JSON pointer; also when it fails.
    Raises GrammarError, UnsupportedError or EmptyLanguageError with the JSON pointer.
    """
    lowering = _SchemaLowering(algebra, source, style)
    try:
        found = lowering.bare() if source.of_type else None
        return lowering.document() if found is None else found
    except EmptyLanguageError as error:
        raise _explained(error, algebra, source, style) from None
    finally:
        if schemas is not None:
            schemas.update(lowering.reader.found)


def _explained(
    error: EmptyLanguageError, algebra: Algebra, source: SchemaSource, style: Style
) -> EmptyLanguageError:
    """The error with the keywords that contradict each other, where they are found soon."""
    budget = Budget(*CORE_LIMITS)

    def is_empty(document: JsonValue) -> bool:
        tried = Algebra(algebra.alphabet, budget=budget)
        try:
            _SchemaLowering(tried, replace(source, document=document), style).document()
        except EmptyLanguageError:
            return True
        except CompileBudgetError:
            raise
        except GrammarError:
            return False  # what is left of a schema may be malformed, or refused
        return False

    try:
        keywords = core(source.document, is_empty, str(error.position or ""))
    except (CompileBudgetError, RecursionError):
        return error  # the place alone is known
    if not keywords:
        return error
    at = f"no value satisfies the schema at {error.position or '/'}"
    return EmptyLanguageError(
        f"{at}: {told(source.document, keywords)} contradict each other; loosen one of them"
        if len(keywords) > 1
        else f"{at}, because of {told(source.document, keywords)}; loosen it",
        error.position,
    )


class _SchemaLowering:
    """Lowers the operands of one document: the layout of `array_lowering`, `object_lowering`."""

    def __init__(self, algebra: Algebra, source: SchemaSource, style: Style) -> None:
        self.algebra = algebra
        self.any_order = style.any_order
        self.extra_properties = style.extra_properties
        gap: Expr = algebra.epsilon
        if style.whitespace == "flexible":
            white = algebra.byte_set(sum(1 << byte for byte in WHITE))
            gap = algebra.repeat(white, 0, style.max_whitespace)
        behind = algebra.literal(b" ") if style.whitespace == "single" else gap
        self._gap = gap
        self.comma = algebra.sequence([gap, algebra.literal(b","), behind])
        self.colon = algebra.sequence([gap, algebra.literal(b":"), behind])
        encode: Encoder = ascii_json_text if style.ascii_only else json_text
        self._strings = Strings(algebra, encode)
        self._names: dict[str, Expr] = {}
        self._numbers: dict[NumberShape, Expr] = {}
        self._voids: dict[Shape, bool] = {}
        self.admission = Admission(self._strings, self.shapes)
        self.reader = SchemaReader(
            source.document,
            budget=algebra.budget,
            admits=self.admission.admits,
            is_void=self.is_void,
            formats=FormatRules(source.of_type, style.ignore_formats),
            resources=source.resources,
        )
        self._point_zero = not source.of_type and self.reader.dialect.whole_floats
        self.equal = EqualTexts(self).of
        self._survey = Survey(self._forms, algebra.budget)
        self._values = _Values(self, self._survey)

    def document(self) -> Expr:
        """The texts of the whole document."""
        root = self.reader.root
        self._survey.reach(root)
        if not self._survey.forms(root):
            pointer = self._survey.blame(root)
            raise EmptyLanguageError(
                f"no value satisfies the schema at {pointer or '/'}; loosen its keywords", pointer
            )
        return self.algebra.concat(self._gap, self.value(root))

    def bare(self) -> Expr | None:
        """The strings that the document allows, unquoted; None when it allows other values too."""
        shapes = self.shapes(self.reader.root)
        if not are_strings(shapes):
            return None
        strings = Strings(self.algebra, utf8)
        return self.algebra.union(
            strings.body(s) if isinstance(s, StringShape) else strings.words(_texts(s))
            for s in shapes
        )

    # -- the layout --------------------------------------------------------------------------

    def shapes(self, operand: Operand) -> Shapes:
        """The alternatives of an operand."""
        return self.reader.shapes(operand)

    def value(self, operand: Operand) -> Expr:
        """Any value that an operand allows, which has one."""
        return self._values.ref(operand)

    def bracketed(self, opening: bytes, inside: Expr, closing: bytes) -> Expr:
        """What stands between brackets; where that is nothing, one gap does."""
        algebra, gap = self.algebra, self._gap
        if isinstance(inside, Repeat) and (inside.low, inside.high) == (0, 1):
            inside = algebra.optional(algebra.concat(inside.body, gap))
        elif inside is not algebra.epsilon:
            assert not inside.nullable, "what may be empty is optional"
            inside = algebra.concat(inside, gap)
        parts = [algebra.literal(opening), gap, inside, algebra.literal(closing)]
        return algebra.sequence(parts)

    def name(self, name: str) -> Expr:
        """A member's name and its colon."""
        if name not in self._names:
            quoted = self._quoted([name])
            self._names[name] = self.algebra.concat(quoted, self.colon)
        return self._names[name]

    def names(self, shape: StringShape) -> Expr:
        """The names of a shape; EMPTY when there is none."""
        return self._strings.lower(shape)

    def spelled(self, text: str) -> Expr:
        """A string with its quotes, in every way that it is written."""
        quote = self.algebra.literal(b'"')
        return self.algebra.sequence([quote, self._strings.spelled((text,)), quote])

    def other_names(self, names: Expr, extras: frozenset[str]) -> Expr:
        """Names that are none of `extras`."""
        algebra = self.algebra
        used = self._strings.spelled(tuple(sorted(extras)))
        quote = algebra.literal(b'"')
        return algebra.intersection(
            [names, algebra.complement(algebra.sequence([quote, used, quote]))]
        )

    def _quoted(self, texts: list[str]) -> Expr:
        algebra = self.algebra
        quote = algebra.literal(b'"')
        return algebra.sequence([quote, self._strings.words(tuple(texts)), quote])

    # -- forms -------------------------------------------------------------------------------

    def _forms(self, operand: Operand) -> list[Form]:
        """The alternatives of an operand, each with what it consists of."""
        forms: list[Form] = []
        for shape in self.shapes(operand):
            if isinstance(shape, ArrayShape):
                forms.append(ArrayForm(shape, self, self._survey, place_of(operand)))
            elif isinstance(shape, ObjectShape):
                forms.append(ObjectForm(shape, self, self._survey, place_of(operand)))
            else:
                forms.append(ScalarForm(shape, self))
        return forms

    def scalar(self, shape: Shape) -> Expr:
        """The texts of a value without parts; EMPTY when there is none."""
        algebra = self.algebra
        if isinstance(shape, NullShape):
            return algebra.literal(b"null")
        if isinstance(shape, BooleanShape):
            return algebra.words(b"true" if value else b"false" for value in shape.values)
        if isinstance(shape, NumberShape):
            if shape not in self._numbers:
                lowered = lower_number(algebra, shape, point_zero=self._point_zero)
                self._numbers[shape] = lowered
            return self._numbers[shape]
        if isinstance(shape, StringShape):
            return self._strings.lower(shape)
        assert isinstance(shape, GivenShape), "arrays and objects have forms of their own"
        numbers = [value for value in shape.values if isinstance(value, Number)]
        texts = [value for value in shape.values if isinstance(value, str)]
        written = (
            text.encode()
            for value in numbers
            for text in number_spellings(value, point_zero=self._point_zero)
        )
        return algebra.union([algebra.words(written), self._quoted(texts)])

    def is_void(self, shape: Shape) -> bool:
        """Whether it is certain that no value has `shape`, also for a reader who takes formats for
        annotations; without looking into recursion.
        """
        if isinstance(shape, NullShape | BooleanShape | GivenShape):
            return False
        shape = without_formats(shape)
        if shape not in self._voids:
            self.algebra.budget.spend()
            self._voids[shape] = False  # so it is while it is looked at
            self._voids[shape] = self._is_void(shape)
        return self._voids[shape]

    def _is_void(self, shape: Shape) -> bool:
        if isinstance(shape, ArrayShape):
            needed = [shape.operand(i) for i in range(min(shape.min_items, len(shape.prefix) + 1))]
            return any(map(self._has_none, needed))
        if isinstance(shape, ObjectShape):
            given = dict(shape.properties)
            if shape.max_members is not None and len(shape.required) > shape.max_members:
                return True
            needed = [self._member(shape, n, given.get(n, ANYTHING)) for n in shape.required]
            needed.sort(key=self.reader.leads_on)  # most often, a constant tells objects apart
            return any(map(self._has_none, needed))
        return self.scalar(shape) is self.algebra.empty

    def _member(self, shape: ObjectShape, name: str, given: Operand) -> Operand:
        """What the member of a name has: what is given for it, and by rules of names."""
        for rule in shape.rules:
            if not rule.saying and self.admission.is_in(name, rule.names):
                given = both(given, rule.operand)
        return given

    def _has_none(self, operand: Operand) -> bool:
        """Whether it is certain that no value has `operand`."""
        try:
            return all(map(self.is_void, self.shapes(operand)))
        except SelfReferenceError:  # this is asked while it is read
            return False


class _Values:
    """The texts of operands, each made when a text comes to it."""

    def __init__(self, lowering: _SchemaLowering, survey: Survey) -> None:
        self._lowering = lowering
        self._survey = survey
        self._whole: dict[Operand, Expr] = {}
        self._least: dict[Operand, Expr] = {}

    def ref(self, operand: Operand) -> Expr:
        """The values of an operand that has any."""
        return self._lowering.algebra.ref(self, operand)

    def unfold(self, key: Hashable) -> Expr:
        operand = _operand(key)
        if operand not in self._whole:
            self._lowering.algebra.budget.at = at_pointer(place_of(operand))
            forms = self._survey.forms(operand)
            assert forms, "only operands that have a value are written"
            self._whole[operand] = self._lowering.algebra.union(form.lower() for form in forms)
        return self._whole[operand]

    def least(self, key: Hashable) -> Expr:
        operand = _operand(key)
        if operand not in self._least:
            self._lowering.algebra.budget.at = at_pointer(place_of(operand))
            self._least[operand] = self._survey.least(operand).lower()
        return self._least[operand]


def _operand(key: Hashable) -> Operand:
    assert isinstance(key, tuple), "a key is an operand"
    return key


def _texts(shape: Shape) -> tuple[str, ...]:
    """The given strings of a shape."""
    assert isinstance(shape, GivenShape), "a shape of nothing but strings"
    return tuple(value for value in shape.values if isinstance(value, str))


def are_strings(shapes: Shapes) -> bool:
    """Whether every alternative is a string, and there is one."""
    return bool(shapes) and all(
        isinstance(shape, StringShape)
        or (isinstance(shape, GivenShape) and all(isinstance(v, str) for v in shape.values))
        for shape in shapes
    )


def only_strings(document: JsonValue) -> bool:
    """Whether the document of a type allows nothing but strings, which are then written bare."""
    lowering = _SchemaLowering(Algebra(), SchemaSource(document, of_type=True), Style())
    return are_strings(lowering.shapes(lowering.reader.root))
