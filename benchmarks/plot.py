"""Throughput against batch size, and latency against load, as one picture.

    python -m benchmarks plot [WORKLOAD] [--batches N ...] [--rates R ...] [--out FILE.png] [--json]

For each batch size the workload runs once, all rows at once, with so many of them in a step; for
each rate once more, in batches as large as the engine likes, its rows coming one by one. Rates are
rows a second; without any they are shares of the greatest throughput found.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from benchmarks.drawing import Curves, draw
from benchmarks.ours import Options, run
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.workload import Row, Workload
from runtime.config import DTYPES
from runtime.models import resolve_model

BATCHES = (1, 2, 4, 8, 16, 32)
LOADS = (0.25, 0.5, 0.75, 1.0)
"""Shares of the greatest throughput, where no rates are given."""


@dataclass(frozen=True)
class BatchPoint:
    """`num_rows`: in a step, at most. Rates are of the wall's seconds and of the process's CPU."""

    num_rows: int
    output_tokens_per_s: float
    output_tokens_per_cpu_s: float
    rows_per_s: float


@dataclass(frozen=True)
class LoadPoint:
    rate: float
    ttft_p50_s: float
    ttft_p99_s: float
    itl_p50_s: float
    itl_p99_s: float


def measure_batches(
    workload: Workload, rows: Sequence[Row], options: Options, batches: Sequence[int]
) -> list[BatchPoint]:
    found = []
    for num_rows in batches:
        ran = run(workload, rows, replace(options, max_running=num_rows))
        wall_s, cpu_s = ran.taken.wall_s, ran.taken.cpu_s
        tokens = ran.output_tokens
        found.append(BatchPoint(num_rows, tokens / wall_s, tokens / cpu_s, len(rows) / wall_s))
    return found


def measure_loads(
    workload: Workload, rows: Sequence[Row], options: Options, rates: Sequence[float]
) -> list[LoadPoint]:
    found = []
    for rate in rates:
        ran = run(workload, rows, replace(options, rate=rate))
        times = (ran.ttft.p50, ran.ttft.p99, ran.itl.p50, ran.itl.p99)
        found.append(LoadPoint(rate, *times))
    return found


def main(arguments: Sequence[str]) -> int:
    args = parser().parse_args(arguments)
    workload, console = WORKLOADS[args.workload], Console()
    options = Options(resolve_model(args.model), dtype=args.dtype, seed=args.seed)
    rows = workload.rows(args.rows or workload.num_rows, args.seed)
    batches = measure_batches(workload, rows, options, args.batches)
    best = max(point.rows_per_s for point in batches)
    rates = args.rates or [share * best for share in LOADS]
    loads = measure_loads(workload, rows, options, rates)
    for point in (*batches, *loads):
        console.print(point)
    draw(
        Path(args.out),
        title=f"{workload.name}, {len(rows)} rows, {args.dtype}",
        throughput=Curves(
            "rows in a step",
            "output tokens a second",
            [point.num_rows for point in batches],
            {
                "of the wall": [point.output_tokens_per_s for point in batches],
                "of CPU": [point.output_tokens_per_cpu_s for point in batches],
            },
        ),
        latency=Curves(
            "rows a second that come",
            "seconds",
            [point.rate for point in loads],
            {
                "TTFT, median": [point.ttft_p50_s for point in loads],
                "TTFT, 99 %": [point.ttft_p99_s for point in loads],
                "ITL, median": [point.itl_p50_s for point in loads],
                "ITL, 99 %": [point.itl_p99_s for point in loads],
            },
        ),
    )
    console.print(f"drawn: {args.out}", highlight=False)
    if args.json:
        points = {"batches": list(map(asdict, batches)), "loads": list(map(asdict, loads))}
        print(json.dumps({"workload": workload.name, "out": args.out, **points}))
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks plot", description=__doc__)
    made.add_argument("workload", nargs="?", choices=[*WORKLOADS], default="extract")
    made.add_argument("--batches", nargs="+", type=int, default=BATCHES, help="rows in a step")
    made.add_argument("--rates", nargs="+", type=float, help="rows a second")
    made.add_argument("--rows", type=int, help="of the workload (what it has by itself)")
    made.add_argument("--out", default="benchmarks.png", help="the picture (benchmarks.png)")
    made.add_argument("--dtype", choices=DTYPES, default="auto", help="of the weights (auto)")
    made.add_argument("--seed", type=int, default=0, help="of rows and arrivals (0)")
    made.add_argument("--json", action="store_true", help="end with one line of JSON")
    made.add_argument("--model", help="a folder in Hugging Face format, or a name")
    return made
