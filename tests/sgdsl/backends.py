"""Backends that only tests need."""

from __future__ import annotations

import queue
import random
import threading
from typing import Any

from sgdsl.backends.mock import MockBackend
from sgdsl.run import Run
from tests.sgdsl.naive import TEMPLATE, reply


class ShuffledBackend(MockBackend):
    """Answers at once, but looks at the branches in a random order each time."""

    def __init__(self, seed: int) -> None:
        super().__init__(reply, chat_template=TEMPLATE)
        self._random = random.Random(seed)

    def wake(self, run: Run) -> None:
        drive = self._drives.get(run.id)
        moving = True
        while drive is not None and moving:
            self._random.shuffle(drive.live)
            moving = self._step(drive)


class BrokenBackend(MockBackend):
    """Breaks the protocol: its methods raise."""

    def submit(self, run: Run) -> None:
        raise OSError("no route to the model")


class ThreadedBackend(MockBackend):
    """Answers one run after another on a thread of its own, once it is let `go`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.go = threading.Event()
        self.num_submitted = 0
        self._queue: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        threading.Thread(target=self._answer, daemon=True).start()

    def submit(self, run: Run) -> None:
        self.num_submitted += 1
        super().submit(run)

    def wake(self, run: Run) -> None:
        self._queue.put(run)

    def close(self) -> None:
        super().close()
        self.go.set()
        self._queue.put(None)

    def _answer(self) -> None:
        self.go.wait()
        while (run := self._queue.get()) is not None:
            super().wake(run)
