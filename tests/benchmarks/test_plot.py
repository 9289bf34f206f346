"""The plot is a picture of what was measured."""

from __future__ import annotations

import builtins
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from benchmarks import drawing, plot
from benchmarks.drawing import Curves, draw

CURVES = Curves("x", "y", [1, 2, 4], {"a": [1.0, 2.0, 3.0], "b": [3.0, 2.0, 1.0]})


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    draw(path, title="t", throughput=CURVES, latency=CURVES)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == tuple(drawing.DOTS_PER_INCH * n for n in drawing.SIZE_INCHES)


def test_other_curves_are_another_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    higher = Curves("x", "y", CURVES.xs, {**CURVES.lines, "b": [30.0, 2.0, 1.0]})
    pictures = []
    for curves in (CURVES, CURVES, higher):
        draw(tmp_path / "plot.png", title="t", throughput=CURVES, latency=curves)
        pictures.append((tmp_path / "plot.png").read_bytes())
    assert pictures[0] == pictures[1] != pictures[2]


def test_without_matplotlib_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    importing = builtins.__import__

    def missing(name: str, *args: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return importing(name, *args)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SystemExit, match=r"pip install 'sgdsl\[plot\]'"):
        draw(tmp_path / "plot.png", title="t", throughput=CURVES, latency=CURVES)


def test_what_is_drawn_is_what_was_measured(
    roomy_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(plot, "draw", lambda path, **given: drawn.update(given, path=path))
    options = ["regex", "--batches", "1", "3", "--rates", "20", "--rows", "3", "--json"]
    out = str(tmp_path / "plot.png")
    assert plot.main([*options, "--out", out, "--model", str(roomy_model)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    throughput, latency = drawn["throughput"], drawn["latency"]
    assert drawn["path"] == Path(out)
    assert throughput.xs == [point["num_rows"] for point in report["batches"]] == [1, 3]
    found = [point["output_tokens_per_s"] for point in report["batches"]]
    assert throughput.lines["of the wall"] == found and min(found) > 0
    assert latency.xs == [20]
    assert latency.lines["TTFT, 99 %"] == [report["loads"][0]["ttft_p99_s"]]
    assert all(value > 0 for values in latency.lines.values() for value in values)
