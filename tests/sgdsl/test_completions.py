"""Several completions of one gen: a list, in order, and a text that goes on with the first."""

from __future__ import annotations

from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import Completion, MockBackend, ProgramState, gen
from sgdsl.backends.script import Reply, Request
from sgdsl.chat import CHATML


@sgl.function
def brainstorm(s: ProgramState) -> None:
    s += "Ideas:" + gen("idea", n=3) + "!"


def test_the_variable_is_the_list_and_the_text_goes_on_with_the_first() -> None:
    state = brainstorm.run(backend=MockBackend({"idea": [" a", " b", " c"]}))
    assert state["idea"] == [" a", " b", " c"]
    assert state.text() == "Ideas: a!"


def test_the_meta_info_is_the_firsts_with_those_of_all() -> None:
    replies = [Completion(f" {index}", {"id": index}) for index in range(3)]
    meta = brainstorm.run(backend=MockBackend({"idea": replies})).get_meta_info("idea")
    assert meta["id"] == 0
    assert [each["id"] for each in meta["completions"]] == [0, 1, 2]
    assert all(each["finish_reason"]["type"] == "stop" for each in meta["completions"])


def test_each_completion_is_asked_for_once_with_a_seed_of_its_own() -> None:
    seen: list[Request] = []

    def reply(request: Request) -> str:
        seen.append(request)
        return f" {request.seed}"

    state = brainstorm.run(backend=MockBackend(reply), seed=5)
    assert [request.prompt for request in seen] == ["Ideas:"] * 3
    assert [request.sampling.n for request in seen] == [1, 1, 1]
    assert len({request.seed for request in seen}) == 3
    assert state["idea"] == brainstorm.run(backend=MockBackend(reply), seed=5)["idea"]
    assert state["idea"] != brainstorm.run(backend=MockBackend(reply), seed=6)["idea"]


def test_gens_inherit_the_number_of_the_run_and_one_is_a_plain_value() -> None:
    @sgl.function
    def program(s: ProgramState) -> list[Any]:
        s += gen("a") + gen("b", n=1) + sgl.select("c", ["x", "y"])
        s += gen("d", type=int)
        return [s[name] for name in "abcd"]

    backend = MockBackend({"d": ["4", "5"]}, default="m")
    assert program.run(backend=backend, n=2).ret_value == [["m", "m"], "m", "x", [4, 5]]


def test_unnamed_ones_are_read_by_position_and_a_ref_is_the_firsts_text() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += gen(n=2) + "," + gen("x", n=2) + "," + s.ref("x")

    state = program.run(backend=MockBackend({"": ["a", "b"], "x": ["1", "2"]}))
    assert state[0] == ["a", "b"]
    assert state.text() == "a,1,1"


def test_in_roles_scopes_and_forks() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        with s.user(), s.var_scope("all"):
            s += "Q" + gen("q", n=2)
        forks = s.fork(2)
        forks += lambda index: f"{index}" + gen("a", n=2)
        forks.join("concate_and_append")

    texts = {"q": ["q1", "q2"], "a": ["a1", "a2", "b1", "b2"]}
    state = program.run(backend=MockBackend(texts, chat_template=CHATML))
    assert state["all"] == "Qq1"
    assert state.messages() == [{"role": "user", "content": "Qq1"}]
    assert state.text().endswith("0a11b1")


def test_a_gather_makes_lists_of_lists() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += gen("a", n=2, type=int) + gen("b", n=2)
        forks.join()
        s += s.ref("a") + s.ref("b")

    state = program.run(backend=MockBackend({"a": list("1234"), "b": list("wxyz")}))
    assert (state["a"], state["b"]) == ([[1, 2], [3, 4]], [["w", "x"], ["y", "z"]])
    assert state.text() == "[[1, 2], [3, 4]][['w', 'x'], ['y', 'z']]"


def test_one_that_fails_fails_the_run_at_its_node() -> None:
    state = brainstorm.run(backend=MockBackend({"idea": [" a", OSError("cut"), " c"]}))
    error = state.error()
    assert isinstance(error, sgl.ProgramError)
    assert error.node == "%1 gen idea n=3"
    assert isinstance(error.__cause__, OSError)


def test_one_that_is_cut_off_truncates_the_run() -> None:
    replies: list[Reply] = [" a", Completion(" b", truncated=True), " c"]
    state = brainstorm.run(backend=MockBackend({"idea": replies}))
    assert state.outcome == sgl.Outcome("truncated")


@pytest.mark.parametrize("name", [None, "idea"])
def test_a_stream_is_of_the_first(name: str | None) -> None:
    backend = MockBackend({"idea": [" a b", " c d e", " f"]}, stepwise=True)
    state = brainstorm.run(backend=backend, stream=True)
    text = "".join(state.text_iter(name))
    assert text == (" a b" if name else "Ideas: a b!")
    assert state["idea"] == [" a b", " c d e", " f"]
    backend.close()


def test_a_trace_prints_the_number() -> None:
    assert str(brainstorm.trace()).splitlines()[2] == "  %1 gen idea n=3"


def test_nothing_is_asked_for_where_nothing_may_be_drawn() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += "a" + gen("x", max_tokens=0) + "b" + gen("y", 0, n=2)

    state = program.run(backend=MockBackend(lambda _: pytest.fail("it was asked")))
    assert (state["x"], state["y"], state.text()) == ("", ["", ""], "ab")
    assert state.outcome == sgl.Outcome("ok")
    assert state.get_meta_info("x")["finish_reason"] == {"type": "length", "length": 0}
