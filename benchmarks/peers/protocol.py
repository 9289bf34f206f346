"""How another engine is asked: a job comes in as a file of JSON, and a file of JSON goes out.

Runs in every peer's environment, so nothing but Python is imported here. A peer gives `serve` a
class of its own; clocks are read here, so that all are timed alike.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Asked:
    """A prompt in tokens, and what is to follow: `max_tokens` at most, or exactly so many. `kind`:
    "free", "schema", "regex" or "choices", which `spec` is then; `options`: choices in tokens.
    """

    prompt: list[int]
    max_tokens: int
    is_exact: bool = False
    kind: str = "free"
    spec: Any = None
    options: list[list[int]] | None = None


@dataclass(frozen=True)
class Answer:
    text: str
    num_tokens: int


@dataclass(frozen=True)
class Job:
    """`rounds`: what can be asked at once, and then what waits for that. `folder`: a place for what
    a peer makes of the model, kept for the next time. `constrains`: constraints are to be kept.
    """

    model: str
    folder: str
    threads: int
    rounds: list[list[Asked]]
    batch: int = 16
    constrains: bool = True


@dataclass(frozen=True)
class Served:
    """Seconds of the rounds alone; loading, and one request before, are not among them."""

    version: str
    wall_s: float
    cpu_s: float
    peak_rss_mib: int
    answers: list[list[Answer]]


class Peer(Protocol):
    version: str

    def answer(self, requests: list[Asked]) -> list[Answer]:
        """All of them, in their order, as fast as it can."""
        ...


def serve(make: Callable[[Job], Peer]) -> None:
    """`python -m benchmarks.peers.NAME JOB ANSWERS`: two paths."""
    source, target = map(Path, sys.argv[1:3])
    job = job_from(json.loads(source.read_text(encoding="utf-8")))
    # Before anything reads it: engines ask when they are imported.
    os.environ["OMP_NUM_THREADS"] = str(job.threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    peer = make(job)
    peer.answer(job.rounds[0][:1])  # what is made on first use; and who keeps prefixes has them
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    answers = [peer.answer(requests) for requests in job.rounds]
    served = Served(
        version=peer.version,
        wall_s=time.perf_counter() - wall_s,
        cpu_s=time.process_time() - cpu_s,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        answers=answers,
    )
    target.write_text(json.dumps(asdict(served)), encoding="utf-8")


def job_from(read: dict[str, Any]) -> Job:
    rounds = [[Asked(**each) for each in requests] for requests in read["rounds"]]
    return Job(**{**read, "rounds": rounds})


def served_from(read: dict[str, Any]) -> Served:
    answers = [[Answer(**each) for each in round_] for round_ in read["answers"]]
    return Served(**{**read, "answers": answers})
