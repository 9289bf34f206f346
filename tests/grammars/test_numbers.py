"""Numbers against exact arithmetic: what is accepted, what is refused, and no dead ends."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import gcd, lcm

import pytest
from hypothesis import assume, example, given, settings, strategies as st

from grammars.algebra import Algebra
from grammars.budget import Budget
from grammars.completion import Completions
from grammars.derive import arms, matches, walk
from grammars.errors import UnsupportedError
from grammars.expr import Concat, Expr, Ref, Repeat, Union
from grammars.json_values import Number
from grammars.number_lowering import lower_number
from grammars.shapes import NumberShape
from grammars.vocabulary import Vocabulary

PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def is_number(value: Fraction, shape: NumberShape) -> bool:
    """Whether a value has the shape, by its definition."""
    within = (
        (shape.low is None or value >= Fraction(shape.low))
        and (shape.high is None or value <= Fraction(shape.high))
        and not (shape.low_open and value == Fraction(shape.low or 0))
        and not (shape.high_open and value == Fraction(shape.high or 0))
    )
    is_whole = value.denominator == 1
    return (
        within
        and not (shape.integer and not is_whole)
        and not (shape.fractional and is_whole)
        and not any(value % Fraction(number) for number in shape.multiples)
        and all(value % Fraction(number) for number in shape.non_multiples)
        and all(value != Fraction(number) for number in shape.excluded)
    )


def is_text(text: str, shape: NumberShape, *, point_zero: bool = True) -> bool:
    """Whether a text without an exponent is written as the shape's numbers are."""
    if not PLAIN.fullmatch(text) or not is_number(Fraction(text), shape):
        return False
    whole, _, part = text.partition(".")
    is_long = bool(part) and len(whole.lstrip("-")) > 15
    if not shape.integer:
        return not (is_long and has_no_fraction(shape))
    return part in ("", "0") and not is_long if point_zero else not part and whole != "-0"


def has_no_fraction(shape: NumberShape) -> bool:
    """Whether the multiples of a shape are integers."""
    multiples = [Fraction(number) for number in shape.multiples]
    if not multiples:
        return False
    numerator, denominator = multiples[0].as_integer_ratio()
    for number in multiples[1:]:
        numerator = lcm(numerator, number.numerator)
        denominator = gcd(denominator, number.denominator)
    return denominator == 1


numbers = st.one_of(
    st.integers(-30, 30),
    st.integers(-3000, 3000),
    st.integers(-(10**40), 10**40),
    st.decimals(-30, 30, places=1, allow_nan=False),
    st.decimals(-2, 2, places=4, allow_nan=False),
    st.sampled_from([0, Decimal("-0.0"), Decimal("1E+2"), Decimal("1E-9"), 10**16, -1, 1, 10]),
)
multiples = st.one_of(
    st.integers(1, 30),
    st.sampled_from(
        [Decimal(text) for text in ("0.01", "0.5", "2.5", "1e-8", "0.0075", "0.3", "1e3", "1.0")]
    ),
    st.integers(1, 10**25),
)
few = st.lists(multiples, max_size=2).map(tuple)


@st.composite
def shapes(draw: st.DrawFn) -> NumberShape:
    low, high = draw(st.none() | numbers), draw(st.none() | numbers)
    if low is not None and high is not None and draw(st.integers(0, 3)):
        low, high = min(low, high), max(low, high)
    return NumberShape(
        integer=draw(st.booleans()),
        low=low,
        high=high,
        low_open=low is not None and draw(st.booleans()),
        high_open=high is not None and draw(st.booleans()),
        fractional=not draw(st.integers(0, 3)),
        multiples=draw(st.just(()) | few),
        non_multiples=draw(st.just(()) | few),
        excluded=draw(st.just(()) | st.lists(numbers, max_size=3).map(tuple)),
    )


def text_of(value: Number | Fraction) -> str:
    """A decimal in digits."""
    if isinstance(value, Fraction):
        value = Decimal(value.numerator) / Decimal(value.denominator)
    return f"{Decimal(value):f}"


@st.composite
def shapes_and_texts(draw: st.DrawFn) -> tuple[NumberShape, list[str]]:
    """A shape, and texts of numbers near what it speaks of."""
    shape = draw(shapes())
    spoken = [n for n in (shape.low, shape.high) if n is not None]
    spoken += [*shape.excluded, *shape.non_multiples, *shape.multiples, 0]
    texts = [text_of(draw(numbers))]
    for number in spoken:
        step: Decimal = draw(st.sampled_from([Decimal(s) for s in ("0", "1", "-1", ".1", "-.001")]))
        factor = draw(st.integers(-20, 20))
        texts += [text_of(number), text_of(-number), text_of(number + step)]
        texts += [text_of(number * factor), text_of(number * factor + step)]
    texts += [text + ("" if "." in text else ".") + "0" for text in texts]
    texts += [text + ("" if "." in text else ".") + "01" for text in texts[:6]]
    return shape, [*texts, "-0", "-0.0", "00", "1.", ".5", "+1", "-", ""]


