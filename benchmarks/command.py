"""`python -m benchmarks WORKLOAD`: one workload, measured and compared.

Owns the order of the measurements, what makes a run a failure, and what is printed:

    ours        the whole workload, batched, prefixes shared
    serial      the same engine, one row after another and nothing kept: the judge of our texts
    the peers   the same prompts and lengths, each in its own environment (`make bench-peers`)

The command fails (exit code 1) when a row is not valid, or a text is not what the serial run wrote
and was promised to be: weights in float32, or any with `--batch-invariant`. Otherwise such rows are
counted.
Ratios are rows per second: from the wall's seconds, or from the CPU seconds of the processes where
others use the machine (`basis` says which).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.ceiling import measure_ceiling, shapes_of
from benchmarks.ours import Options, Ran, run, run_serially
from benchmarks.peer_runs import (
    PEERS,
    PeerMissingError,
    ask_peer,
    job_of,
    keeps_constraints,
)
from benchmarks.report import (
    Figures,
    basis_of,
    engine_figures,
    flop_figures,
    peer_figures,
    peer_verdicts,
    ratio,
    verdict_figures,
)
from benchmarks.workloads.workload import Row, Workload
from runtime.config import DTYPES
from runtime.models import resolve_model

NUM_SERIAL, NUM_SERIAL_QUICK = 16, 2
"""Rows of the serial run: they take long."""

SHOWN_CHARACTERS = 30
"""Of texts that differ."""

QUICK_PEERS = ("transformers",)
"""What `--quick` compares with unless somebody says so: the others take longer to load."""


@dataclass(frozen=True)
class Asked:
    """The command line, read."""

    options: Options
    num_rows: int
    num_serial: int
    peers: tuple[str, ...]
    basis: str


def main(workload: Workload, arguments: Sequence[str]) -> int:
    """0 if every text is right."""
    args = parser_of(workload).parse_args(arguments)
    asked = asked_from(args, workload)
    console = Console(width=120)
    figures, faults = measure(workload, asked, console)
    for name, value in figures.items():
        if name != "peers":
            console.print(f"{name:>24}  {_shown(value)}", highlight=False)
    for fault in faults:
        console.print(f"WRONG: {fault}", markup=False)
    if args.json:
        print(json.dumps({"workload": workload.name, **figures, "faults": faults}))
    return 1 if faults else 0


def parser_of(workload: Workload) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {workload.name}",
        description=f"The workload {workload.name}: our engine, and others beside it.",
    )
    parser.add_argument("--rows", type=_count, help=f"({workload.num_rows})")
    parser.add_argument("--quick", action="store_true", help="few rows; ends within a minute")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--rate", type=_rate, help="rows come one by one, so many a second")
    parser.add_argument("--dtype", choices=DTYPES, default="auto", help="of our weights (auto)")
    parser.add_argument(
        "--batch-invariant", action="store_true",
        help="our logits are the same in any batch; so must be texts, whatever the dtype",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of rows and arrivals (0)")
    parser.add_argument("--model", help="a folder in Hugging Face format, or a name")
    parser.add_argument(
        "--peers", nargs="*", choices=[*PEERS], metavar="PEER",
        help=f"others to compare with, of {', '.join(PEERS)} (all; with --quick the first)",
    )  # fmt: skip
    parser.add_argument(
        "--basis", choices=["auto", "wall", "cpu"], default="auto",
        help="seconds that ratios are made of (cpu when others use the machine)",
    )  # fmt: skip
    return parser


def asked_from(args: argparse.Namespace, workload: Workload) -> Asked:
    num_rows = args.rows or (workload.num_quick if args.quick else workload.num_rows)
    peers = args.peers if args.peers is not None else QUICK_PEERS if args.quick else [*PEERS]
    return Asked(
        Options(
            resolve_model(args.model),
            dtype=args.dtype,
            rate=args.rate,
            seed=args.seed,
            batch_invariant=args.batch_invariant,
        ),
        num_rows,
        min(num_rows, NUM_SERIAL_QUICK if args.quick else NUM_SERIAL),
        tuple(peers),
        args.basis,
    )


def measure(workload: Workload, asked: Asked, console: Console) -> tuple[Figures, list[str]]:
    """All figures, and what was wrong."""
    rows, options = workload.rows(asked.num_rows, asked.options.seed), asked.options
    ours = run(workload, rows, options)
    basis = basis_of(asked.basis, ours.taken)
    verdicts = ours.verdicts(workload, rows)
    figures = {
        "dtype": options.dtype,
        "rate": options.rate,
        "threads": torch.get_num_threads(),
        **engine_figures(ours, len(rows)),
        **verdict_figures(verdicts),
        **_flops(ours, options),
        "basis": basis.name,
    }
    _say(console, "ours", ours.taken.wall_s, ours.taken.cpu_s, len(rows))
    faults = [f"row {i} is not valid" for i, each in enumerate(verdicts) if not each.valid]
    chosen = spread(len(rows), asked.num_serial)
    serial = run_serially(workload, [rows[i] for i in chosen], replace(options, prefix_cache=False))
    _say(console, "serial", serial.taken.wall_s, serial.taken.cpu_s, len(chosen))
    differing = [
        index for index, text in zip(chosen, serial.texts, strict=True) if text != ours.texts[index]
    ]
    alone = dict(zip(chosen, serial.texts, strict=True))
    told = [
        f"row {i} is not what it is alone and uncached: {difference(ours.texts[i], alone[i])}"
        for i in differing
    ]
    if options.is_exact:
        faults += told
    else:
        for each in told:
            console.print(f"{each} (not promised for these weights)", markup=False)
    figures["rows_compared"], figures["rows_equal"] = len(chosen), len(chosen) - len(differing)
    own = basis.seconds(ours.taken), len(rows)
    figures["vs_serial"] = ratio(own, (basis.seconds(serial.taken), len(chosen)))
    figures["peers"] = {}
    for name in asked.peers:
        try:
            found = _ask(name, (workload, rows), ours, options.folder)
        except PeerMissingError as missing:
            console.print(f"{name:>14}  {missing}", markup=False)
            continue
        _say(console, name, found["wall_s"], found["cpu_s"], len(rows))
        found["ratio"] = ratio(own, (found[f"{basis.name}_s"], len(rows)))
        figures["peers"][name] = found
        figures[f"vs_{name.replace('-', '_')}"] = found["ratio"]
    return figures, faults


def _ask(name: str, given: tuple[Workload, list[Row]], ours: Ran, model: Path) -> Figures:
    workload, rows = given
    constrains = keeps_constraints(name)
    texts = {
        t for run in ours.requests for each in run if each.kind == "choices" for t in each.spec
    }
    job = job_of(
        ours.requests,
        ours.tokens,
        model,
        threads=torch.get_num_threads(),
        constrains=constrains,
        options={text: ours.encode(text) for text in texts},
    )
    served = ask_peer(name, job)
    figures = {**peer_figures(served, rows), "constrained": constrains}
    if constrains:
        figures |= verdict_figures(peer_verdicts(served, ours.requests, workload, rows))
    return figures


def _flops(ours: Ran, options: Options) -> Figures:
    shapes = shapes_of(options.folder)
    if shapes is None:
        return {}
    mean = max(1, round(ours.steps["computed_tokens"] / max(1, ours.steps["num_steps"])))
    return flop_figures(ours, shapes, measure_ceiling(shapes, mean, options.dtype))


def spread(num_rows: int, count: int) -> list[int]:
    """`count` indices, evenly over all rows."""
    return [index * num_rows // count for index in range(count)]


def difference(found: str, right: str) -> str:
    """Where two texts part, and how each goes on."""
    pairs = enumerate(zip_longest(found, right))
    at = next((place for place, (a, b) in pairs if a != b), len(right))
    shown = slice(at, at + SHOWN_CHARACTERS)
    before = right[max(0, at - SHOWN_CHARACTERS) : at]
    return f"behind {before!r} it has {found[shown]!r} instead of {right[shown]!r}"


def _say(console: Console, name: str, wall_s: float, cpu_s: float, num_rows: int) -> None:
    console.print(
        f"{name:>14}  {num_rows / wall_s:8.3f} rows/s  ({num_rows} rows, {wall_s:.1f} s, "
        f"{cpu_s:.1f} s of CPU)",
        highlight=False,
    )


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; give 1 or more")
    return number


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; give rows a second, above 0")
    return rate
