"""Python types: constrained, written, and read back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import random
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Union

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator
from typing_extensions import TypedDict

from grammars import Compiler, GrammarError, JsonSchema, Matcher, TypeOf, UnsupportedError, accepts
from tests.grammars.vocabularies import budgets, small_vocabulary, walk

COMPILER = Compiler(small_vocabulary())


class License(enum.Enum):
    MIT = "MIT"
    APACHE = "Apache-2.0"
    OTHER = "other"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 20


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


class Options(TypedDict):
    a: int
    b: NotRequired[str]


class Pair(NamedTuple):
    first: int
    second: bool


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Cow(BaseModel):
    kind: Literal["cow"] = "cow"


class Pig(BaseModel):
    kind: Literal["pig"] = "pig"
    weight: int


class Record(BaseModel):
    """A description, which is an annotation."""

    name: str = Field(max_length=20, description="its name")
    version: str | None
    license: License
    topics: list[str] = Field(max_length=5)
    python: str = Field(pattern=r"^3\.\d{1,2}$")
    score: float = Field(ge=0, le=1)
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]  # noqa: UP007
    note: str = "none"


class Node(BaseModel):
    name: str
    children: list[Node]
    parent: Node | None = None


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


TYPES: list[Any] = [
    int, float, bool, str, None, Decimal, License, Level, Literal["a", "b"], Literal[1, "b"],
    dt.date, dt.datetime, dt.time, uuid.UUID, bytes, Point, Options, Pair, Record,
    list[int], dict[str, int], tuple[int, str], int | None, int | str, Any,
    Annotated[int, Field(ge=3, lt=7)], Annotated[str, Field(pattern="^a+$", max_length=4)],
    dt.timedelta, set[int], frozenset[License], Node, dict[License, int], dict[int, Node],
]  # fmt: skip


@pytest.mark.parametrize("tp", TYPES, ids=str)
def test_a_walk_is_read_back_as_the_type_at_any_budget(tp: Any) -> None:
    constraint = TypeOf(tp)
    grammar = COMPILER.compile(constraint)
    rng = random.Random(0)
    for max_tokens in [*budgets(grammar), grammar.min_tokens + 40]:
        text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
        value = constraint.parse(text)
        TypeAdapter(tp).validate_python(value, strict=tp is not Any)
        assert accepts(constraint, text)


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (str, 'say "hi"\n', 'say "hi"\n'),
        (License, "Apache-2.0", License.APACHE),
        (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
        (int, "-12", -12),
        (list[License], '["MIT"]', [License.MIT]),
        (Point, '{"x":1,"tags":["a"]}', Point(1, ["a"])),
        (License | None, '"MIT"', License.MIT),
    ],
)
def test_strings_are_written_bare_and_all_else_as_json(tp: Any, text: str, value: Any) -> None:
    constraint = TypeOf(tp)
    assert accepts(constraint, text)
    assert constraint.parse(text) == value


def test_a_model_class_is_its_json_schema() -> None:
    text = '{"kind": "cat", "lives": 9}'
    assert accepts(JsonSchema(Cat, whitespace="single"), text)
    assert accepts(TypeOf(Cat, whitespace="single"), text)
    assert not accepts(TypeOf(Cat), text)
    assert not accepts(JsonSchema(Cat), '{"kind":"cat","lives":10}')


def test_types_are_compared_by_content() -> None:
    assert TypeOf(Record) == TypeOf(Record)
    assert hash(TypeOf(Record)) == hash(TypeOf(Record))
    assert TypeOf(int) != TypeOf(int | None)
    assert COMPILER.compile(TypeOf(Record)) is COMPILER.compile(TypeOf(Record))


def test_what_a_validator_refuses_is_refused_by_parse() -> None:
    constraint = TypeOf(Even)
    assert accepts(constraint, '{"number":3}')
    with pytest.raises(ValidationError):
        constraint.parse('{"number":3}')


def test_a_set_that_asks_for_items_that_differ_is_enforced_or_refused() -> None:
    two = TypeOf(Annotated[set[License], Field(min_length=2)])
    assert accepts(two, '["MIT","other"]')
    assert not accepts(two, '["MIT","MIT"]')
    assert accepts(TypeOf(set[License]), '["MIT","MIT"]')
    for tp in (set[float], set[uuid.UUID], set[Literal[1, True]]):
        with pytest.raises(UnsupportedError, match="may be equal when they are read"):
            TypeOf(Annotated[tp, Field(min_length=2)])


@pytest.mark.parametrize("tp", [Any, Node, dict[str, list[Node]], dict[str, Any]], ids=str)
def test_a_text_never_nests_deeper_than_its_reader_follows(tp: Any) -> None:
    """pydantic gives up behind 200 levels."""
    constraint = TypeOf(tp)
    opening, middle, closing = '{"name":"","children":[', "", "]}"
    if tp is Any:
        opening, middle, closing = "[", "", "]"
    around = {dict[str, Any]: ('{"a":', "}"), dict[str, list[Node]]: ('{"a":[', "]}")}
    left, right = around.get(tp, ("", ""))
    if tp == dict[str, Any]:
        opening, middle, closing = "[", "0", "]"
    depths = [
        depth
        for depth in range(1, 300)
        if accepts(constraint, left + opening * depth + middle + closing * depth + right)
    ]
    assert depths == list(range(1, len(depths) + 1)), "the bound is one"
    assert 20 < len(depths) < 100
    constraint.parse(left + opening * len(depths) + middle + closing * len(depths) + right)


def test_the_tag_of_a_union_is_always_written() -> None:
    constraint = TypeOf(Annotated[Cow | Pig, Field(discriminator="kind")])
    assert accepts(constraint, '{"kind":"cow"}')
    assert accepts(constraint, '{"kind":"pig","weight":3}')
    for text in ("{}", '{"weight":3}', '{"kind":"pig"}', '{"kind":"cow","weight":3}'):
        assert not accepts(constraint, text)


def test_the_options_of_a_schema_are_those_of_a_type() -> None:
    text = '{"tags": ["\\u00e9"],\t"x": 1}'
    options: dict[str, Any] = {"whitespace": "flexible", "property_order": "any"}
    assert accepts(TypeOf(Point, **options, ascii_only=True), text)
    assert not accepts(TypeOf(Point, **options), text.replace("\t", "\t\t\t" * 3))
    assert accepts(TypeOf(Point, **options, max_whitespace=9), text.replace("\t", "\t\t\t" * 3))
    assert not accepts(TypeOf(Point, whitespace="flexible"), text)
    assert not accepts(TypeOf(Point, ascii_only=True), '{"x":1,"tags":["é"]}')
    assert TypeOf(Point) != TypeOf(Point, ascii_only=True)
    for name, value in [("whitespace", "no"), ("property_order", ""), ("max_whitespace", -1)]:
        with pytest.raises(GrammarError, match=name):
            TypeOf(int, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "tp", [object(), "Missing", type("Plain", (), {})], ids=["object", "unknown name", "class"]
)
def test_what_has_no_schema_is_refused_at_once(tp: Any) -> None:
    with pytest.raises(GrammarError, match="has no JSON schema"):
        TypeOf(tp)


@pytest.mark.parametrize(
    "tp",
    [
        complex,
        list[complex],
        dict[tuple[int, int], str],
        dict[str, dict[None, int]],
        set[list[int]],
    ],
    ids=str,
)
def test_a_type_whose_schema_says_too_little_is_refused(tp: Any) -> None:
    """Its texts would be let through by the mask and refused by the parser."""
    with pytest.raises(UnsupportedError, match="does not describe"):
        TypeOf(tp)
