"""`row_seed`: a row's seed made of the row itself."""

from __future__ import annotations

from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, UsageError


@sgl.function
def drawn(s: ProgramState, n: int) -> None:
    s += f"{n}" + sgl.gen("x", 8, temperature=1.0)


def seeds_of(numbers: list[int], **options: Any) -> dict[int, str]:
    backend = MockBackend(lambda request: str(request.seed))
    states = drawn.run_batch([{"n": n} for n in numbers], backend=backend, **options)
    return {n: state["x"] for n, state in zip(numbers, states, strict=True)}


def test_a_row_has_its_seed_in_any_place() -> None:
    found = seeds_of([1, 2, 3], row_seed=lambda row: row["n"])
    assert found == seeds_of([3, 1, 2], row_seed=lambda row: row["n"])
    assert len(set(found.values())) == 3
    assert seeds_of([1, 2, 3], seed=1) != seeds_of([3, 1, 2], seed=1), "else its place counts"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"row_seed": 7}, "a function of a row"),
        ({"row_seed": hash, "seed": 1}, "left out beside seed"),
    ],
)
def test_what_is_no_seed_of_a_row_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        seeds_of([1], **options)


def test_variables_are_all_that_a_run_has() -> None:
    state = drawn.run(5, backend=MockBackend(default="y"))
    assert state.variables() == {"x": "y"}
