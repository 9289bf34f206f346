"""`s.get("x", T)`: what counts as a T, and what is said of what does not."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, gen


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int


class Options(TypedDict):
    deep: bool


def read(text: Any, tp: Any, **options: Any) -> Any:
    @sgl.function
    def program(s: ProgramState) -> Any:
        s += gen("x", **options)
        return s.get("x", tp)

    return program.run(backend=MockBackend({"x": text})).ret_value


@pytest.mark.parametrize(
    ("text", "tp", "value"),
    [
        ("7", int, 7),
        ("2.5", float, 2.5),
        ("true", bool, True),
        ("text", str, "text"),
        ("red", Colour, Colour.RED),
        ("a", Literal["a", "b"], "a"),
        ("2024-02-29", date, date(2024, 2, 29)),
        ('{"x": 1}', Point, Point(x=1)),
        ("[1, 2]", list[int], [1, 2]),
        ("null", int | None, None),
        ("5", Optional[int], 5),  # noqa: UP045 - users write it
        ('{"deep":true}', Options, {"deep": True}),
    ],
)
def test_a_text_is_parsed(text: str, tp: Any, value: Any) -> None:
    assert read(text, tp) == value
    assert type(read(text, tp)) is type(value)


def test_a_value_of_the_type_comes_back_as_it_is() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += gen("p", type=Point) + gen("n", dtype=int)
        forks = s.fork(2)
        forks += gen("each", type=Point)
        forks.join()
        assert s.get("p", Point) is s["p"]
        assert s.get("n", int | None) == 1
        assert s.get("each", list[Point]) == [Point(x=1), Point(x=2)]
        assert s.get("n") == s.get("n", int) == s["n"]
        with pytest.raises(sgl.UsageError, match="a Point; ask for that type"):
            s.get("p", int)
        with pytest.raises(sgl.UsageError, match=r"an? int; ask for that type"):
            s.get("n", bool)
        with pytest.raises(sgl.UsageError, match="defines only"):
            s.get("unknown", int)

    replies = {"p": '{"x":1}', "n": "1", "each": ['{"x":1}', '{"x":2}']}
    assert program.run(backend=MockBackend(replies)).outcome == sgl.Outcome("ok")


@pytest.mark.parametrize(("text", "tp"), [("x", int), ("green", Colour), ('{"x": "y"}', Point)])
def test_a_text_that_is_none_says_which(text: str, tp: Any) -> None:
    with pytest.raises(sgl.ProgramError, match=r"get\('x', .*\): the text .* is not one") as raised:
        read(text, tp)
    assert isinstance(raised.value.__cause__, ValidationError)


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(sgl.UsageError, match="pydantic knows no such type"):
        read("5", object())


def test_unnamed_gens_have_types_too() -> None:
    @sgl.function
    def program(s: ProgramState) -> int:
        s += gen()
        return s.get(0, int)

    assert program.run(backend=MockBackend({"": "5"})).ret_value == 5


def test_an_integer_is_a_float_and_a_list_of_texts_a_list_of_values() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += gen("n", dtype=int) + gen("two", regex="[0-9]", n=2)
        forks = s.fork(2)
        forks += gen("each", json_schema=Point)
        forks.join()
        assert type(s.get("n", float)) is float
        assert s.get("two", list[int]) == [2, 3]
        assert s.get("each", list[Point]) == [Point(x=1), Point(x=2)]
        with pytest.raises(sgl.ProgramError, match="the text '2' is not one"):
            s.get("two", list[Colour])

    replies = {"n": "1", "two": ["2", "3"], "each": ['{"x":1}', '{"x":2}']}
    assert program.run(backend=MockBackend(replies)).outcome == sgl.Outcome("ok")
