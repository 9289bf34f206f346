"""When to try again, whom to leave alone, and how much at a time.

Owns back-off, circuit breaker, time-outs from latencies and sliding-window limits. Sans-I/O: every
method is told the time (seconds of a monotonic clock); nothing sleeps, nothing is random by itself.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

MAX_RETRY_AFTER_S = 60.0
"""The most that a provider's word is waited for before it is asked again, or given up."""

State = Literal["closed", "open", "half-open"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """`delay_s(attempt, draw)`: exponential with full jitter, as in M. Brooker, "Exponential
    Backoff And Jitter", 2015. Attempts count from 0; `draw` is in [0, 1).
    """

    base_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0

    def delay_s(self, attempt: int, draw: float, *, at_least_s: float | None = None) -> float:
        """What a provider asks for (`at_least_s`) is waited, and a little more, so that not all
        come back at the same time.
        """
        ceiling = min(self.max_s, self.base_s * self.factor ** min(attempt, 64))
        if at_least_s is not None:
            return at_least_s + min(ceiling, self.base_s) * draw
        return ceiling * draw


class Breaker:
    """A circuit breaker. Closed, it lets all through; after `threshold` failures in a row it opens
    for `cooldown_s`, which doubles with each failed trial up to `max_cooldown_s`; half-open, it
    lets one trial through at a time. Source: M. Nygard, "Release It!", 2007.
    """

    def __init__(
        self, *, threshold: int = 3, cooldown_s: float = 5.0, max_cooldown_s: float = 120.0
    ) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._max_cooldown_s = max_cooldown_s
        self._num_failures = 0
        self._num_openings = 0
        self._open_until_s: float | None = None
        self._trial = False

    def state(self, now_s: float) -> State:
        if self._open_until_s is None:
            return "closed"
        return "half-open" if now_s >= self._open_until_s else "open"

    def allows(self, now_s: float) -> bool:
        """Whether one more may be let through now."""
        state = self.state(now_s)
        return state == "closed" or (state == "half-open" and not self._trial)

    def begin(self, now_s: float) -> None:
        """One is let through."""
        assert self.allows(now_s), "nothing is let through an open breaker"
        self._trial = self.state(now_s) == "half-open"

    def succeed(self) -> None:
        """It is alive: all may come."""
        self._num_failures = self._num_openings = 0
        self._open_until_s = None
        self._trial = False

    def fail(self, now_s: float) -> None:
        self._num_failures += 1
        half_open = self.state(now_s) == "half-open"
        if half_open or (self._open_until_s is None and self._num_failures >= self._threshold):
            cooldown_s = self._cooldown_s * 2.0 ** min(self._num_openings, 64)
            self._num_openings += 1
            self._open_until_s = now_s + min(cooldown_s, self._max_cooldown_s)
        self._trial = False

    def forget_trial(self) -> None:
        """The trial ended without a word on the provider: cancelled, say."""
        self._trial = False

    def retry_at_s(self, now_s: float) -> float:
        """When it lets something through again; `now_s` if it does."""
        if self._open_until_s is None:
            return now_s
        return max(now_s, self._open_until_s)


class LatencyWindow:
    """The last `size` latencies; `timeout_s` is `factor` times their `quantile`, within bounds, and
    `max_s` as long as fewer than `least` are known. A time-out counts as a latency of that length,
    so a provider that has become slower gets more time.
    """

    def __init__(
        self,
        *,
        size: int = 100,
        least: int = 10,
        quantile: float = 0.95,
        factor: float = 4.0,
        min_s: float = 5.0,
        max_s: float = 300.0,
    ) -> None:
        self._latencies: deque[float] = deque(maxlen=size)
        self._least = least
        self._quantile = quantile
        self._factor = factor
        self._min_s = min_s
        self._max_s = max_s

    def add(self, latency_s: float) -> None:
        self._latencies.append(latency_s)

    @property
    def timeout_s(self) -> float:
        if len(self._latencies) < self._least:
            return self._max_s
        ordered = sorted(self._latencies)
        index = min(len(ordered) - 1, math.ceil(self._quantile * len(ordered)) - 1)
        return min(self._max_s, max(self._min_s, self._factor * ordered[index]))


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many requests and tokens in any `window_s` seconds; None: any number."""

    requests: int | None = None
    tokens: int | None = None
    window_s: float = 60.0


class RateWindow:
    """What was let through in the last window. In no window more than the limit, but one request
    that is larger than the limit by itself, which goes alone.
    """

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._taken: deque[tuple[float, int]] = deque()
        self._num_tokens = 0

    def wait_s(self, now_s: float, num_tokens: int) -> float:
        """How long until a request of so many tokens may go; 0: now."""
        self._expire(now_s)
        num_requests, tokens, ready_s = len(self._taken), self._num_tokens, now_s
        for taken_s, taken_tokens in self._taken:
            if self._fits(num_requests, tokens, num_tokens):
                break
            num_requests -= 1
            tokens -= taken_tokens
            ready_s = taken_s + self.limit.window_s
        return max(0.0, ready_s - now_s)

    def take(self, now_s: float, num_tokens: int) -> None:
        self._expire(now_s)
        self._taken.append((now_s, num_tokens))
        self._num_tokens += num_tokens

    def _fits(self, num_requests: int, tokens: int, more: int) -> bool:
        most_requests, most_tokens = self.limit.requests, self.limit.tokens
        if most_requests is not None and num_requests >= most_requests:
            return False
        return most_tokens is None or tokens + more <= most_tokens or num_requests == 0

    def _expire(self, now_s: float) -> None:
        while self._taken and self._taken[0][0] + self.limit.window_s <= now_s:
            self._num_tokens -= self._taken.popleft()[1]
