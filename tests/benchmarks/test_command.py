"""Every workload is measured on any model, and a wrong text is a failure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import command, ours, peer_runs
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.workload import Row, Texts, Verdict

SHARES = ("forward_share", "head_share", "mask_share", "scheduler_share", "idle_share")
RATES = ("rows_per_s", "ttft_p50_s", "ttft_p99_s", "flop_utilisation", "vs_serial")


def measured(
    name: str, model: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, Any]]:
    code = command.main(WORKLOADS[name], ["--json", "--model", str(model), *options])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_ends_with_its_figures(
    name: str, roomy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--quick", "--rows", "2", "--peers")
    code, report = measured(name, roomy_model, capsys, *options)
    assert (code, report["faults"]) == (0, [])
    assert report["workload"] == name
    assert report["rows"] == report["valid_rows"] == 2
    assert report["rows_equal"] == report["rows_compared"] == 2
    assert all(report[rate] > 0 for rate in RATES)
    assert sum(report[share] for share in SHARES) == pytest.approx(1, abs=0.01)
    assert 0 <= report["cache_hit_rate"] <= 1 and 0 <= report["best_hit_rate"] <= 1
    assert (report["output_tokens"] > 0) == (name != "select")
    assert report["cache_hit_rate"] > 0 or name == "free"
    assert report["itl_p50_s"] <= report["itl_p99_s"]
    assert report["peers"] == {}


def test_rows_come_one_by_one_at_a_rate(
    roomy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--rows", "3", "--rate", "50", "--dtype", "float32", "--seed", "1", "--peers")
    code, report = measured("regex", roomy_model, capsys, *options)
    assert (code, report["rate"], report["dtype"]) == (0, 50, "float32")
    assert report["ttft_p50_s"] > 0


@pytest.fixture
def changed_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first row, as an engine with a fault would write them."""
    right = ours.run_serially

    def other_texts(*args: Any) -> Any:
        ran = right(*args)
        changed = [[replace(each, text="?") for each in run] for run in ran.requests[:1]]
        return replace(ran, requests=[*changed, *ran.requests[1:]])

    monkeypatch.setattr(command, "run_serially", other_texts)


EXACT = [["--dtype", "float32"], ["--dtype", "bfloat16", "--batch-invariant"]]


@pytest.mark.usefixtures("changed_texts")
@pytest.mark.parametrize("options", EXACT, ids=" ".join)
def test_a_text_that_a_wrong_cache_has_changed_is_a_failure(
    options: list[str], roomy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = measured("regex", roomy_model, capsys, "--rows", "2", "--peers", *options)
    assert code == 1
    (fault,) = report["faults"]
    assert fault.startswith("row 0 is not what it is alone and uncached: behind ")
    assert fault.endswith(" instead of '?'")
    assert (report["rows_equal"], report["rows_compared"]) == (1, 2)


@pytest.mark.usefixtures("changed_texts")
def test_where_texts_may_depend_on_the_batch_other_ones_are_counted(
    roomy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--json", "--model", str(roomy_model), "--rows", "2", "--peers"]
    options += ["--dtype", "bfloat16"]
    assert command.main(WORKLOADS["regex"], options) == 0
    out = capsys.readouterr().out
    assert "row 0 is not what it is alone and uncached: behind " in out
    report = json.loads(out.splitlines()[-1])
    assert report["faults"] == []
    assert report["rows_equal"] < report["rows_compared"] == 2


def test_a_row_that_is_not_valid_is_a_failure(
    roomy_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(texts: Texts, row: Row) -> Verdict:
        return Verdict(valid=False)

    monkeypatch.setitem(WORKLOADS, "regex", replace(WORKLOADS["regex"], judge=judge))
    code, report = measured("regex", roomy_model, capsys, "--quick", "--rows", "2", "--peers")
    assert (code, report["valid_rows"]) == (1, 0)
    assert "row 0 is not valid" in report["faults"]


def test_a_peer_that_is_missing_is_said_to_be(
    roomy_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(peer_runs, "FOLDER", tmp_path)
    options = ["--quick", "--rows", "2", "--model", str(roomy_model), "--peers", "vllm"]
    assert command.main(WORKLOADS["regex"], options) == 0
    assert "vllm is not installed; make bench-peers PEERS=vllm" in capsys.readouterr().out


@pytest.mark.parametrize("given", [["--rows", "0"], ["--rate", "0"], ["--rate", "nan"]])
def test_what_cannot_be_measured_is_refused(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(WORKLOADS["regex"], given)
    assert ended.value.code == 2
    assert "give" in capsys.readouterr().err


def test_a_fault_says_where_the_texts_part() -> None:
    said = command.difference("one two", "one too")
    assert said == "behind 'one t' it has 'wo' instead of 'oo'"
    assert command.difference("one", "one two") == "behind 'one' it has '' instead of ' two'"
