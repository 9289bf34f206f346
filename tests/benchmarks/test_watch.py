"""Times of pieces are those at which a reader of the stream could have seen them."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest

import sgdsl as sgl
from benchmarks import watch
from benchmarks.watch import Span, Watched


@sgl.function
def two(s: sgl.ProgramState[Any]) -> None:
    s += "a" + sgl.gen("x", 8) + "b" + sgl.gen("y", 8)


@sgl.function
def forked(s: sgl.ProgramState[Any]) -> None:
    s += "a"
    forks = s.fork(3)
    forks += sgl.gen("x", 8)
    forks.join()
    s += sgl.select("z", ["p", "q"])


def test_first_pieces_and_gaps_are_differences_of_arrivals() -> None:
    span = Span(1.0, [1.5, 1.75, 2.75])
    assert span.first_s == 0.5
    assert span.gaps_s == [0.25, 1.0]
    assert Span(1.0, [2.0]).gaps_s == []


def test_there_is_a_time_for_every_piece_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1, 10_000))
    monkeypatch.setattr(watch, "perf_counter", lambda: float(next(ticks)))
    backend = Watched(sgl.MockBackend({"x": "one two three", "y": "four"}, stepwise=True))
    two.run(backend=backend)
    x, y = backend.spans
    assert len(x.arrivals_s) >= 3  # a word a step
    assert x.begun_s < x.arrivals_s[0] and x.arrivals_s == sorted(set(x.arrivals_s))
    assert x.arrivals_s[-1] <= y.begun_s < y.arrivals_s[0]


def test_branches_are_told_apart() -> None:
    backend = Watched(sgl.MockBackend({"x": "one two three four"}, stepwise=True))
    forked.run(backend=backend)
    assert len(backend.spans) == 4
    assert all(len(span.arrivals_s) >= 4 for span in backend.spans[:3])
    assert len(backend.spans[3].arrivals_s) == 1  # a select is answered at once
    assert all(span.first_s >= 0 for span in backend.spans)


def test_only_the_first_answer_of_a_run_counts_from_its_arrival() -> None:
    arrived = perf_counter() - 100
    backend = Watched(sgl.MockBackend(), arrived)
    two.run(backend=backend)
    first, second = backend.spans
    assert first.first_s >= 100
    assert second.first_s < 50


def test_what_is_watched_comes_to_the_same() -> None:
    mock = sgl.MockBackend({"x": "one", "y": "two"})
    assert two.run(backend=Watched(mock)).text() == two.run(backend=mock).text() == "aonebtwo"
