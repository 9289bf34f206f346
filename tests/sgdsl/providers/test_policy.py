"""Policies under an injected clock, and the framing of events: properties, against brute force."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from sgdsl.backends.policy import Backoff, Breaker, LatencyWindow, RateLimit, RateWindow
from sgdsl.backends.sse import EventReader

gaps = st.floats(0.0, 40.0)


@given(st.integers(0, 5000), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 100))
def test_a_delay_is_within_its_bounds(attempt: int, draw: float, asked_s: float | None) -> None:
    backoff = Backoff(base_s=0.5, factor=2.0, max_s=30.0)
    delay_s = backoff.delay_s(attempt, draw, at_least_s=asked_s)
    if asked_s is None:
        assert 0 <= delay_s <= min(30.0, 0.5 * 2.0 ** min(attempt, 60))
    else:
        assert asked_s <= delay_s <= asked_s + 0.5


@given(st.lists(st.tuples(gaps, st.integers(1, 12)), max_size=40))
def test_in_no_window_more_is_let_through_than_the_limit(asks: list[tuple[float, int]]) -> None:
    limit = RateLimit(requests=4, tokens=20, window_s=10.0)
    window, now_s = RateWindow(limit), 0.0
    let: list[tuple[float, int]] = []
    for gap_s, tokens in asks:
        now_s += gap_s
        wait_s = window.wait_s(now_s, tokens)
        if wait_s > 0:
            assert window.wait_s(now_s + wait_s / 2, tokens) > 0, "not earlier than it must be"
            now_s += wait_s + 1e-9
            assert window.wait_s(now_s, tokens) == 0, "the wait is enough"
        window.take(now_s, tokens)
        let.append((now_s, tokens))
    for end_s, _ in let:
        inside = [tokens for at_s, tokens in let if end_s - 10.0 + 1e-6 < at_s <= end_s]
        assert len(inside) <= 4
        assert sum(inside) <= 20


def test_a_request_larger_than_the_limit_goes_alone() -> None:
    window = RateWindow(RateLimit(tokens=10, window_s=60.0))
    assert window.wait_s(0.0, 50) == 0
    window.take(0.0, 50)
    assert window.wait_s(1.0, 1) == 59.0


@given(st.lists(st.tuples(st.booleans(), gaps), max_size=60))
def test_a_breaker_follows_its_model(events: list[tuple[bool, float]]) -> None:
    breaker = Breaker(threshold=3, cooldown_s=5.0, max_cooldown_s=15.0)
    now_s, failures, openings, open_until_s = 0.0, 0, 0, -math.inf
    is_open = False
    for succeeds, gap_s in events:
        now_s += gap_s
        expected = "closed" if not is_open else "half-open" if now_s >= open_until_s else "open"
        assert breaker.state(now_s) == expected
        assert breaker.allows(now_s) == (expected != "open")
        if expected == "open":
            assert breaker.retry_at_s(now_s) == open_until_s
            continue
        breaker.begin(now_s)
        if expected == "half-open":
            assert not breaker.allows(now_s), "one trial at a time"
        if succeeds:
            breaker.succeed()
            failures, openings, is_open = 0, 0, False
        else:
            breaker.fail(now_s)
            failures += 1
            if expected == "half-open" or failures >= 3:
                open_until_s = now_s + min(5.0 * 2**openings, 15.0)
                openings, is_open = openings + 1, True


def test_a_trial_that_tells_nothing_is_forgotten() -> None:
    breaker = Breaker(threshold=1, cooldown_s=1.0)
    breaker.fail(0.0)
    breaker.begin(1.0)
    breaker.forget_trial()
    assert breaker.allows(1.0)
    assert breaker.state(1.0) == "half-open"


@given(st.lists(st.floats(0.001, 1000.0), max_size=120))
def test_a_time_out_follows_the_slow_ones_of_the_last(latencies: list[float]) -> None:
    window = LatencyWindow(size=50, least=10, quantile=0.9, factor=3.0, min_s=2.0, max_s=60.0)
    for latency_s in latencies:
        window.add(latency_s)
    kept = latencies[-50:]
    if len(kept) < 10:
        assert window.timeout_s == 60.0
        return
    slow = next(
        v for v in sorted(kept) if sum(each <= v for each in kept) >= 0.9 * len(kept) - 1e-9
    )
    assert window.timeout_s == pytest.approx(min(60.0, max(2.0, 3.0 * slow)))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(texts, max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_events_come_out_whole_wherever_the_bytes_are_cut(
    values: list[str], end: str, data: st.DataObject
) -> None:
    whole = b""
    for value in values:
        line = "data: " + json.dumps(value, ensure_ascii=False)
        whole += f": comment{end}event: x{end}{line}{end}{end}".encode()
    whole += b"\n" if end == "\r" else b""  # whoever ends with CR may be about to write LF
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8))
    borders = [0, *sorted(cuts), len(whole)]
    reader = EventReader()
    found = [event for begin, stop in pairwise(borders) for event in reader.feed(whole[begin:stop])]
    assert [json.loads(event) for event in found] == values
