"""Calls at a time: one daemon thread and what it has to call, earliest first.

Owns the thread, from its first use until it is stopped. What is called must not block for long.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from time import monotonic


class Alarms:
    """`clock` gives seconds."""

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self._name = name
        self._clock = clock
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def at(self, time_s: float, call: Callable[[], None]) -> None:
        """Have `call` called at `time_s`, at once if that is past; never after `stop`."""
        with self._changed:
            if self._stopped:
                return
            heapq.heappush(self._due, (time_s, next(self._order), call))
            if self._thread is None or not self._thread.is_alive():  # a fork keeps no threads
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._due.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and not self._is_due():
                    left_s = self._due[0][0] - self._clock() if self._due else None
                    self._changed.wait(left_s)
                if self._stopped:
                    return
                _, _, call = heapq.heappop(self._due)
            call()
            del call  # it would keep a run alive until the next

    def _is_due(self) -> bool:
        return bool(self._due) and self._due[0][0] <= self._clock()
