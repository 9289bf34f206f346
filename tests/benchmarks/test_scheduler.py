"""The benchmark of the scheduler says what it measured."""

from __future__ import annotations

import json

import pytest

from benchmarks import scheduler
from runtime.cache.eviction import EVICTIONS
from runtime.policies import POLICIES


def test_the_benchmark_ends_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler.main(["--waiting", "100", "--steps", "40", "--rounds", "1", "--json"])
    printed = capsys.readouterr().out
    assert "64 rows running, 100 waiting" in printed
    report = json.loads(printed.splitlines()[-1])
    assert set(report["policies"]) == set(POLICIES)
    for found in report["policies"].values():
        assert found["ms_per_step"] > 0
        assert 0 < found["tree_share"] < 1
        assert 0.5 < found["hit_rate"] <= found["best_hit_rate"] < 0.75
    evictions = report["evictions"]
    assert set(evictions) == set(EVICTIONS)
    assert evictions["lru"]["hit_rate"] < evictions["lfu"]["hit_rate"]
    assert all(found["evicted_pages"] > 0 for found in evictions.values())
