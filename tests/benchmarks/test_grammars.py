"""The benchmark of constraints says what it measured, on any model and without the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import engine_runs
from benchmarks.corpus import Case
from benchmarks.engine_runs import Outcome, TokenFile, run_engine
from benchmarks.grammars import main
from benchmarks.vocabularies import of_model, synthetic


def test_the_benchmark_ends_with_its_figures(
    tiny_llama_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(engine_runs, "PEER_PYTHON", tmp_path / "python")
    main(["--quick", "--json", "--model", str(tiny_llama_path)])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(report["missing"]) == {"outlines-core", "xgrammar", "llguidance"}
    ours = report["engines"]["ours"]
    assert ours["done"] == report["cases"] >= 10
    assert ours["refused"] == ours["wrongly_accepted"] == ours["wrongly_rejected"] == 0
    assert ours["texts"] > 40
    assert 0 < ours["cpu_compile_ms_p50"] <= ours["cpu_compile_ms_most"]
    assert 0 <= ours["cpu_mask_us_p50"] <= ours["cpu_mask_us_p99"] <= ours["cpu_mask_us_most"]
    assert len(report["vocabularies"]) == 2
    details = report["details"]
    assert details["walks"] > 0
    assert details["walks_invalid"] == details["jumps_not_canonical"] == 0
    assert 0 <= details["forced_share"] <= 1
    assert set(report["profile"]) == {"compile", "masks"}


def test_what_is_refused_or_takes_too_long_is_counted() -> None:
    cases = [
        Case("refused", "regex", r"(a)\1", ("aa",), ()),
        Case("right", "regex", "ab?", ("a", "ab"), ("b",)),
    ]
    tokens: list[bytes | None] = [b"a", b"b", None]
    texts = [[list(map("ab".index, text)) for text, _ in case.texts()] for case in cases]
    found = run_engine("ours", cases, texts, TokenFile(tokens, [2]), seconds=60)
    assert [outcome.ended for outcome in found] == ["refused", "done"]
    assert found[1].verdicts == [True, True, False]
    assert found[1].wrongly_accepted == found[1].wrongly_rejected == []
    assert len(found[1].masks) == 2 + 3 + 1 and len(found[1].warm) == 2 + 3
    slow = run_engine("ours", cases[1:], texts[1:], TokenFile(tokens, [2]), seconds=0)
    assert [outcome.ended for outcome in slow] == ["slow"]


def test_a_wrong_verdict_is_named_with_its_text() -> None:
    case = Case("x", "regex", "a", ("a",), ("b", "c"))
    outcome = Outcome(case, verdicts=[False, True, False])
    assert outcome.wrongly_rejected == ["a"]
    assert outcome.wrongly_accepted == ["b"]


def test_a_synthetic_vocabulary_has_the_pairs_of_frequent_tokens(tiny_llama_path: Path) -> None:
    named = of_model(tiny_llama_path)
    larger = synthetic(named, 2_000).file.tokens
    assert len(larger) == 2_000
    assert larger[: len(named.file.tokens)] == named.file.tokens
    written = [token for token in larger if token]
    assert len(set(written)) == len(written)
