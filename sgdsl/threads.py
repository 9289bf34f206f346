"""Threads for single bodies, and the count of those that never came back.

Owns a pool of daemon threads that are used again while they are idle. A body that does not end when
its run does is left behind: it costs the pool nothing, and is counted until it ends after all.
Knows nothing of runs; a batch has a pool of its own, which counts here too.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

IDLE_S = 5.0
"""How long an idle thread stays."""

MAX_THREADS = 256
"""Bodies that may go on at once; the rest wait for one of them to end."""

MAX_LEFT_BEHIND = 1024
"""From then on, bodies that are stuck hold up those that wait for a thread."""


class Count:
    """A number that threads change."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self, amount: int) -> None:
        with self._lock:
            self.value += amount


left_behind = Count()


def num_left_behind() -> int:
    """How many threads of this process are stuck in bodies whose runs were cancelled. Python cannot
    end a thread: it is left to itself, and is gone when the body ends.
    """
    return left_behind.value


class Job:
    """Something that a thread of the pool does, has done, or will do."""

    __slots__ = ("_call", "_pool", "left", "over", "started")

    def __init__(self, pool: Threads, call: Callable[[], object]) -> None:
        self._pool = pool
        self._call = call
        self.started = self.left = self.over = False

    def __call__(self) -> None:
        self._call()

    def leave(self) -> None:
        """Do not count on its thread any more; if it has not begun, it never will."""
        self._pool.leave(self)


_pools: weakref.WeakSet[Threads] = weakref.WeakSet()


class Threads:
    """At most `limit` jobs at once, each on a thread called `name`. A job does not raise. Those
    that a job starts do not count: it may wait for them.
    """

    def __init__(self, name: str, *, limit: int = MAX_THREADS) -> None:
        self._name = name
        self._limit = limit
        self.begin()
        _pools.add(self)

    def begin(self) -> None:
        """Without threads, and with nothing to do: also in a fork of the process."""
        self._inside = threading.local()
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._jobs: deque[Job] = deque()
        self._num_threads = self._num_idle = self._num_left = 0

    def start(self, call: Callable[[], object]) -> Job:
        job = Job(self, call)
        nested = getattr(self._inside, "yes", False)
        with self._lock:
            if nested:
                self._jobs.appendleft(job)
            else:
                self._jobs.append(job)
            self._staff(bounded=not nested)
        return job

    def leave(self, job: Job) -> None:
        with self._lock:
            if job.over or job.left or self._num_left >= MAX_LEFT_BEHIND:
                return
            job.left = True
            if job.started:
                self._num_left += 1
                left_behind.add(1)
                self._num_threads -= 1
                self._staff()

    def _staff(self, *, bounded: bool = True) -> None:
        """See to it that somebody takes the next job. Under the lock."""
        if self._num_idle >= len(self._jobs):
            self._work.notify()
        elif self._jobs and (self._num_threads < self._limit or not bounded):
            try:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            except RuntimeError:  # the system gives no more threads: those there are go on
                if self._num_threads == 0:
                    self._jobs.pop()
                    raise
                return
            self._num_threads += 1

    def _serve(self) -> None:
        self._inside.yes = True
        while (job := self._next()) is not None:
            try:
                job()
            finally:
                with self._lock:
                    job.over = True
                    if job.left:
                        self._num_left -= 1
                        left_behind.add(-1)
            if job.left:  # the pool has gone on without this thread
                return

    def _next(self) -> Job | None:
        with self._lock:
            while True:
                while not self._jobs:
                    self._num_idle += 1
                    told = self._work.wait(IDLE_S)
                    self._num_idle -= 1
                    if not told and not self._jobs:
                        self._num_threads -= 1
                        return None
                job = self._jobs.popleft()
                if not job.left:
                    job.started = True
                    return job


def _begin_again() -> None:
    """A fork of the process has none of its threads, and their locks as they happened to be."""
    left_behind.begin()
    for pool in _pools:
        pool.begin()


os.register_at_fork(after_in_child=_begin_again)

bodies = Threads("sgdsl-body")
submits = Threads("sgdsl-submit", limit=32)
