"""A process that follows another one: `python -m runtime.executor.follower`, started by `parallel`.

Owns its loop. It reads what it is told from its standard input: its part, then the sizes of its
executor, then batch after batch. What comes of a batch is with the leader: here only KV stays.
"""

from __future__ import annotations

import pickle
import signal
import sys
from typing import BinaryIO

from runtime.batch import Batch
from runtime.executor.base import Executor
from runtime.executor.build import ExecutorSizes, build_executor
from runtime.executor.parallel import Part
from runtime.model.load import load_model


def follow(messages: BinaryIO) -> None:
    """Until there is no message any more: the leader has closed, or died."""
    part: Part = pickle.load(messages)  # noqa: S301 - from the process that started this one
    device = part.own_device
    network = load_model(
        part.folder, dtype=part.dtype, decoder=part.decoder, device=device, ranks=part.meet()
    )
    executor: Executor | None = None
    while True:
        try:
            message = pickle.load(messages)  # noqa: S301
        except EOFError:
            return
        if isinstance(message, ExecutorSizes):
            executor = build_executor(network, message, device)
            continue
        assert executor is not None, "sizes come before batches"
        if isinstance(message, Batch):
            executor.forward(message)
        else:
            executor.copy(message)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the leader, which ends this one
    follow(sys.stdin.buffer)
