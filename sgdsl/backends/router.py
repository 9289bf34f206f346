"""`Router`: several backends as one, of which some may be slow, full, or dead.

Owns what happens to a run that falls: where it goes, when, and when it is given up. How each
decision is made is `lanes`' and `policy`'s business, what a run has so far `journey`'s.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from sgdsl.backends.alarms import Alarms
from sgdsl.backends.base import Backend, BackendStats, Closing
from sgdsl.backends.journey import Journey, Leg
from sgdsl.backends.lanes import CHARS_PER_TOKEN, Lane, Later, Provider, lanes_from
from sgdsl.backends.policy import MAX_RETRY_AFTER_S, Backoff
from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.machine import Choose, Generate
from sgdsl.run import Run

OWN_FAULT = frozenset({400, 413, 415, 422})
"""HTTP's words for a request that no provider could answer."""

BACKOFF = Backoff()


class Router(Closing):
    """Runs go to the first of `providers` (backends, or `Provider`s with limits) that has room and
    is well; put the local one first. A run whose provider fails moves on with all that it has:
    finished gens and selects are kept, text that was streamed is gone on with.

    `max_attempts`: failures of a run, without an answer in between, before it is given up.
    `backoff`: how long a run waits that has failed everywhere. The providers stay their owner's to
    close. `clock` and `draw` are for tests.
    """

    passes_nodes_on = True

    def __init__(
        self,
        providers: Sequence[Backend | Provider],
        *,
        max_attempts: int = 5,
        backoff: Backoff = BACKOFF,
        chat_template: ChatTemplate | None = None,
        clock: Callable[[], float] = monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._lanes = lanes_from(providers)
        self._max_attempts = max_attempts
        self._backoff = backoff
        self._clock = clock
        self._draw = draw
        self._template = chat_template or self._first_template()
        self._journeys: dict[int, Journey] = {}
        self._waiting: deque[Journey] = deque()
        self._lock = threading.RLock()  # of the lanes; taken after a journey's, never before
        self._alarms = Alarms("sgdsl-router", clock)
        self._closed = False
        self._finalizer = weakref.finalize(self, self._alarms.stop)

    def __repr__(self) -> str:
        return f"<Router {', '.join(lane.name for lane in self._lanes)}>"

    def _first_template(self) -> ChatTemplate:
        """What `text()` shows of roles: each provider is asked in its own template."""
        lanes: list[Lane] = list(self._lanes)
        own = [each for each in lanes if not getattr(each.backend, "speaks_messages", False)]
        return (own or lanes)[0].backend.chat_template

    @property
    def chat_template(self) -> ChatTemplate:
        return self._template

    @property
    def tokenizer_id(self) -> str | None:
        """Whose tokens all of its providers go on from; None if they have not the same."""
        found = {getattr(lane.backend, "tokenizer_id", None) for lane in self._lanes}
        return found.pop() if len(found) == 1 else None

    @property
    def max_in_flight(self) -> int:
        return sum(lane.max_in_flight for lane in self._lanes)

    @property
    def prefix_backends(self) -> dict[str, Backend]:
        """Those of its providers that keep a cache of prefixes, by name; see `Program.cache`."""
        found: dict[str, Backend] = {}
        for lane in self._lanes:
            own = {"": lane.backend} if getattr(lane.backend, "caches_prefixes", False) else {}
            for name, backend in getattr(lane.backend, "prefix_backends", own).items():
                shown = f"{lane.name} {name}".rstrip()
                found[f"{shown} ({lane.index})" if shown in found else shown] = backend
        return found

    @property
    def caches_prefixes(self) -> bool:
        return bool(self.prefix_backends)

    @property
    def is_alive(self) -> bool:
        return not self._closed

    def submit(self, run: Run) -> None:
        if self._closed:
            run.fail(self._end())
            return
        self._journeys[run.id] = journey = Journey(run, self)
        self._place(journey)

    def wake(self, run: Run) -> None:
        journey = self._journeys.get(run.id)
        if journey is None:
            return
        with journey.lock:
            leg = journey.look()
        if leg is not None:
            self._rouse(leg)

    def _rouse(self, leg: Leg) -> None:
        """Wake its backend; call it without a lock."""
        try:
            leg.lane.backend.wake(leg.replica)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it has failed, as broken as it is
            leg.replica.fail(BackendError(f"the backend failed to go on: {error}"))

    def stats(self) -> BackendStats:
        return sum((lane.backend.stats() for lane in self._lanes), BackendStats())

    def server_info(self) -> dict[str, object]:
        """How each provider does."""
        now_s = self._clock()
        with self._lock:
            return {
                lane.name: {
                    "num_in_flight": lane.num_in_flight,
                    "max_in_flight": lane.max_in_flight,
                    "breaker": lane.breaker.state(now_s),
                    "timeout_s": lane.latencies.timeout_s,
                }
                for lane in self._lanes
            }

    def flush_cache(self) -> None:
        for lane in self._lanes:
            flush = getattr(lane.backend, "flush_cache", None)
            if flush is not None:
                flush()

    def close(self) -> None:
        """Runs under way end as failed. The providers are left as they are."""
        self._closed = True
        for journey in list(self._journeys.values()):
            with journey.lock:
                journey.run.fail(self._end())
                journey.settle()
        self._alarms.stop()

    def _end(self) -> BackendError:
        return BackendError("the router was closed before this run could finish")

    # Where a run goes.

    def _place(self, journey: Journey) -> None:
        """Set out on a lane now, or wait: for a time, or for room."""
        try:
            with journey.lock:
                leg = self._next_leg(journey)
        except BaseException as error:  # noqa: BLE001 - it is this run's end, no other's
            journey.run.fail(error)
            with journey.lock:
                journey.settle()
            return
        if leg is None:
            return
        try:
            leg.lane.backend.submit(leg.replica)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it has failed, as broken as it is
            leg.replica.fail(BackendError(f"the backend failed to take the run: {error}"))

    def _next_leg(self, journey: Journey) -> Leg | None:
        if journey.is_over or journey.leg is not None:
            return None
        journey.look()
        if journey.run.outcome is not None:
            return None
        tokens = journey.input_tokens
        if not self._lanes.any_for(tokens, journey.barred):
            self._give_up(journey, None)
            return None
        taken = self._take_lane(journey, tokens)
        if taken is None:
            return None
        lane, is_trial = taken
        return journey.set_out(lane, is_trial=is_trial)

    def _take_lane(self, journey: Journey, tokens: int) -> tuple[Lane, bool] | None:
        """A lane, and whether the run is the trial of one that was unwell."""
        with self._lock:
            now_s = self._clock()
            chosen = self._lanes.choose(
                now_s,
                input_tokens=tokens,
                failed=journey.failed,
                barred=journey.barred,
                pick=partial(self._pick, journey),
            )
            if isinstance(chosen, Later):
                if chosen.at_s is None:
                    self._waiting.append(journey)
                else:
                    self._alarms.at(chosen.at_s, partial(self._place, journey))
                return None
            is_trial = chosen.breaker.state(now_s) == "half-open"
            chosen.breaker.begin(now_s)
            chosen.num_in_flight += 1
            return chosen, is_trial

    def _pick(self, _journey: Journey, lanes: Sequence[Lane]) -> Lane:
        """Which of these lanes is to carry the run from now on; with the router's lock held."""
        return lanes[0]

    def _release(self, leg: Leg) -> None:
        """The lane has room for another: somebody who waits is placed, on the router's thread."""
        with self._lock:
            leg.lane.num_in_flight -= 1
            if leg.is_trial:
                leg.lane.breaker.forget_trial()
            if self._waiting:
                journey = self._waiting.popleft()
                self._alarms.at(self._clock(), partial(self._place, journey))

    # What becomes of it there; with the journey's lock held.

    def may_begin(self, leg: Leg, branch_id: int, action: Generate | Choose) -> bool:
        """Whether the lane's rate allows it now; if not, the backend is woken when it does."""
        now_s = self._clock()
        with self._lock:
            rate = leg.lane.rate
            if rate is not None:
                tokens = _num_tokens(leg, branch_id, action)
                if (wait_s := rate.wait_s(now_s, tokens)) > 0:
                    self._alarms.at(now_s + wait_s, partial(self._rouse, leg))
                    return False
                rate.take(now_s, tokens)
            timeout_s = leg.lane.latencies.timeout_s
        leg.begun_s[branch_id] = now_s
        self._alarms.at(
            now_s + timeout_s,
            partial(self._time_out, weakref.ref(leg), branch_id, now_s, timeout_s),
        )
        return True

    def progressed(self, leg: Leg, branch_id: int) -> None:
        now_s = self._clock()
        with self._lock:
            leg.lane.latencies.add(now_s - leg.begun_s.pop(branch_id, now_s))
            leg.lane.breaker.succeed()
        leg.journey.num_failures = 0
        leg.journey.failed.clear()
        leg.journey.reasons.clear()

    def arrived(self, journey: Journey) -> None:
        self._journeys.pop(journey.run.id, None)
        leg = journey.leave()
        if leg is None:
            return
        self._release(leg)
        if leg.replica.outcome is None:  # its backend does not know that it is over
            self._alarms.at(self._clock(), partial(self._rouse, leg))

    def fell(self, leg: Leg, cause: BaseException, branch_id: int | None) -> bool:
        """Move the run on after a failure that is the provider's; False for one of its own."""
        journey, lane = leg.journey, leg.lane
        too_long = getattr(cause, "too_long", False)
        if not too_long and not _is_providers(cause):
            return False
        if too_long:
            if not self._lanes.any_for(journey.input_tokens, {*journey.barred, lane.index}):
                return False
            journey.barred.add(lane.index)
        journey.leg = None
        now_s = self._clock()
        status, retry_after_s = (
            getattr(cause, "status", None),
            getattr(cause, "retry_after_s", None),
        )
        with self._lock:
            if status != 429 and not too_long:
                lane.breaker.fail(now_s)
        self._release(leg)
        journey.reasons.append(f"{lane.name}: {cause}")
        if not too_long:
            journey.num_failures += 1
            journey.failed.add(lane.index)
        if journey.num_failures >= self._max_attempts:
            self._give_up(journey, branch_id, cause)
            return True
        others = {*journey.barred, *journey.failed}
        delay_s = 0.0
        if not self._lanes.any_for(journey.input_tokens, others):  # it has failed everywhere
            attempt = journey.num_failures - 1
            asked_s = None if retry_after_s is None else min(retry_after_s, MAX_RETRY_AFTER_S)
            delay_s = self._backoff.delay_s(attempt, self._draw(), at_least_s=asked_s)
        self._alarms.at(now_s + delay_s, partial(self._place, journey))
        return True

    def _give_up(
        self, journey: Journey, branch_id: int | None, cause: BaseException | None = None
    ) -> None:
        tokens = journey.input_tokens
        reason = (
            f"gave up after {journey.num_failures} failures: {'; '.join(journey.reasons)}"
            if journey.reasons
            else f"no provider takes an input of about {tokens} tokens"
        )
        error: Exception = BackendError(reason) if journey.reasons else UsageError(reason)
        error.__cause__ = cause
        journey.run.fail(error, branch_id=branch_id)
        journey.settle()

    def _time_out(
        self, of: weakref.ref[Leg], branch_id: int, begun_s: float, timeout_s: float
    ) -> None:
        """Called on the router's thread when an answer is due; most have come long before."""
        leg = of()
        if leg is None:
            return
        with leg.journey.lock:
            if not leg.is_present or leg.begun_s.get(branch_id) != begun_s:
                return
            with self._lock:
                leg.lane.latencies.add(timeout_s)
            error = ProviderError(f"no answer within {timeout_s:.3g} s", retryable=True)
            self.fell(leg, error, branch_id)
            leg.replica.cancel()
        self._rouse(leg)


def _is_providers(cause: BaseException) -> bool:
    """Whether another provider, or the same one later, may do better."""
    return isinstance(cause, BackendError) and getattr(cause, "status", None) not in OWN_FAULT


def _num_tokens(leg: Leg, branch_id: int, action: Generate | Choose) -> int:
    branch = leg.replica.peek(branch_id)
    assert branch is not None, "an active branch exists"
    prompt = len(branch.text()) // CHARS_PER_TOKEN
    if isinstance(action, Generate):
        return prompt + (action.sampling.max_tokens or 0)
    return (prompt + 1) * len(action.node.choices)
