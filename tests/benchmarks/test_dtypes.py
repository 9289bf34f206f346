"""The benchmark of the weights' types measures what it says, on any model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.dtypes import Measured, compare, main


def test_the_benchmark_ends_with_its_figures(
    tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--rows", "2", "--json", "--model", str(tiny_llama_path)])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "bfloat16" in report
    for against in report.values():
        assert 0.5 < against["perplexity"] < 2
        assert 0 <= against["equal_fields"] <= 1
        assert against["cpu"] > 0


def test_fields_are_compared_one_by_one() -> None:
    base = Measured(nll=1.0, records=[{"a": 1, "b": 2}, {"a": 3, "b": 4}], cpu_s=2.0)
    found = Measured(nll=1.0, records=[{"a": 1, "b": 2}, {"a": 3, "b": 5}], cpu_s=1.0)
    against = compare(found, base)
    assert (against.perplexity, against.equal_fields, against.cpu) == (1.0, 0.75, 0.5)
