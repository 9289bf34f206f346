"""The benchmark of the frontend says what it measured, with and without SGLang's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import frontend


def test_the_benchmark_ends_with_its_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(frontend, "PEER_PYTHON", tmp_path / "python")
    monkeypatch.setattr(frontend, "MANY", 500)
    monkeypatch.setattr(frontend, "PENDING", 100)
    frontend.main(["--rows", "50", "--rounds", "1", "--turns", "1", "--json"])
    printed = capsys.readouterr().out
    assert "SGLang is not installed" in printed
    report = json.loads(printed.splitlines()[-1])
    assert set(report["programs_per_s"]) == {"sgdsl"}
    speed = report["programs_per_s"]["sgdsl"]
    assert set(speed) == {"one_gen", "fork_4", "chat", "reads", "threads"}
    assert all(speed[name] > 0 for name in set(speed) - {"threads"})
    assert report["threads_of_10000_rows"] <= 1
    assert report["fork_4_cost"] > 0
    # What a row keeps is no time: it does not depend on who else uses the machine.
    assert all(0 < size <= 20 * 1024 for size in report["pending_bytes"].values())
