"""The same programs on one frontend, with a backend that answers at once; prints a JSON line.

Run by file, in the environment of the frontend that is asked for, so nothing but that is imported:
`python benchmarks/frontend_worker.py sgdsl|sglang ROUNDS ROWS`. The programs are written once.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPLY = "x"


def programs(sgl: Any) -> dict[str, Any]:
    """What is measured, by name; each takes one argument, `q`."""

    def one_gen(s: Any, q: str) -> None:
        s += "Question: " + q + "\nAnswer:" + sgl.gen("answer", max_tokens=8)

    def fork_4(s: Any, q: str) -> None:
        s += "Question: " + q
        forks = s.fork(4)
        forks += "\nAnswer:" + sgl.gen("answer", max_tokens=8)
        forks.join()

    def chat(s: Any, q: str) -> None:
        s += sgl.system("You are brief.")
        s += sgl.user(q)
        s += sgl.assistant(sgl.gen("first", max_tokens=8))
        s += sgl.user("And why?")
        s += sgl.assistant(sgl.gen("second", max_tokens=8))

    def reads(s: Any, q: str) -> None:
        s += "Question: " + q + "\nTool:" + sgl.gen("tool", max_tokens=8)
        s += "\nResult:" + s["tool"] + sgl.gen("answer", max_tokens=8)

    bodies = (one_gen, fork_4, chat, reads)
    return {body.__name__: sgl.function(body) for body in bodies}


def instant_backend(name: str, sgl: Any) -> Any:
    """A backend that answers at once."""
    if name == "sgdsl":
        return sgl.MockBackend(default=REPLY)
    base = importlib.import_module("sglang.lang.backend.base_backend").BaseBackend

    class Instant(base):  # type: ignore[misc, valid-type]
        def generate(self, s: Any, sampling_params: Any) -> tuple[str, dict[str, Any]]:  # noqa: ARG002
            return REPLY, {}

    return Instant()


def most_threads(call: Callable[[], object]) -> int:
    """The most threads that `call` added to those that there are, without the one that looks."""
    before, most, over = threading.active_count(), 0, threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(0.002):
            most = max(most, threading.active_count())

    watcher = threading.Thread(target=look)
    watcher.start()
    call()
    over.set()
    watcher.join()
    return max(most - before - 1, 0)


def main(arguments: list[str]) -> None:
    name, rounds, num_rows = arguments[0], int(arguments[1]), int(arguments[2])
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sgl: Any = importlib.import_module(name)
    backend = instant_backend(name, sgl)
    rows = [{"q": f"number {index}"} for index in range(num_rows)]
    report: dict[str, Any] = {}
    for program_name, program in programs(sgl).items():
        program.run_batch(rows[:50], backend=backend)
        per_s: list[float] = []
        for _ in range(rounds):
            began = time.process_time()
            states = program.run_batch(rows, backend=backend)
            texts = [state.text() for state in states]  # it is over when the last is there
            per_s.append(num_rows / (time.process_time() - began))
            assert len(texts) == num_rows and all(texts)
        report[program_name] = per_s
    one = programs(sgl)["one_gen"]
    report["threads"] = most_threads(lambda: one.run_batch(rows, backend=backend))
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1:])