@given(shapes_and_texts(), st.booleans())
@settings(max_examples=500, deadline=None)
def test_exactly_the_numbers_of_a_shape_are_accepted(
    given_: tuple[NumberShape, list[str]], point_zero: bool
) -> None:
    shape, texts = given_
    algebra = Algebra()
    node = lower_number(algebra, shape, point_zero=point_zero)
    for text in texts:
        found = matches(algebra, node, text.encode())
        assert found == is_text(text, shape, point_zero=point_zero), text


SHORT = [
    f"{sign}{whole}{part}"
    for sign, whole, part in product(
        ["", "-"],
        [str(number) for number in range(112)],
        ["", ".0", ".5", ".00", ".50", ".05", ".75", ".250"],
    )
]


@given(
    st.tuples(st.integers(-110, 110), st.integers(0, 30)),
    st.lists(st.sampled_from([1, 2, 7, 10, 12, Decimal("0.5"), Decimal("0.25")]), max_size=2),
    st.lists(st.sampled_from([1, 3, 5, 14, Decimal("0.5"), Decimal("0.75")]), max_size=2),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_shape_is_empty_exactly_when_it_has_no_number(
    place: tuple[int, int], every: list[Number], none: list[Number], is_integer: bool
) -> None:
    low, high = place[0] / 4, (place[0] + place[1]) / 4
    shape = NumberShape(
        integer=is_integer,
        low=Decimal(low),
        high=Decimal(high),
        multiples=(*every, Decimal("0.25")),
        non_multiples=tuple(none),
    )
    algebra = Algebra()
    node = lower_number(algebra, shape)
    wanted = [text for text in SHORT if is_text(text, shape)]
    assert [text for text in SHORT if matches(algebra, node, text.encode())] == wanted
    assert (node is algebra.empty) == (not wanted)


def references(node: Expr) -> list[Ref]:
    """The references that a state consists of."""
    if isinstance(node, Ref):
        return [node]
    if isinstance(node, Union):
        return [found for option in node.options for found in references(option)]
    if isinstance(node, Concat):
        return references(node.head)
    return references(node.body) if isinstance(node, Repeat) else []


BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256])


def ending_of(algebra: Algebra, node: Expr) -> bytes:
    """A short string of a state, as the matcher's plan would have it."""
    return bytes(Completions(algebra, BYTES).spelling(node).tokens())


@given(shapes(), st.randoms(use_true_random=False))
@example(NumberShape(low=3, high=10**17 + 3, multiples=(10**9 + 7,)), random.Random(1))
@example(NumberShape(low=Decimal("0.3"), multiples=(Decimal("1e-8"),)), random.Random(2))
@example(NumberShape(integer=True, multiples=(10**400 + 1,)), random.Random(3))
@example(NumberShape(integer=True, low=1, multiples=(10**400 + 1,)), random.Random(4))
@settings(max_examples=150, deadline=None)
def test_no_walk_comes_to_a_dead_end(shape: NumberShape, rng: random.Random) -> None:
    """Any digits that are allowed lead on to a number, as does the short way that a rule names."""
    algebra = Algebra(budget=Budget(max_steps=1_000_000))
    node, text = lower_number(algebra, shape), b""
    assume(node is not algebra.empty)
    for step in range(rng.choice([3, 30, 30, 320])):
        for found in references(node) if step < 12 or step > 290 else []:
            assert matches(algebra, found, ending_of(algebra, found.rules.least(found.key)))
        options = arms(algebra, node)
        if not options:
            break
        mask, node = rng.choice(options)
        text += bytes([rng.choice([byte for byte in range(256) if mask >> byte & 1])])
    value = Fraction((text + ending_of(algebra, node)).decode())
    assert is_number(value, shape)


@pytest.mark.parametrize(
    "shape",
    [
        NumberShape(integer=True, low=1, high=5, multiples=(7,)),
        NumberShape(low=Decimal("0.001"), high=Decimal("0.009"), multiples=(Decimal("0.01"),)),
        NumberShape(multiples=(6,), non_multiples=(3,)),
        NumberShape(multiples=(10**9,), non_multiples=(10**6,)),
        NumberShape(integer=True, fractional=True),
        NumberShape(integer=True, non_multiples=(Decimal("0.5"),)),
        NumberShape(low=1, high=1, excluded=(Decimal("1.0"),)),
        NumberShape(low=1, high=1, low_open=True),
        NumberShape(low=0, high=0, fractional=True),
        NumberShape(low=2, high=1),
        NumberShape(integer=True, low=10**60, high=10**60 + 10**30, multiples=(10**61 + 1,)),
    ],
)
def test_nothing_satisfies(shape: NumberShape) -> None:
    algebra = Algebra()
    assert lower_number(algebra, shape) is algebra.empty


