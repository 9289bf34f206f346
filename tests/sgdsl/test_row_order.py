"""Rows with equal texts follow each other, and nothing else can be told from it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState
from sgdsl.row_order import row_order

LONG, SHORT = "a long text " * 9, "short"

rows = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from([LONG, LONG[::-1], "other"]), st.integers())
    | st.fixed_dictionaries({"b": st.sampled_from([LONG, "other"])}, optional={"a": st.just("x")}),
    max_size=25,
)


def value(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, dict) else row["abc".index(name)]


@given(rows)
def test_equal_texts_are_one_block(rows: list[Any]) -> None:
    order = row_order(rows, "abc")
    assert sorted(order) == list(range(len(rows)))
    texts = [value(rows[index], "b") for index in order]
    saved = {name: saved_by(rows, name) for name in "ab"}
    if saved["b"] > saved["a"]:
        changes = [after for before, after in pairwise([None, *texts]) if before != after]
        assert len(changes) == len(set(changes))
        firsts = [rows.index(row) for row in unique([rows[index] for index in order], "b")]
        assert firsts == sorted(firsts)


def saved_by(rows: list[Any], name: str) -> int:
    texts = [value(row, name) for row in rows if value(row, name) is not None]
    return sum(map(len, texts)) - sum(map(len, set(texts)))


def unique(rows: list[Any], name: str) -> list[Any]:
    seen: dict[Any, Any] = {}
    for row in rows:
        seen.setdefault(value(row, name), row)
    return list(seen.values())


def test_what_repeats_nothing_stays_as_it_is() -> None:
    assert row_order([("c",), ("a",), ("b",)], "a") == [0, 1, 2]
    assert row_order([("a",)] * 3, "a") == [0, 1, 2]
    assert row_order([], "a") == []
    assert row_order([3, None, ("x", "y", "z"), ()], "ab") == [0, 1, 2, 3]


def test_the_argument_that_saves_most_goes_first() -> None:
    rows = [(q, d) for q in ("q1", "q2") for d in (LONG, LONG[::-1])]
    assert row_order(rows, ["question", "document"]) == [0, 2, 1, 3]
    assert row_order(rows, ["document", "question"]) == [0, 2, 1, 3]


def test_results_and_seeds_are_those_of_the_rows_in_any_order() -> None:
    started: list[str] = []

    @sgl.function
    def ask(s: ProgramState, document: str, question: str) -> None:
        started.append(document + question)
        s += document + question + sgl.gen("seed")

    backend = MockBackend(lambda request: str(request.seed))
    rows = [{"document": d, "question": q} for q in "12" for d in (LONG, "b" * 99)]
    states = ask.run_batch(rows, backend=backend, seed=5)
    assert started == [rows[i]["document"] + rows[i]["question"] for i in (0, 2, 1, 3)]
    assert [state.text().startswith(r["document"]) for state, r in zip(states, rows, strict=True)]
    lazily = list(ask.run_batch(rows, backend=backend, seed=5, generator_style=True))
    assert [state.text() for state in states] == [state.text() for state in lazily]


def test_an_error_names_the_row_as_it_was_given() -> None:
    @sgl.function
    def ask(s: ProgramState, document: str, number: int) -> None:
        s += document + sgl.gen("x", 4)
        if number == 1:
            raise ValueError("this one")

    rows = [(LONG, 0), ("b" * 99, 1), (LONG, 2), ("b" * 99, 3)]
    states = ask.run_batch(rows, backend=MockBackend())
    assert [state.outcome.status for state in states if state.outcome] == [
        "ok",
        "failed",
        "ok",
        "ok",
    ]
    with pytest.raises(sgl.BatchFailed) as failed:
        ask.run_batch(rows, backend=MockBackend(), on_error="raise")
    assert failed.value.row == 1
    assert len(failed.value.states) == 4
    assert failed.value.states[1].error() is not None
