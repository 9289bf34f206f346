"""The rule for the number of threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.threads import num_threads


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 8),
        ("400000 100000", 4),
        ("150000 100000", 2),
        ("5000 100000", 1),
        ("1600000 100000", 8),
        ("nonsense", 8),
    ],
)
def test_a_quota_lowers_the_number_of_threads(
    quota: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "cpu.max").write_text(quota + "\n")
    assert num_threads(8, quota_file=tmp_path / "cpu.max") == expected


def test_without_a_quota_torch_s_number_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert num_threads(8, quota_file=tmp_path / "cpu.max") == 8


def test_what_the_user_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert num_threads(8, quota_file=tmp_path / "cpu.max") == 8
