"""What a run asked of its model can be asked again of another engine."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from benchmarks.requests import requests_of, rounds_of, told
from grammars import Regex, Substring, TypeOf


class Point(BaseModel):
    x: int


@sgl.function
def tree(s: sgl.ProgramState[Any], word: str) -> None:
    s += word + sgl.gen("first", 5, ignore_eos=True)
    forks = s.fork(2)
    forks += ["(l)", "(r)"]
    forks += sgl.gen("side", 7, regex="[a-z]")
    forks.join()
    assert s["side"] == ["m", "n"]
    s += "," + sgl.select("last", ["p", "q"]) + sgl.gen("end", 30, type=Point)


def asked(word: str) -> list[Any]:
    sides = iter("mn")
    replies = {"first": lambda _: "F", "side": lambda _: next(sides), "end": lambda _: '{"x":1}'}
    state = tree.run(
        word, backend=sgl.MockBackend(replies, scores={"last": {"p": -1.0, "q": -2.0}})
    )
    assert state.error() is None
    return requests_of(state.explain())


def test_prompts_are_the_text_before_each() -> None:
    found = {(each.name, each.text): each for each in asked("w")}
    assert [each.prompt for each in found.values()] == ["w", "wF(l)", "wF(r)", "wF,", "wF,p"]
    assert found["first", "F"].is_exact and not found["side", "m"].is_exact
    assert [each.max_tokens for each in found.values()] == [5, 7, 7, 0, 30]
    kinds = [(each.kind, each.spec) for each in found.values()]
    schema = told(TypeOf(Point))
    assert kinds == [
        ("free", None), ("regex", "[a-z]"), ("regex", "[a-z]"), ("choices", ["p", "q"]), schema,
    ]  # fmt: skip
    assert schema[0] == "schema" and "x" in schema[1]["properties"]


def test_a_request_comes_in_the_round_behind_all_that_it_waited_for() -> None:
    assert [each.depth for each in asked("w")] == [0, 1, 1, 2, 3]
    rounds = rounds_of([asked("v"), asked("w")])
    assert [len(each) for each in rounds] == [2, 4, 2, 2]
    assert [(index, each.prompt) for index, each in rounds[1]] == [
        (0, "vF(l)"), (0, "vF(r)"), (1, "wF(l)"), (1, "wF(r)"),
    ]  # fmt: skip


def test_what_no_other_engine_knows_is_refused() -> None:
    assert told(Regex("a")) == ("regex", "a")
    with pytest.raises(ValueError, match="no other engine can be asked"):
        told(Substring("abc"))
