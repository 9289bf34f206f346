"""Ctrl-C: once to drain, twice to stop.

Owns the handler of SIGINT while a job runs. In another thread than the main one there is none.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.jobs.job import Job


@contextmanager
def stopped_by_ctrl_c(job: Job) -> Iterator[None]:
    """The first one lets the rows in flight end; the second one is Python's own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        job.stop()

    if not callable(before):  # somebody wants Ctrl-C to do nothing, or to end the process
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
