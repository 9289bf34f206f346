"""The same seed gives the same output, whatever else is in the batch and in the cache."""

from __future__ import annotations

import random
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl.seeds import derive_seed
from tests.e2e.conftest import MakeService

SEED = 11


@sgl.function
def write(s: sgl.ProgramState, prompt: str, seed: int | None) -> list[Any]:
    """A gen with its own seed, several at once, one written again, and a sampled choice."""
    s += prompt + sgl.gen("a", 12, temperature=1.3, seed=seed) + "\n"
    s += sgl.gen("b", 8, n=3, temperature=1.0, seed=seed) + " the"
    s += sgl.gen("c", 8, temperature=1.5, top_p=0.9, min_p=0.01, seed=seed) + " work"
    seen: list[str] = []

    def third(value: str) -> bool:
        seen.append(value)
        return len(seen) == 3

    s.check(third)
    forks = s.fork(2)
    forks += sgl.gen("d", 6, temperature=1.0) + sgl.select("e", ["x", "y", "z"], temperature=2.0)
    forks.join()
    return [s[name] for name in "abcde"] + seen


OPTIONS: list[dict[str, Any]] = [
    {"num_pages": 24, "page_size": 4, "max_running": 8, "token_budget": 16, "hopes": True},
    {"num_pages": 24, "page_size": 4, "max_running": 8, "token_budget": 9, "policy": "sjf"},
    {
        "num_pages": 24,
        "page_size": 4,
        "max_running": 8,
        "token_budget": 9,
        "prefix_cache": False,
        "hopes": True,
    },
    {"num_pages": 300, "page_size": 16, "max_running": 64, "token_budget": 64},
]


@pytest.mark.parametrize("own", [None, 3], ids=["run", "gen"])
def test_a_row_is_the_same_among_any_neighbours(make_service: MakeService, own: int | None) -> None:
    alone = write.run("the license", own, backend=make_service(), seed=SEED).ret_value
    draw = random.Random(0)
    for options in OPTIONS:
        service = make_service(**options)
        for _ in range(2):  # the second time with all that the first has left in the cache
            words = [
                draw.choice(["the ", "license ", "work "]) * draw.randint(1, 9) for _ in range(7)
            ]
            rows = [("the license", own), *((text, None) for text in words)]
            states = write.run_batch(rows, backend=service, seed=SEED)
            again = write.run("the license", own, backend=service, seed=SEED)
            assert again.ret_value == alone
            expected = write.run(*rows[0], backend=make_service(), seed=derive_seed(SEED, 0))
            assert states[0].ret_value == expected.ret_value
            assert len({str(state.ret_value) for state in states}) > 6
        if "hopes" in options:
            assert service.engine.scheduler.counts.preemptions > 0
        service.check_idle()


def test_another_seed_gives_another_output(make_service: MakeService) -> None:
    service = make_service()
    texts = {str(write.run("the", None, backend=service, seed=seed).ret_value) for seed in range(9)}
    assert len(texts) == 9
