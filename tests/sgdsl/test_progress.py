"""What a batch shows of itself."""

from __future__ import annotations

import pytest

from sgdsl import BackendStats, MockBackend, progress as progress_module
from sgdsl.progress import Progress, describe


def test_rates_are_differences_of_two_counts() -> None:
    before = BackendStats(prompt_tokens=100, cached_tokens=10, completion_tokens=50)
    now = BackendStats(prompt_tokens=300, cached_tokens=160, completion_tokens=4050)
    assert describe(before, now, elapsed_s=2.0) == "2,000 tokens/s, 75% cached"
    assert describe(before, before, elapsed_s=0.0) == "0 tokens/s, 0% cached"


def test_nothing_is_shown_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(MockBackend(), total=3, visible=False) as progress:
        progress.show(1, 0)
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_a_line_comes_now_and_then(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "PLAIN_EVERY_S", 0.0)
    with Progress(MockBackend(), total=None, visible=True) as progress:
        progress.show(1, 1)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("1 rows, ")
    assert lines[0].endswith("1 failed")
    assert len(lines) == 2


def test_a_terminal_gets_a_bar(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Progress(MockBackend(), total=4, visible=True) as progress:
        progress.show(4, 0)
    shown = capfd.readouterr().err
    assert "4/4" in shown
    assert "tokens/s" in shown
