"""Graphs: their check and their printed form."""

from __future__ import annotations

import pytest

import sgdsl as sgl
from sgdsl.graph import (
    DEFAULT_SAMPLING,
    ROOT,
    Assign,
    Fork,
    Gen,
    Graph,
    Join,
    Node,
    Ref,
    RoleBegin,
    RoleEnd,
    Sampling,
    ScopeBegin,
    ScopeEnd,
    Text,
)
from sgdsl.source import Source

HERE = Source("program.py", 7)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([RoleEnd(0, ROOT, HERE, "user")], "%0 role } user at program.py:7: closes role 'user'"),
        (
            [RoleBegin(0, ROOT, HERE, "user"), RoleBegin(1, ROOT, HERE, "system")],
            "role 'user' is still open",
        ),
        (
            [ScopeBegin(0, ROOT, HERE, "a"), ScopeEnd(1, ROOT, HERE, "b")],
            "closes scope 'b', but scope 'a' is open",
        ),
        ([Ref(0, ROOT, HERE, "x")], "no variable 'x' on this branch"),
        (
            [Fork(0, ROOT, HERE, (1,)), Gen(1, 1, HERE, "x"), Ref(2, ROOT, HERE, "x")],
            "no variable 'x' on this branch",
        ),
        ([Fork(0, ROOT, HERE, (1,)), Join(1, ROOT, HERE, (1,), "zip")], "mode 'zip' is not"),
        (
            [
                Fork(0, ROOT, HERE, (1,)),
                Join(1, ROOT, HERE, (1,), "gather_variable"),
                Text(2, 1, HERE, "late"),
            ],
            "%2 text 'late' at program.py:7: this fork has been joined",
        ),
    ],
)
def test_a_graph_that_cannot_be_is_refused(nodes: list[Node], message: str) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        Graph("f", (), tuple(nodes))


def test_names_pass_through_forks_and_joins() -> None:
    Graph(
        "f",
        (),
        (
            Assign(0, ROOT, None, "a", 1, "1"),
            Fork(1, ROOT, None, (1, 2)),
            Ref(2, 1, None, "a"),
            Gen(3, 2, None, "b"),
            Join(4, ROOT, None, (1, 2), "gather_variable"),
            Ref(5, ROOT, None, "b"),
        ),
    )


def test_a_fork_inside_of_a_role_stays_in_it() -> None:
    Graph(
        "f",
        (),
        (
            RoleBegin(0, ROOT, None, "user"),
            Fork(1, ROOT, None, (1,)),
            RoleEnd(2, 1, None, "user"),
            RoleEnd(3, ROOT, None, "user"),
        ),
    )


def test_long_texts_are_printed_short() -> None:
    line = str(Text(0, ROOT, None, "a" * 1000 + "end"))
    assert len(line) < 90
    assert line.startswith("%0 text 'aaa")
    assert line.endswith("aaaaend'")


def test_sampling_over_defaults() -> None:
    assert Sampling().over(DEFAULT_SAMPLING) is DEFAULT_SAMPLING
    asked = Sampling(temperature=0.0, stop=())
    over = asked.over(Sampling(temperature=1.0, stop=("a",), top_k=5))
    assert over == Sampling(temperature=0.0, stop=(), top_k=5)
    assert str(asked) == "stop=() temperature=0.0"
