"""Backends that only tests need."""

from __future__ import annotations

import random

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
