"""The mock backend: scripts, turns, death."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, gen, select
from sgdsl.backends.base import Backend
from sgdsl.backends.script import Request
from sgdsl.choices import ChoiceScores


@sgl.function
def two(s: ProgramState) -> None:
    s += "Q " + gen("a", max_tokens=5) + select("b", ["x", "y"])


def test_it_is_a_backend() -> None:
    backend: Backend = MockBackend()
    assert backend.max_in_flight == 256


def test_replies_by_name_in_order_by_function_or_default() -> None:
    assert two.run(backend=MockBackend({"a": "one"}))["a"] == "one"
    assert two.run(backend=MockBackend(default="d"))["a"] == "d"
    backend = MockBackend({"a": ["one", "two"]})
    assert [two.run(backend=backend)["a"] for _ in range(2)] == ["one", "two"]
    assert "the 2 scripted replies for 'a' are used up" in str(two.run(backend=backend).error())
    by_name = MockBackend({"a": lambda request: request.prompt.upper()})
    assert two.run(backend=by_name)["a"] == "Q "

    seen: list[Request] = []

    def answer(request: Request) -> str:
        seen.append(request)
        return "one"

    two.run(backend=MockBackend(answer), seed=3)
    assert (seen[0].name, seen[0].prompt, seen[0].seed) == ("a", "Q ", 3)
    assert seen[0].sampling.max_tokens == 5


def test_a_reply_that_is_none_says_so() -> None:
    error = two.run(backend=MockBackend({"a": 5})).error()  # type: ignore[dict-item]
    assert "the reply 5 scripted for 'a' is not allowed" in str(error)


def test_scores_decide_selects() -> None:
    assert two.run(backend=MockBackend())["b"] == "x"
    assert two.run(backend=MockBackend(scores={"b": {"x": -5, "y": -1}}))["b"] == "y"
    table = ChoiceScores([[-2.0], [-0.5]])
    assert two.run(backend=MockBackend(scores={"b": table}))["b"] == "y"
    failed = two.run(backend=MockBackend(scores={"b": OSError("down")}))
    assert "select b" in str(failed.error())


def test_selects_above_temperature_zero_follow_the_seed() -> None:
    @sgl.function
    def draw(s: ProgramState) -> None:
        s += select("b", ["x", "y"], temperature=1.0)

    backend = MockBackend(scores={"b": {"x": -1, "y": -1}})
    drawn = [draw.run(backend=backend, seed=seed)["b"] for seed in range(40)]
    assert set(drawn) == {"x", "y"}
    assert drawn == [draw.run(backend=backend, seed=seed)["b"] for seed in range(40)]


def test_every_choice_method_has_scores() -> None:
    for method in (sgl.greedy_token_selection, sgl.unconditional_likelihood_normalized):

        @sgl.function
        def choose(s: ProgramState) -> None:
            s += select("b", ["x", "y"], choices_method=method)  # noqa: B023

        assert choose.run(backend=MockBackend())["b"] == "x"


def test_it_counts_words() -> None:
    backend = MockBackend({"a": "one two"})
    two.run(backend=backend)
    assert backend.stats() == sgl.BackendStats(prompt_tokens=1, completion_tokens=2)


@pytest.mark.parametrize("stepwise", [False, True])
def test_after_its_death_every_run_fails(stepwise: bool) -> None:
    backend = MockBackend({"a": sgl.STALL}, stepwise=stepwise)
    state = two.run(backend=backend, stream=True)
    backend.die("power cut")
    with pytest.raises(sgl.ProgramError, match="power cut"):
        state["a"]
    assert "power cut" in str(two.run(backend=backend).error())


class Person(BaseModel):
    name: str
    age: int


@sgl.function
def typed(s: ProgramState) -> None:
    s += gen("n", regex="[0-9]{3}") + gen("p", type=Person)


def test_without_a_script_a_constrained_gen_gets_a_text_that_satisfies_it() -> None:
    state = typed.run(backend=MockBackend())
    assert state["n"] == "000"
    assert isinstance(state["p"], Person)


def test_a_reply_that_violates_its_constraint_fails_the_node_and_says_why() -> None:
    error = typed.run(backend=MockBackend({"n": "12"})).error()
    assert "gen n" in str(error)
    assert "'12' does not satisfy Regex(pattern='[0-9]{3}'): it ends too early" in str(error)
    error = typed.run(backend=MockBackend({"n": "12a4"})).error()
    assert "nothing that does begins with '12a'; script a reply that does" in str(error)
    error = typed.run(backend=MockBackend({"p": '{"name": "Ada"}'})).error()
    assert "does not satisfy the type Person" in str(error)
    error = typed.run(backend=MockBackend({"p": "Ada, 36"})).error()
    assert "it is no JSON" in str(error)
    cut = MockBackend({"n": sgl.Completion("123", truncated=True)})
    assert "a constrained gen is never truncated" in str(typed.run(backend=cut).error())


def test_json_may_be_laid_out_in_any_way() -> None:
    state = typed.run(backend=MockBackend({"p": '{\n  "age": 36, "name": "Ada"}'}))
    assert state["p"] == Person(name="Ada", age=36)


def test_the_check_can_be_left_out() -> None:
    backend = MockBackend({"n": "twelve"}, check_constraints=False)
    assert typed.run(backend=backend)["n"] == "twelve"


def test_a_latency_delays_the_reply_and_disturbs_no_other() -> None:
    backend = MockBackend(latency_s=lambda request: 0.02 if request.name == "x0" else 0.0)
    order: list[str] = []

    @sgl.function
    def both(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += lambda index: gen(f"x{index}")
        order.append(forks[1]["x1"])
        order.append(forks[0]["x0"])

    assert both.run(backend=backend).outcome == sgl.Outcome("ok")
    assert order == ["mock", "mock"]
    backend.close()
