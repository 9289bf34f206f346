"""The machine against a direct interpreter, and its protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from grammars import Regex
from sgdsl.branch import Variable
from sgdsl.chat import CHATML, PLAIN, ChatTemplate
from sgdsl.choices import ChoiceScores, token_length_normalized
from sgdsl.graph import (
    DEFAULT_SAMPLING,
    ROOT,
    Assign,
    Fork,
    Gen,
    Join,
    Node,
    RoleBegin,
    RoleEnd,
    Sampling,
    Select,
    Text,
)
from sgdsl.machine import Append, Choose, Completion, Generate, Idle, Machine, Piece, Spawn
from sgdsl.seeds import derive_seed
from tests.sgdsl.backends import ShuffledBackend
from tests.sgdsl.naive import TEMPLATE, Naive, Step, perform, programs, reply


@settings(max_examples=300, deadline=None)
@given(programs(), st.integers(0, 1000))
def test_a_random_program_means_the_same_as_in_a_direct_interpreter(
    steps: tuple[Step, ...], order: int
) -> None:
    @sgl.function
    def program(s: sgl.ProgramState) -> list[Any]:
        seen: list[Any] = []
        perform(s, steps, seen)
        return seen

    state = program.run(backend=ShuffledBackend(order), seed=order)
    expected_seen: list[Any] = []
    expected = Naive(seed=order)
    expected.perform(steps, expected_seen)

    assert state.outcome == sgl.Outcome("ok")
    assert state.ret_value == expected_seen
    assert state.text() == expected.text
    assert state.messages() == expected.messages
    assert {name: state[name] for name in expected.variables} == expected.variables


@settings(max_examples=30, deadline=None)
@given(st.lists(programs(), min_size=1, max_size=4))
def test_programs_answered_word_by_word_in_turns_mean_the_same(
    bodies: list[tuple[Step, ...]],
) -> None:
    @sgl.function
    def program(s: sgl.ProgramState, steps: tuple[Step, ...]) -> list[Any]:
        seen: list[Any] = []
        perform(s, steps, seen)
        return seen

    backend = sgl.MockBackend(reply, chat_template=TEMPLATE, stepwise=True)
    states = program.run_batch([{"steps": steps} for steps in bodies], backend=backend, seed=1)
    backend.close()
    for index, (state, steps) in enumerate(zip(states, bodies, strict=True)):
        expected_seen: list[Any] = []
        expected = Naive(seed=derive_seed(1, index))
        expected.perform(steps, expected_seen)
        assert state.ret_value == expected_seen
        assert state.text() == expected.text


def machine_of(*nodes: Node, template: ChatTemplate = PLAIN, closed: bool = True) -> Machine:
    machine = Machine(template=template, defaults=DEFAULT_SAMPLING)
    machine.extend(nodes)
    if closed:
        machine.close()
    return machine


def test_text_before_a_gen_comes_as_one_append() -> None:
    gen = Gen(2, ROOT, None, name="x")
    machine = machine_of(Text(0, ROOT, None, "a"), Text(1, ROOT, None, "b"), gen)
    assert machine.next(ROOT) == Append((Piece("a"), Piece("b")))
    assert machine.next(ROOT) == Generate(gen, DEFAULT_SAMPLING)
    machine.complete(ROOT, Completion("c", {"id": "1"}))
    assert machine.branches[ROOT].pieces[-1] == Piece("c", written=True)
    assert machine.next(ROOT) is Idle.FINISHED
    assert machine.finished


def test_an_open_program_is_paused_not_finished() -> None:
    machine = machine_of(closed=False)
    assert machine.next(ROOT) is Idle.PAUSED
    assert not machine.finished
    machine.close()
    assert machine.next(ROOT) is Idle.FINISHED


def test_a_join_waits_for_its_children_and_text_before_it_does_not() -> None:
    machine = machine_of(
        Fork(0, ROOT, None, (1, 2)),
        Gen(1, 1, None, name="x"),
        Text(2, 2, None, "two"),
        Text(3, ROOT, None, "before"),
        Join(4, ROOT, None, (1, 2), "gather_variable"),
    )
    assert machine.next(ROOT) == Spawn((1, 2))
    assert machine.next(ROOT) == Append((Piece("before"),))
    assert machine.next(ROOT) is Idle.JOINING
    assert isinstance(machine.next(1), Generate)
    assert machine.next(ROOT) is Idle.JOINING
    machine.complete(1, Completion("one"))
    assert machine.next(ROOT) is Idle.JOINING
    assert machine.next(2) == Append((Piece("two"),))
    assert machine.next(ROOT) == Append(())
    assert machine.next(ROOT) is Idle.FINISHED
    assert machine.branches[ROOT].variables["x"].value == ["one", None]
    assert machine.next(1) is Idle.FINISHED


def test_nodes_without_text_count_as_movement_since_a_join_may_wait_for_them() -> None:
    machine = machine_of(
        Fork(0, ROOT, None, (1,)),
        Assign(1, 1, None, "x", 5, "5"),
        Join(2, ROOT, None, (1,), "gather_variable"),
    )
    assert machine.next(ROOT) == Spawn((1,))
    assert machine.next(ROOT) is Idle.JOINING
    assert machine.next(1) == Append(())
    assert machine.next(1) is Idle.FINISHED
    assert machine.next(ROOT) == Append(())
    assert machine.branches[ROOT].variables["x"].value == [5]


def test_nodes_may_arrive_before_their_branch_exists() -> None:
    machine = machine_of(
        Gen(0, ROOT, None, name="first"), Fork(1, ROOT, None, (1,)), Text(2, 1, None, "child")
    )
    assert isinstance(machine.next(ROOT), Generate)
    assert not machine.finished
    machine.complete(ROOT, Completion("1"))
    assert machine.next(ROOT) == Spawn((1,))
    assert machine.next(1) == Append((Piece("child"),))
    assert machine.branches[1].text() == "1child"


def test_role_markers_are_special_and_the_templates_stops_hold_inside_of_roles_only() -> None:
    machine = machine_of(
        Gen(0, ROOT, None, name="outside", sampling=Sampling(stop=("a",))),
        RoleBegin(1, ROOT, None, "user"),
        Gen(2, ROOT, None, name="inside", sampling=Sampling(stop=("a",))),
        RoleEnd(3, ROOT, None, "user"),
        template=CHATML,
    )
    action = machine.next(ROOT)
    assert isinstance(action, Generate)
    assert action.sampling.stop == ("a",)
    machine.complete(ROOT, Completion("1"))
    assert machine.next(ROOT) == Append((Piece("<|im_start|>user\n", special=True),))
    action = machine.next(ROOT)
    assert isinstance(action, Generate)
    assert action.sampling.stop == ("a", "<|im_end|>")
    machine.complete(ROOT, Completion("<|im_end|>"))
    assert machine.branches[ROOT].pieces[-1] == Piece("<|im_end|>", written=True)
    assert machine.next(ROOT) == Append((Piece("<|im_end|>\n", special=True),))
    assert machine.branches[ROOT].messages == ({"role": "user", "content": "<|im_end|>"},)


def test_only_its_own_stops_concern_a_constrained_gen() -> None:
    digits = Regex("[0-9]+ *")
    nodes: list[Node] = [
        RoleBegin(0, ROOT, None, role="user"),
        Gen(1, ROOT, None, name="a", constraint=digits),
        Gen(2, ROOT, None, name="b", sampling=Sampling(stop=(" ",)), constraint=digits),
    ]
    around = Sampling(stop=("x",), stop_regex=("y",), stop_token_ids=(7,))
    machine = Machine(template=CHATML, defaults=around.over(DEFAULT_SAMPLING), seed=0)
    machine.extend(nodes)
    found = []
    while not isinstance(action := machine.next(ROOT), Idle):
        if isinstance(action, Generate):
            sampling = action.sampling
            found.append((sampling.stop, sampling.stop_regex, sampling.stop_token_ids))
            machine.complete(ROOT, Completion("1"))
    assert found == [((), (), ()), ((" ",), (), ())]


def test_a_nodes_sampling_goes_before_the_runs() -> None:
    node = Gen(0, ROOT, None, name="x", sampling=Sampling(temperature=0.0, max_tokens=5))
    action = machine_of(node).next(ROOT)
    assert isinstance(action, Generate)
    assert action.sampling == Sampling(temperature=0.0, max_tokens=5).over(DEFAULT_SAMPLING)
    assert action.sampling.top_k == -1


def test_a_choice_takes_the_best_and_keeps_what_the_backend_says() -> None:
    node = Select(0, ROOT, None, "x", ("a", "b"), token_length_normalized)
    machine = machine_of(node)
    assert machine.next(ROOT) == Choose(node)
    text = machine.choose(ROOT, ChoiceScores([[-2.0], [-1.0]]), draw=0.0, meta={"id": "7"})
    assert text == "b"
    branch = machine.branches[ROOT]
    chosen = branch.variables["x"]
    assert chosen.value == "b" and chosen.meta is not None
    assert chosen.meta["id"] == "7"
    assert chosen.meta["normalized_prompt_logprobs"] == [-2.0, -1.0]


def test_a_variable_defined_anew_loses_the_old_meta_info() -> None:
    branch = machine_of().branches[ROOT]
    branch.define("x", Variable("1", "1", {"id": "1"}))
    branch.define("x", Variable(2, "2"))
    assert branch.variables["x"].meta is None


def test_a_branch_is_not_asked_again_while_its_gen_is_active() -> None:
    machine = machine_of(Gen(0, ROOT, None, name="x"))
    machine.next(ROOT)
    with pytest.raises(AssertionError, match="one node of a branch is active"):
        machine.next(ROOT)


def test_a_cut_off_completion_marks_the_run() -> None:
    machine = machine_of(Gen(0, ROOT, None, name="x"))
    machine.next(ROOT)
    machine.complete(ROOT, Completion("cut", truncated=True))
    assert machine.truncated
