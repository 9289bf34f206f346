"""The benchmark measures what it says, on any model; its figures are for quiet machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extract import main, rows_of, spread


def test_the_benchmark_ends_with_its_figures(
    tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--rows", "5", "--quick", "--json", "--model", str(tiny_llama_path)])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["rows"] == 5
    assert report["vs_serial"] > 0
    assert report["vs_static"] > 0
    shares = [value for name, value in report.items() if name.endswith("_share")]
    assert all(0 <= share <= 1 for share in shares)
    parts = ("schedule", "programs", "mask", "sample", "forward")
    assert sum(report[f"{part}_share"] for part in parts) <= 1.001
    assert 0 < report["cache_hit_rate"] <= 1
    assert report["output_tokens"] >= 5
    assert report["peak_rss_mib"] > 0


def test_rows_repeat_when_there_are_too_few_documents() -> None:
    rows = rows_of(500)
    assert len(rows) == 500
    assert len({row.text for row in rows}) < 500


def test_a_sample_is_spread_over_all_rows() -> None:
    rows = rows_of(20)
    assert spread(rows, 4) == [rows[0], rows[5], rows[10], rows[15]]
