"""Who waits for a run: threads, event loops, and those who are called at its end.

Owns the run's lock and the outcome as the end of every wait. Knows nothing of what a run is.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from sgdsl.errors import UsageError
from sgdsl.outcome import Outcome
from sgdsl.waiting import blocking

LOOK_UP_S = 1.0
"""How long a thread waits without a look at its signals: Ctrl-C interrupts a wait of the main
thread only when the system hands the signal to that thread, which it need not do.
"""

AWAIT = (
    "this would wait on the event loop that the run itself needs, and what it waits for is not "
    "there yet; write `await s.get(...)`, `await s.text()` or `async for ... in "
    "s.text_async_iter()`"
)

_RELEASED = threading.RLock()
"""The lock of all released runs: they do not change any more, so it is never held for long."""


class _Waiter(NamedTuple):
    """Who is called once `reached()`; both under the run's lock."""

    reached: Callable[[], bool]
    call: Callable[[], None]


class Awaited:
    """Thread-safe. `loop_thread`: the thread of the event loop that the body needs; who waits there
    awaits.
    """

    __slots__ = ("_changed", "_lock", "_waiting", "_watchers", "loop_thread", "outcome")

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.loop_thread: int | None = None
        self._lock = threading.RLock()
        self._changed: threading.Condition | None = None  # made by the first who waits
        self._watchers: tuple[Callable[[Any], None], ...] = ()
        self._waiting: tuple[_Waiter, ...] = ()

    def when_finished(self, watcher: Callable[[Self], None]) -> None:
        """Call `watcher(self)` once the outcome is set; at once, if it is. On the thread that sets
        it: the backend's, as a rule.
        """
        with self._lock:
            if self.outcome is None:
                self._watchers = (*self._watchers, watcher)
                return
        watcher(self)

    def _tell_watchers(self) -> None:
        """The outcome is set. Not under the lock."""
        with self._lock:
            watchers, self._watchers = self._watchers, ()
        for watcher in watchers:
            watcher(self)

    def wait_until(self, reached: Callable[[], bool], *, timeout_s: float | None = None) -> None:
        """Wait until `reached()` (called under the run's lock) holds or the run is finished."""

        def over() -> bool:
            return self.outcome is not None or reached()

        if self.outcome is not None:
            return
        with self._lock:
            if over():
                return
        if self.loop_thread == threading.get_ident():
            raise UsageError(AWAIT)
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with blocking(), self._lock:
            if self._changed is None:
                self._changed = threading.Condition(self._lock)
            changed = self._changed
            while not over():
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    return
                changed.wait(min(left_s, LOOK_UP_S))

    def when(self, reached: Callable[[], bool], call: Callable[[], None]) -> Callable[[], None]:
        """`wait_until` without a thread: `call()` once `reached()` holds or the run is finished; at
        once, if it does. On whichever thread changes the run, under its lock: `call` only tells
        somebody. Returns a function that takes this back.
        """
        waiter = _Waiter(reached, call)
        with self._lock:
            if self.outcome is not None or reached():
                call()
            else:
                self._waiting = (*self._waiting, waiter)

        def forget() -> None:
            with self._lock:
                self._waiting = tuple(each for each in self._waiting if each is not waiter)

        return forget

    def look(self, at: Callable[[], object]) -> None:
        """Call `at` while nothing changes."""
        with self._lock:
            at()

    def notify(self) -> None:
        """Have everyone who waits look again; of a run that was released, nobody does."""
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        """Something has changed. Under the lock; who sees the outcome may release the run before
        this has ended.
        """
        if (changed := self._changed) is not None:
            changed.notify_all()
        if self._waiting:
            waiting, self._waiting = self._waiting, ()
            for waiter in waiting:
                if self.outcome is not None or waiter.reached():
                    waiter.call()
                else:
                    self._waiting = (*self._waiting, waiter)

    def _release(self) -> None:
        """Nothing changes any more."""
        self._changed, self._lock = None, _RELEASED
