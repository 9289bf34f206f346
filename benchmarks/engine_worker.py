"""One engine in a process of its own: cases come in as lines of JSON, measurements go out.

    python -m benchmarks.engine_worker   (started by benchmarks.engine_runs, in the engine's own
                                          environment; it has no other use)

Times are of one thread's CPU in seconds, and of the wall beside it: machines are shared.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.engines import Cursor, Engine, engine_of

Times = list[tuple[float, float]]


class Clock:
    """Times calls; what reading the clock takes is left out."""

    def __init__(self) -> None:
        self._idle = 0.0
        self._idle = statistics.median(self.time(lambda: None)[0] for _ in range(300))

    def time(self, call: Callable[[], object]) -> tuple[float, float]:
        """Seconds of this thread's CPU, and of the wall."""
        wall = time.perf_counter()
        began = time.thread_time()
        call()
        cpu = time.thread_time() - began
        return max(cpu - self._idle, 0.0), time.perf_counter() - wall


def measure_case(engine: Engine, case: dict[str, Any], say: Callable[[Any], None]) -> None:
    """Compiles a case, then reads its texts: each once as they come, the valid ones once more."""
    clock = Clock()
    made: list[Callable[[], Cursor]] = []
    # All threads of the process: engines compile where they like.
    began, wall = time.process_time(), time.perf_counter()
    try:
        made.append(engine.compile(case["kind"], case["spec"]))
    except Exception as error:  # noqa: BLE001 -- of whatever kind an engine raises
        say({"refused": f"{type(error).__name__}: {error!s:.300}"})
        return
    say({"cpu": time.process_time() - began, "wall": time.perf_counter() - wall})
    masks: Times = []
    warm: Times = []
    accepts: Times = []

    def reads(tokens: list[int], masks: Times, accepts: Times) -> bool:
        """Whether the masks let the tokens through, and a stop token after them."""
        cursor = made[0]()
        for token_id in tokens:
            masks.append(clock.time(cursor.fill))
            if not _is_set(engine, token_id):
                return False
            accepts.append(clock.time(lambda: cursor.accept(token_id)))  # noqa: B023
        masks.append(clock.time(cursor.fill))
        return any(_is_set(engine, token_id) for token_id in case["stops"])

    verdicts = [reads(tokens, masks, accepts) for tokens in case["texts"]]
    for tokens, verdict in zip(case["texts"], verdicts, strict=True):
        if verdict:
            reads(tokens, warm, [])
    say({"verdicts": verdicts, "masks": masks, "warm": warm, "accepts": accepts})


def _is_set(engine: Engine, token_id: int) -> bool:
    return bool(int(engine.row[token_id // 32]) >> (token_id % 32) & 1)


def main() -> None:
    # What engines print is not ours to say: answers leave by a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    setup = json.loads(sys.stdin.readline())
    vocabulary = json.loads(Path(setup["vocabulary"]).read_text())
    tokens = [None if text is None else bytes.fromhex(text) for text in vocabulary["tokens"]]
    try:
        engine = engine_of(setup["engine"], tokens, vocabulary["stops"], setup["tokenizer"])
    except ImportError as error:
        say({"missing": str(error)})
        return
    engine.compile("regex", "a")()  # what is made on first use is no part of a compile
    say({"ready": True})
    for line in sys.stdin:
        gc.collect()
        gc.freeze()  # so that a collection inside of a measurement looks at what is new
        measure_case(engine, {**json.loads(line), "stops": vocabulary["stops"]}, say)


if __name__ == "__main__":
    main()
