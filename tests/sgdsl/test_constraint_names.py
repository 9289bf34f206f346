"""How constraints and types are printed: as their program writes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union

import pytest
from pydantic import BaseModel, Field

import sgdsl as sgl
from grammars import (
    Alternation,
    Choices,
    Concatenation,
    Constraint,
    JsonSchema,
    Regex,
    Repetition,
    StructuralTags,
    TypeOf,
)
from grammars.tags import Tag
from sgdsl import ProgramState, gen
from sgdsl.constraint_names import type_name, written

T = TypeVar("T")


class Model(BaseModel):
    name: str = Field(max_length=5)


class Page(BaseModel, Generic[T]):
    items: list[T]


@dataclass
class Point:
    x: int


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Model, "Model"),
        (Point, "Point"),
        (Colour, "Colour"),
        (int, "int"),
        (list[Model], "list[Model]"),
        (dict[str, list[Point]], "dict[str, list[Point]]"),
        (tuple[Model, ...], "tuple[Model, ...]"),
        (Optional[Model], "Model | None"),  # noqa: UP045 - what is tested
        (Union[Model, Point, int], "Model | Point | int"),  # noqa: UP007
        (Model | None, "Model | None"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[int, Field(ge=1)], "Annotated[int, ...]"),
        (Page[Model], "Page[Model]"),
        (None, "None"),
    ],
)
def test_a_type_is_written_without_modules(kind: Any, name: str) -> None:
    assert type_name(kind) == name


def test_a_class_of_a_function_has_its_own_name() -> None:
    class Local(BaseModel):
        x: int

    assert type_name(list[Local]) == "list[Local]"


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("constraint", "shown"),
    [
        (TypeOf(list[Model], whitespace="flexible"), "type=list[Model]"),
        (TypeOf(Model).portable(), "type=Model"),
        (JsonSchema({**OBJECT, "title": "Pair"}), "json_schema=Pair"),
        (JsonSchema({**OBJECT, "title": "A pair"}), "json_schema='A pair'"),
        (JsonSchema(OBJECT), "json_schema={a, b}"),
        (JsonSchema(True), "json_schema=true"),
        (Regex("a+"), "regex='a+'"),
        (Concatenation("<", TypeOf(Model), ">"), "'<' + type=Model + '>'"),
        (Repetition(TypeOf(Model), 1, 3, ","), "(type=Model){1,3}"),
        (Alternation(TypeOf(Model), Choices(["x"])), "(type=Model | choices=['x'])"),
        (StructuralTags([Tag("<f>", Regex("a"), "</f>")]), "tags=['<f>']"),
    ],
)
def test_a_constraint_is_written_as_its_argument(constraint: Constraint, shown: str) -> None:
    assert written(constraint) == shown


def test_what_is_nested_without_an_end_is_written_to_some_depth() -> None:
    constraint: Constraint = Regex("a")
    kind: Any = int
    for _ in range(3000):
        constraint = Repetition(constraint, 0, 2)
    for _ in range(100):
        kind = list[kind]
    assert written(constraint).startswith("((((((((...){0,2}){0,2}")
    assert type_name(kind) == "list[" * 8 + "..." + "]" * 8


def test_graphs_and_errors_show_types_as_written() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += gen("people", type=list[Model])

    assert str(program.trace()).endswith("%0 gen people type=list[Model]")
    assert "gen     people type=list[Model]" in program.trace().draw()
    state = program.run(backend=sgl.MockBackend({"people": "Ada"}))
    assert "%0 gen people type=list[Model] at" in str(state.error())
    assert "does not satisfy the type list[Model]" in str(state.error())
