"""When something is due: deadlines, and errands that nobody should wait for.

Owns two threads at most, however many runs have a deadline: one that says when time is up, and one
that tells backends of it. So a backend that is slow to listen holds no deadline up. Both end when
they have had nothing to do for a while. Knows nothing of runs.
"""

from __future__ import annotations

import heapq
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable

IDLE_S = 5.0
"""How long a thread without anything to wait for stays."""

COMPACT_FROM = 64
"""As many entries may be dead before the heap is built again without them."""


class Alarm:
    """`action` at `due_s` (of `time.monotonic()`), unless it is cancelled before."""

    __slots__ = ("_timer", "action", "due_s")

    def __init__(self, timer: Timer, due_s: float, action: Callable[[], object]) -> None:
        self._timer = timer
        self.due_s = due_s
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Forget the action, and all that it refers to. An action under way is not stopped."""
        self._timer.drop(self)


class Timer:
    """Carries actions out on a thread of its own, which is called `name`. Actions do not block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.begin()

    def begin(self) -> None:
        """Without threads, and with nothing to do: also in a fork of the process."""
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._num_dead = 0
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def at(self, due_s: float, action: Callable[[], object]) -> Alarm:
        alarm = Alarm(self, due_s, action)
        with self._news:
            heapq.heappush(self._heap, (due_s, next(self._order), alarm))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            elif self._heap[0][2] is alarm:
                self._news.notify()
        return alarm

    def after(self, delay_s: float, action: Callable[[], object]) -> Alarm:
        return self.at(time.monotonic() + delay_s, action)

    def drop(self, alarm: Alarm) -> None:
        with self._news:
            if alarm.action is None:
                return
            alarm.action = None
            self._num_dead += 1
            if self._num_dead > COMPACT_FROM and 2 * self._num_dead > len(self._heap):
                self._heap = [entry for entry in self._heap if entry[2].action is not None]
                heapq.heapify(self._heap)
                self._num_dead = 0

    def _serve(self) -> None:
        while (alarm := self._next()) is not None:
            try:
                alarm()
            except BaseException:  # noqa: BLE001 - reported; the other deadlines still hold
                error = sys.exc_info()
                threading.excepthook(threading.ExceptHookArgs((*error, threading.current_thread())))

    def _next(self) -> Callable[[], object] | None:
        """Waits for the next action that is due; None when there has been nothing for a while."""
        with self._news:
            while True:
                if not self._heap:
                    if not self._news.wait(IDLE_S) and not self._heap:
                        self._thread = None
                        return None
                    continue
                due_s, _, alarm = self._heap[0]
                action, left_s = alarm.action, due_s - time.monotonic()
                if action is not None and left_s > 0:
                    self._news.wait(min(left_s, threading.TIMEOUT_MAX))
                    continue
                heapq.heappop(self._heap)
                if action is None:
                    self._num_dead -= 1
                    continue
                alarm.action = None
                return action


deadlines = Timer("sgdsl-deadlines")
errands = Timer("sgdsl-errands")


def _begin_again() -> None:
    """A fork of the process has none of its threads, and no run that its deadlines were for."""
    deadlines.begin()
    errands.begin()


os.register_at_fork(after_in_child=_begin_again)