@pytest.mark.parametrize(
    ("shape", "yes", "no"),
    [
        (NumberShape(integer=True), "0 -0 -0.0 3.0 -12.0 12", "1.00 1e3 1.5 1e+16 01"),
        (NumberShape(integer=True), f"{10**15 - 1}.0 {2**53 + 1}", f"{10**15}.0 {2**53 + 1}.0"),
        (NumberShape(low=10**15, integer=True), f"{10**15}", f"{10**15}.0 {10**15 - 1}.0"),
        (NumberShape(multiples=(3,)), f"3.00 {10**15 - 1}.0 {10**15 + 2}", f"{10**15 + 2}.0"),
        (NumberShape(multiples=(Decimal("0.01"),)), "4.35 0.070 -19.99 7", "4.355 1e-02"),
        (NumberShape(multiples=(Decimal("0.0075"),)), "0.0075 0.015 3 0", "0.00751 0.0076"),
        (NumberShape(multiples=(Decimal("1e-8"),)), "12391239123 0.00000001", "0.000000001"),
        (NumberShape(multiples=(4, Decimal("1.5"))), "12 24.0 0 -36", "4 1.5 6 18"),
        (NumberShape(excluded=(1,)), "1.01 10 -1 0.1", "1 1.0 1.000"),
        (NumberShape(excluded=(100_000,)), "100000.1 10000 1000000", "100000 100000.0"),
        (NumberShape(excluded=(0,)), "0.01 -0.5 5", "0 -0 0.0 -0.00"),
        (NumberShape(fractional=True), "1.5 -0.01 1.50", "1.0 0 -2 3.00"),
        (NumberShape(low=0), "0 -0.0 1e-05 1.7976931348623157e+308", "-1 1e5 1.8e+308"),
        (NumberShape(low=0, high=1), "0.5 1.0 1 0", "1e-05 1.1"),
        (NumberShape(low=-(10**20), high=10**20), "-9.99e+19 1e+20 1e-323", "1.1e+20 1e+21 1e-05x"),
        (NumberShape(low=Decimal("2e-7"), high=100), "2e-07 2.5e-07 1e-06", "1.9e-07 1e-08"),
        (NumberShape(excluded=(Decimal("1.5e-7"), 10**18)), "1.51e-07 2e+18", "1.50e-07 1e+18"),
        (NumberShape(), "1e+308 1E5 -1.5e-299 1.5e+308", "1e309 1.8e+308"),
    ],
)  # fmt: skip
def test_spellings(shape: NumberShape, yes: str, no: str) -> None:
    algebra = Algebra()
    node = lower_number(algebra, shape)
    assert [text for text in yes.split() if not matches(algebra, node, text.encode())] == []
    assert [text for text in no.split() if matches(algebra, node, text.encode())] == []


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300),
    st.sampled_from(
        [
            NumberShape(),
            NumberShape(low=0),
            NumberShape(high=0),
            NumberShape(low=-100, high=10**18),
            NumberShape(low=Decimal("-1e20"), high_open=True, high=10),
            NumberShape(excluded=(5, Decimal("2.5e-6"))),
        ]
    ),
)
@example(-0.0, NumberShape(low=0))
@example(1e16, NumberShape(low=-100, high=10**18))
@example(2.5e-06, NumberShape(excluded=(5, Decimal("2.5e-6"))))
@settings(max_examples=300, deadline=None)
def test_floats_are_accepted_as_json_dumps_writes_them(value: float, shape: NumberShape) -> None:
    """Unless 1 to 10 is out of the bounds; then none is led into an exponent."""
    assume(value == 0 or abs(value) >= 1e-299)  # below, an exponent has three digits from 3 on
    text = json.dumps(value)
    algebra = Algebra()
    found = matches(algebra, lower_number(algebra, shape), text.encode())
    same_sign = shape.high == 0 if value < 0 else shape.low == 0
    bounds_allow = shape.low is None or shape.high is None or same_sign or "e" not in text
    if is_number(Fraction(text), shape) and bounds_allow:
        assert found
    if found:
        assert is_number(Fraction(text), shape)


def test_a_number_of_too_many_digits_is_refused() -> None:
    for shape in [
        NumberShape(low=10**1200),
        NumberShape(high=Decimal("1e-1200")),
        NumberShape(multiples=(Decimal("1e1000000"),)),
    ]:
        with pytest.raises(UnsupportedError, match="more than 1000 digits"):
            lower_number(Algebra(), shape)


def test_a_multiple_that_needs_more_digits_than_are_written_may_still_be_written() -> None:
    algebra = Algebra()
    shape = NumberShape(integer=True, low=1, multiples=(10**400,))
    node = lower_number(algebra, shape)
    assert matches(algebra, node, b"1" + b"0" * 400)
    assert not matches(algebra, node, b"1" + b"0" * 399)


def test_states_are_few_where_little_matters() -> None:
    """Out of the bounds' reach a number has the same states whatever has been written."""
    algebra = Algebra()
    node = lower_number(algebra, NumberShape(integer=True, low=-5, multiples=(3,)))
    assert walk(algebra, node, b"123456") is walk(algebra, node, b"987654")
    node = lower_number(algebra, NumberShape(low=Decimal("12.5"), multiples=(Decimal("0.25"),)))
    assert walk(algebra, node, b"777.2") is walk(algebra, node, b"900.7")
    free = lower_number(algebra, NumberShape(low=12))
    assert not references(walk(algebra, free, b"345"))
