"""What the frontend itself costs, with a backend that answers at once; beside SGLang's frontend.

    python -m benchmarks frontend [--rows N] [--rounds N] [--json]

Measured, per program (one gen, four forks, a chat, a body that reads): programs per second of CPU
time of the process, in `run_batch`, up to the last text. Both frontends run the same source, in
turns, each turn in a process of its own; the best round of each counts, since a machine in use only
ever makes one slower. SGLang 0.5.5 is measured where `make bench-frontend` has installed it.
Then, of ours: threads used for 10,000 rows, and bytes that a row takes while it waits.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

from rich.console import Console

import sgdsl as sgl
from benchmarks.frontend_worker import most_threads, programs
from sgdsl.backends.script import Stall

ROOT = Path(__file__).parent.parent
PEER_PYTHON = ROOT / ".bench-frontend-venv" / "bin" / "python"
"""Of SGLang's environment, which `make bench-frontend` makes."""

PEER = "sglang"
OURS = "sgdsl"
MANY = 10_000
PENDING = 1_000
GENS = {"one_gen": 1, "fork_4": 4}
"""What a run asks for before it waits."""


def run_worker(name: str, python: Path, *, rounds: int, rows: int) -> dict[str, Any]:
    """One turn of a frontend: programs per second, of each round, by program."""
    worker = ROOT / "benchmarks" / "frontend_worker.py"
    done = subprocess.run(
        [str(python), str(worker), name, str(rounds), str(rows)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_speed(*, turns: int, rounds: int, rows: int) -> dict[str, dict[str, float]]:
    """By frontend and program: the most programs per second of any round."""
    pythons = {OURS: Path(sys.executable)}
    if PEER_PYTHON.exists():
        pythons[PEER] = PEER_PYTHON
    best: dict[str, dict[str, float]] = {name: {} for name in pythons}
    for _ in range(turns):
        for name, python in pythons.items():
            for program, found in run_worker(name, python, rounds=rounds, rows=rows).items():
                most = found if program == "threads" else max(found)
                best[name][program] = max(most, best[name].get(program, 0))
    return best


def measure_pending(name: str) -> float:
    """Bytes of a row of this program that waits for its backend."""
    num_asked = itertools.count()
    asked = threading.Event()
    gens = PENDING * GENS[name]

    def stall(_: object) -> Stall:
        if next(num_asked) == gens - 1:
            asked.set()
        return sgl.STALL

    backend = sgl.MockBackend(stall, max_in_flight=PENDING)
    program = programs(sgl)[name]
    rows = [{"q": f"number {index}"} for index in range(PENDING)]
    gc.collect()
    tracemalloc.start()
    batch = threading.Thread(target=lambda: program.run_batch(rows, backend=backend))
    batch.start()
    asked.wait()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    backend.die()
    batch.join()
    return size / PENDING


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks frontend", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON line at the end")
    options = parser.parse_args(arguments)
    speed = measure_speed(turns=options.turns, rounds=options.rounds, rows=options.rows)
    one = programs(sgl)["one_gen"]
    rows = [{"q": f"number {index}"} for index in range(MANY)]
    report = {
        "programs_per_s": speed,
        "fork_4_cost": speed[OURS]["one_gen"] / speed[OURS]["fork_4"],
        "threads_of_10000_rows": most_threads(
            lambda: one.run_batch(rows, backend=sgl.MockBackend())
        ),
        "pending_bytes": {name: measure_pending(name) for name in GENS},
    }
    show(report)
    if options.json:
        print(json.dumps(report))


def show(report: dict[str, Any]) -> None:
    console = Console()
    speed = report["programs_per_s"]
    peer = speed.get(PEER)
    for program, ours in speed[OURS].items():
        if program == "threads":
            continue
        line = f"{program:>8}: {ours:>8,.0f} programs/s"
        if peer is not None:
            line += (
                f", {ours / peer[program]:.1f} times those of SGLang 0.5.5 ({peer[program]:,.0f})"
            )
        console.print(line)
    if peer is None:
        console.print("SGLang is not installed: make bench-frontend compares with it")
    console.print(f"fork(4) costs {report['fork_4_cost']:.1f} times a program with one gen")
    console.print(
        f"{MANY:,} rows used {report['threads_of_10000_rows']} threads beside the caller's"
    )
    for program, size in report["pending_bytes"].items():
        console.print(f"{program:>8}: {size / 1024:.1f} KB a pending row")
