"""What the primitives accept, and how they refuse the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from grammars import Cfg, Concatenation, Constraint, JsonSchema, Regex, Substring, TypeOf
from grammars.algebra import Algebra
from grammars.expr import Expr as Language
from sgdsl.expressions import Expr
from sgdsl.graph import Gen, Node, Sampling, Select, Text


class Person(BaseModel):
    name: str


class Colour(Enum):
    RED = "red"


CHECK_BOX = JsonSchema({"type": "boolean"}, whitespace="flexible")
FENCED = Concatenation("```json\n", JsonSchema(Person), "\n```")


class Shouted(Constraint):
    """A user's own, which has a value."""

    def lower(self, algebra: Algebra) -> Language:
        return algebra.literal(b"ho")

    def parse(self, text: str) -> str:
        return text.upper()


SHOUTED = Shouted()


class Unhashable(Shouted):
    __hash__ = None  # type: ignore[assignment]


def nodes(expr: Expr) -> list[Node]:
    return [part(i, 0, None) for i, part in enumerate(expr.parts)]


def only(expr: Expr) -> Any:
    (node,) = nodes(expr)
    return node


class Alike(type):
    """All classes of this metaclass are equal, and none can be hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        return True


def test_a_class_that_cannot_be_hashed_is_a_type() -> None:
    plain: Any = Alike("Point", (), {"__annotations__": {"x": int}})
    point = dataclass(plain)
    assert vars(only(sgl.gen("p", type=point)).constraint.parse('{"x":1}')) == {"x": 1}


def test_a_document_is_not_kept_by_the_line_that_quotes_from_it() -> None:
    """A gen with short arguments is made once, and kept."""
    document = "x" * 2000
    assert sgl.gen("short", 5) is sgl.gen("short", 5)
    assert sgl.gen("q", substring_of=document) is not sgl.gen("q", substring_of=document)


def test_gen_takes_its_arguments_in_sglangs_order() -> None:
    node = only(
        sgl.gen("x", 64, 2, None, ["\n", "."], [7], None, 0.5, 0.9, 40, 0.1, 0.2, 0.3, True, True)
    )
    assert node == Gen(
        0,
        0,
        None,
        "x",
        Sampling(
            max_tokens=64,
            min_tokens=2,
            stop=("\n", "."),
            stop_token_ids=(7,),
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            min_p=0.1,
            frequency_penalty=0.2,
            presence_penalty=0.3,
            ignore_eos=True,
            return_logprob=True,
        ),
    )


def test_what_gen_does_not_say_is_inherited() -> None:
    assert only(sgl.gen()) == Gen(0, 0, None, None, Sampling())


def test_select_takes_its_arguments_in_sglangs_order() -> None:
    node = only(sgl.select("x", ["a", "b"], 0.5, sgl.greedy_token_selection))
    assert node == Select(0, 0, None, "x", ("a", "b"), sgl.greedy_token_selection, 0.5)


def test_gen_with_choices_is_a_select() -> None:
    node = only(sgl.gen("x", choices=["a", "b"], choices_method=sgl.greedy_token_selection))
    assert node == only(sgl.select("x", ["a", "b"], choices_method=sgl.greedy_token_selection))
    assert only(sgl.gen("x", choices=["a"], temperature=0.7)).temperature == 0.7


@pytest.mark.parametrize(
    ("expr", "constraint", "typed"),
    [
        (lambda: sgl.gen("x", regex="[a-z]+"), Regex("[a-z]+"), False),
        (lambda: sgl.gen("x", json_schema={"type": "null"}), JsonSchema({"type": "null"}), False),
        (lambda: sgl.gen("x", json_schema='{"type": "null"}'), JsonSchema({"type": "null"}), False),
        (lambda: sgl.gen("x", json_schema=Person), JsonSchema(Person), False),
        (lambda: sgl.gen("x", type=Person), TypeOf(Person), True),
        (lambda: sgl.gen("x", type=list[int] | None), TypeOf(list[int] | None), True),
        (lambda: sgl.gen("x", type=Colour), TypeOf(Colour), True),
        (lambda: sgl.gen("x", dtype=int), TypeOf(int), True),
        (lambda: sgl.gen("x", dtype="float"), TypeOf(float), True),
        (lambda: sgl.gen_int("x", 5), TypeOf(int), True),
        (lambda: sgl.gen_string("x", stop="\n"), None, False),
        (lambda: sgl.gen("x", type=str, stop="\n"), None, False),
        (lambda: sgl.gen("x", json_schema=CHECK_BOX), CHECK_BOX, False),
        (lambda: sgl.gen("x", grammar='start: "a"'), Cfg('start: "a"'), False),
        (lambda: sgl.gen("x", constraint=CHECK_BOX), CHECK_BOX, False),
        (lambda: sgl.gen("x", constraint=FENCED), FENCED, False),
        (lambda: sgl.gen("x", constraint=SHOUTED), SHOUTED, True),
        (lambda: sgl.gen("x", min_tokens=2, ignore_eos=True, regex="a*"), Regex("a*"), False),
    ],
)
def test_each_constraint_argument(
    expr: Callable[[], Expr], constraint: object, typed: bool
) -> None:
    node = only(expr())
    assert (node.constraint, node.typed) == (constraint, typed)
    assert only(expr()).constraint is node.constraint, "rows of one line share a constraint"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sgl.gen("x", choices=[]), r"choices=\[\] is not allowed"),
        (lambda: sgl.gen("x", choices="ab"), r"choices='ab' is not allowed"),
        (lambda: sgl.gen("x", choices=["a", "a"]), "different"),
        (lambda: sgl.gen("x", choices=["a", ""]), "non-empty"),
        (lambda: sgl.gen("x", choices=["a", 1]), "a list of one or more"),  # type: ignore[list-item]
        (lambda: sgl.gen("x", choices=["a"], regex="a"), "regex and choices cannot be given"),
        (lambda: sgl.gen("x", 5, choices=["a"], stop="b"), "max_tokens, stop and choices"),
        (lambda: sgl.gen("x", choices_method=sgl.greedy_token_selection), "without choices"),
        (lambda: sgl.gen("x", regex="a", json_schema={}), "regex and json_schema cannot be given"),
        (lambda: sgl.gen_int("x", stop_token_ids=[1]), "stop_token_ids and dtype cannot be given"),
        (lambda: sgl.gen("x", dtype=int, type=int), "dtype and type cannot be given together"),
        (lambda: sgl.gen("x", dtype=list), "dtype=<class 'list'> is not allowed"),
        (lambda: sgl.gen("x", dtype="integer"), "dtype='integer' is not allowed"),
        (lambda: sgl.gen("x", regex=5), "regex=5 is not allowed"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", json_schema=5), "json_schema=5 is not allowed"),
        (lambda: sgl.gen("x", json_schema="{"), "json_schema='{' is refused"),
        (lambda: sgl.gen("x", json_schema={1: 2}), "json_schema={1: 2} is refused"),
        (lambda: sgl.gen("x", json_schema=Regex("a")), r"json_schema=Regex\(pattern='a'\) is not"),
        (lambda: sgl.gen("x", json_schema=True, constraint=CHECK_BOX), "and constraint cannot"),
        (lambda: sgl.gen("x", grammar="", regex="a"), "regex and grammar cannot be given together"),
        (lambda: sgl.gen("x", choices=["a"], constraint=CHECK_BOX), "constraint and choices"),
        (
            lambda: sgl.gen("x", constraint=CHECK_BOX, stop_token_ids=[1]),
            "stop_token_ids and constr",
        ),
        (lambda: sgl.gen("x", constraint="a+"), "a constraint of grammars, such as Regex"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", constraint=Regex), "a constraint of grammars, such as"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", constraint=Unhashable()), "has no hash"),
        (lambda: sgl.gen("x", grammar=5), "grammar=5 is not allowed"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", grammar="start: ("), r"grammar='start: \(' is refused: .*line 1"),
        (lambda: sgl.gen("x", grammar="\n" * 500), r"grammar='[\\n]+ \.\.\. .* is refused"),
        (lambda: sgl.gen("x", n=0), "n=0 is not allowed; n is a whole number from 1 to 1024"),
        (lambda: sgl.gen("x", n=1025), "n=1025 is not allowed"),
        (lambda: sgl.gen("x", stop_regex=""), "stop_regex='' is not allowed"),
        (lambda: sgl.gen("x", stop_regex="a(b"), r"stop_regex='a\(b' is refused: .*column 1"),
        (lambda: sgl.gen("x", stop_regex=["b", "a*"]), r"'a\*' is refused: .* the empty text"),
        (lambda: sgl.gen("x", stop_regex=["b"] * 17), "17 patterns, but it may have 16"),
        (lambda: sgl.gen("x", regex="a", stop_regex="b"), "stop_regex and regex cannot be given"),
        (lambda: sgl.gen("x", top_logprobs_num=257), "top_logprobs_num=257 is not allowed"),
        (lambda: sgl.gen("x", logprob_start_len=-2), "logprob_start_len=-2 is not allowed"),
        (lambda: sgl.gen("x", return_text_in_logprobs=1), "return_text_in_logprobs=1 is not"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", substring_of=5), "substring_of=5 is not allowed"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", substring_of="a", regex="a"), "regex and substring_of cannot be"),
        (
            lambda: sgl.gen("x", max_tokens=-1),
            "max_tokens=-1 is not allowed; max_tokens is a whole",
        ),
        (lambda: sgl.gen("x", max_tokens=True), "max_tokens=True is not allowed"),
        (lambda: sgl.gen("x", 5, 6), "min_tokens=6 is above max_tokens=5"),
        (lambda: sgl.gen("x", temperature=-1), "temperature=-1 is not allowed"),
        (lambda: sgl.gen("x", temperature=float("nan")), "temperature=nan is not allowed"),
        (lambda: sgl.gen("x", top_p=0), "top_p=0 is not allowed"),
        (lambda: sgl.gen("x", top_k=0), "top_k=0 is not allowed"),
        (lambda: sgl.gen("x", min_p=2), "min_p=2 is not allowed"),
        (lambda: sgl.gen("x", frequency_penalty=3), "frequency_penalty=3 is not allowed"),
        (lambda: sgl.gen("x", stop=""), "stop='' is not allowed"),
        (lambda: sgl.gen("x", stop=["a", 5]), "stop="),  # type: ignore[list-item]
        (lambda: sgl.gen("x", stop_token_ids=5), "stop_token_ids=5"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", stop_token_ids=[-1]), r"stop_token_ids=\[-1\]"),
        (lambda: sgl.gen("x", ignore_eos=1), "ignore_eos=1 is not"),  # type: ignore[arg-type]
        (lambda: sgl.gen("x", seed=1.5), "seed=1.5 is not allowed"),  # type: ignore[arg-type]
        (lambda: sgl.gen(5), "name=5 is not allowed"),  # type: ignore[arg-type]
        (lambda: sgl.gen(""), "name='' is not allowed"),
        (lambda: sgl.select("x"), "choices=None is not allowed"),
        (lambda: sgl.select("x", ["a"], temperature=-1), "temperature=-1 is not allowed"),
        (lambda: sgl.select("x", ["a"], choices_method="best"), "choices_method='best'"),  # type: ignore[arg-type]
        (lambda: sgl.image("a.png"), "image.* is not supported"),
        (lambda: sgl.video("a.mp4", 4), "video.* is not supported"),
    ],
)
def test_malformed_arguments_are_refused_where_they_are_written(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        call()


def test_a_malformed_regex_names_its_column() -> None:
    with pytest.raises(sgl.UsageError, match=r"regex='ab\(c' is refused: .*column [0-9]"):
        sgl.gen("x", regex="ab(c")


def test_what_is_asked_of_a_gen_stands_in_its_node() -> None:
    node = only(sgl.gen("x", 0, n=2, stop_regex="a+", top_logprobs_num=3, logprob_start_len=-1))
    assert node.sampling == Sampling(
        max_tokens=0, n=2, stop_regex=("a+",), top_logprobs_num=3, logprob_start_len=-1
    )


def test_a_quotation_is_a_constraint() -> None:
    assert only(sgl.gen("x", substring_of="some text")).constraint == Substring("some text")


def test_expressions_join_with_text_on_either_side() -> None:
    expr = "a" + sgl.gen("x") + "b" + sgl.select("y", ["c"]) + ""
    kinds = [node.kind for node in nodes(expr)]
    assert kinds == ["text", "gen", "text", "select"]
    assert nodes("a" + sgl.gen("x"))[0] == Text(0, 0, None, "a")


def test_roles_wrap_what_they_are_given() -> None:
    for role in ("system", "user", "assistant"):
        whole = nodes(getattr(sgl, role)("a" + sgl.gen("x")))
        assert [str(node) for node in whole] == [
            f"%0 role {role} {{",
            "%1 text 'a'",
            "%2 gen x",
            f"%3 role }} {role}",
        ]
        begin, end = getattr(sgl, f"{role}_begin")(), getattr(sgl, f"{role}_end")()
        assert [str(n) for n in nodes(begin + "a" + sgl.gen("x") + end)] == [str(n) for n in whole]


def test_other_values_cannot_be_joined() -> None:
    with pytest.raises(sgl.UsageError, match=r"5 is no text; only str and expressions"):
        sgl.gen("x") + 5
    with pytest.raises(sgl.UsageError, match=r"None is no text"):
        sgl.user(sgl.gen("x") + None)


def test_an_expression_has_neither_text_nor_truth() -> None:
    with pytest.raises(sgl.UsageError, match=r"gen x was put into a string.*join it with \+"):
        _ = f"answer: {sgl.gen('x')}"
    with pytest.raises(sgl.UsageError, match="gen x was used as a condition"):
        bool(sgl.gen("x"))


def test_every_public_name_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, public in (("runtime", "Runtime"), ("runtime.fleet", "Fleet")):
        module = ModuleType(name)
        setattr(module, public, object)
        monkeypatch.setitem(sys.modules, name, module)
    for name in sgl.__all__:
        assert getattr(sgl, name) is not None
    with pytest.raises(AttributeError, match="'sgdsl' has no attribute 'Engines'"):
        _ = sgl.Engines  # type: ignore[attr-defined]
    assert sgl.REGEX_INT == r"[-+]?[0-9]+[ \n]*"
