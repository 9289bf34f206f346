"""Clocks, ceilings and percentiles are what they say."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from benchmarks.ceiling import LayerShapes, measure_ceiling, shapes_of
from benchmarks.machine import Stopwatch, Taken, busy_seconds, peak_rss_mib
from benchmarks.measures import spread_of
from benchmarks.report import basis_of, ratio
from runtime.model.load import load_model


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_percentiles_are_those_of_the_sorted_times(times: list[float]) -> None:
    ordered, found = sorted(times), spread_of(times)
    for share, value in ((0.5, found.p50), (0.99, found.p99), (1.0, found.most)):
        place = share * (len(ordered) - 1)
        below, above = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
        assert value == pytest.approx(below + (above - below) * (place - int(place)))


def test_no_times_are_no_time() -> None:
    assert spread_of([]).p99 == 0


def test_a_stopwatch_tells_work_from_waiting() -> None:
    waited = Stopwatch()
    time.sleep(0.05)
    taken = waited.stop()
    assert taken.wall_s >= 0.05 > taken.cpu_s
    worked = Stopwatch()
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert worked.stop().cpu_s >= 0.05


def test_what_all_processors_did_is_read_from_the_system(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 200 300 9999 8888 10 20 30 40 50\ncpu0 1 2 3 4\n")
    assert busy_seconds(stat) == pytest.approx(6.6)  # of a clock of 100 Hz, without idle and guests
    assert busy_seconds(tmp_path / "none") is None


def test_ratios_are_of_cpu_seconds_where_others_use_the_machine() -> None:
    quiet, busy = Taken(10, 5, 0.0), Taken(10, 5, 1e6)
    unknown = Taken(10, 5, None)
    names = [basis_of("auto", taken).name for taken in (quiet, busy, unknown)]
    assert names == ["wall", "cpu", "cpu"]
    assert basis_of("wall", busy).seconds(busy) == 10
    assert basis_of("cpu", quiet).seconds(quiet) == 5


def test_a_ratio_compares_rows_a_second() -> None:
    assert ratio((10.0, 20), (30.0, 15)) == 4.0


def test_the_most_memory_is_some() -> None:
    assert peak_rss_mib() > 10


def test_the_layers_have_the_weights_that_the_model_has(tiny_llama_path: Path) -> None:
    shapes = shapes_of(tiny_llama_path)
    assert shapes is not None
    network = load_model(tiny_llama_path, dtype="float32", decoder="general")
    assert network.shape.num_layers == shapes.num_layers
    counted = 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128)  # tests/tiny_llama.py
    assert shapes.num_weights == counted
    assert shapes.flops(3) == 6 * counted


def test_layers_of_another_form_are_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"n_embd": 4, "n_layer": 1}))
    assert shapes_of(tmp_path) is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_ceiling_is_measured_for_every_type(dtype: str) -> None:
    ceiling = measure_ceiling(LayerShapes(2, ((16, 32), (32, 16))), 4, dtype)
    assert ceiling.num_rows == 4
    assert ceiling.per_wall_s > 0 and ceiling.per_cpu_s > 0
