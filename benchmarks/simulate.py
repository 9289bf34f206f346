"""Fleets that no test machine has: the real scheduler on a model of a machine.

    python -m benchmarks simulate [--trace NAME] [--requests N] [--replicas N ...] [--rate R] ...

The scheduler, the prefix cache and the programs are the engine's own; what a step takes is computed
from its tokens, the network's shape and the machine's numbers. Options that are given several
values are compared, a line for each combination. Every token of the simulation stands for `--grain`
real ones, which is what makes a million requests take minutes. `--validate` compares the method
with this machine: what it says of two workloads of the engine, and what they took.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace

from rich.console import Console
from rich.table import Table

from benchmarks.simulation.costs import ACCELERATORS, NETWORKS, Roofline
from benchmarks.simulation.fleet import Fleet
from benchmarks.simulation.replica import Replica, Request
from benchmarks.simulation.report import Report, Tally
from benchmarks.simulation.routing import ROUTERS
from benchmarks.simulation.traces import TRACES, sessions
from benchmarks.simulation.validation import cases, validate
from runtime.config import RuntimeConfig
from runtime.models import resolve_model
from runtime.policies import POLICIES

QUICK_REQUESTS = 2_000


@dataclass(frozen=True)
class Setting:
    """What is simulated. rate: requests a second of all replicas together; None: all at once.
    pool_tokens: of a replica; None: what the accelerator has room for. page_size: real tokens.
    """

    trace: str = "extraction"
    requests: int = 10_000
    replicas: int = 4
    rate: float | None = None
    router: str = "prefix"
    policy: str = "lpm"
    network: str = "llama-8b"
    accelerator: str = "h200"
    page_size: int = 16
    max_running: int = 256
    token_budget: int = 2048
    pool_tokens: int | None = None
    prefix_cache: bool = True
    deadline_s: float = 1.0
    grain: int = 8
    seed: int = 0


COMPARED = (
    "replicas",
    "rate",
    "router",
    "policy",
    "network",
    "accelerator",
    "page_size",
    "max_running",
    "token_budget",
    "pool_tokens",
    "grain",
)
"""What may be given several values."""


def simulate(setting: Setting) -> Report:
    grain = setting.grain
    machine = Roofline(NETWORKS[setting.network], ACCELERATORS[setting.accelerator])
    config = RuntimeConfig(
        page_size=max(1, setting.page_size // grain),
        max_running=setting.max_running,
        token_budget=setting.token_budget,
        policy=setting.policy,
        prefix_cache=setting.prefix_cache,
        share_outputs=False,  # equal prompts are answered with other symbols
        speculation="off",  # which nobody can guess
    )
    tally = Tally(grain=grain, deadline_s=setting.deadline_s)

    def make_replica(index: int, finished: Callable[[Request], None]) -> Replica:
        return Replica(
            config,
            machine,
            pool_tokens=setting.pool_tokens or machine.pool_tokens,
            grain=grain,
            seed=setting.seed + index,
            finished=finished,
        )

    make_router = ROUTERS[setting.router]
    fleet = Fleet(setting.replicas, make_replica, make_router=make_router, told=tally.add)
    coming = sessions(
        setting.trace,
        num_requests=setting.requests,
        rate=setting.rate,
        seed=setting.seed,
        grain=grain,
    )
    with uncollected():
        fleet.run(coming)
    return tally.report(fleet.replicas)


@contextmanager
def uncollected() -> Iterator[None]:
    """Millions of cached pages would be looked through again and again for cycles, of which the
    engine leaves none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    args = parser.parse_args(arguments)
    console = Console()
    if args.validate:
        report = validate(console, cases(quick=args.quick), folder=resolve_model(None))
        if args.json:
            print(json.dumps(report))
        return
    given = {field.name: getattr(args, field.name) for field in fields(Setting)}
    if args.quick:
        given["requests"] = min(given["requests"], QUICK_REQUESTS)
    varied = [name for name in COMPARED if len(given[name]) > 1]
    base = Setting(**{k: v[0] if k in COMPARED else v for k, v in given.items()})
    lines = []
    for values in itertools.product(*(given[name] for name in varied)):
        chosen = dict(zip(varied, values, strict=True))
        began = time.process_time()
        report = asdict(simulate(replace(base, **chosen)))
        lines.append({**chosen, **report, "cpu_s": time.process_time() - began})
    _show(console, lines)
    if args.json:
        print(json.dumps({"setting": asdict(base), "results": lines}))


def _show(console: Console, lines: list[dict[str, object]]) -> None:
    """A column for each combination."""
    table = Table(box=None, show_header=False)
    for name in lines[0]:
        table.add_row(name, *(_told(line[name]) for line in lines))
    console.print(table)


def _told(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks simulate", description=__doc__.splitlines()[0]
    )
    default = Setting()

    def add(name: str, help_: str, *, choices: Sequence[str] | None = None) -> None:
        value = getattr(default, name)
        kind = float if name in ("rate", "deadline_s") else int
        several = name in COMPARED
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=str if choices else kind,
            choices=choices,
            nargs="+" if several else None,
            default=[value] if several else value,
            help=f"{help_} ({'-' if value is None else value})",
        )

    add("trace", "the workload", choices=sorted(TRACES))
    add("requests", "how many")
    add("replicas", "engines")
    add("rate", "requests a second, as a Poisson process; else all at once")
    add("router", "which replica gets a request", choices=sorted(ROUTERS))
    add("policy", "which request a replica computes next", choices=sorted(POLICIES))
    add("network", "the model", choices=sorted(NETWORKS))
    add("accelerator", "the device of a replica", choices=sorted(ACCELERATORS))
    add("page_size", "tokens of a KV page")
    add("max_running", "sequences in a step, at most")
    add("token_budget", "tokens in a step, at most")
    add("pool_tokens", "KV of a replica in tokens; else what its device has room for")
    add("deadline_s", "of a first token, for the goodput")
    add("grain", "real tokens that a simulated one stands for")
    add("seed", "of the trace and of all that is drawn")
    parser.add_argument(
        "--no-prefix-cache", dest="prefix_cache", action="store_false", help="share nothing"
    )
    parser.add_argument("--validate", action="store_true", help="against the engine on this CPU")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REQUESTS:,} requests at most")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    return parser


if __name__ == "__main__":
    main()
