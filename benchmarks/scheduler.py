"""What the scheduler alone costs, and what its cache finds, on a fake model.

    python -m benchmarks scheduler [--waiting N] [--steps N] [--rounds N] [--quick] [--json]

Measured, per policy: milliseconds of CPU that a step takes in the scheduler, with 64 rows running
and 10,000 waiting, prompts of 20 pages behind 8 shared prefixes, and outputs of 32 tokens, so that
rows come and go; the share of that which is the tree of pages (looked up, cached, locked, evicted);
and the hit rate against the best possible one. Then, per eviction order, the hit rates where the
pool is small. Nothing is computed, so that tokens are made up. The best round of several counts: a
machine in use only ever makes one slower.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from cProfile import Profile
from pathlib import Path
from pstats import Stats
from time import process_time
from typing import Any, TypeVar

from runtime.cache.eviction import EVICTIONS
from runtime.cache.prefix import PrefixCache
from runtime.foresight import Ahead
from runtime.policies import POLICIES
from runtime.scheduler import Scheduler
from runtime.sequence import Sequence

PAGE = 16
NUM_RUNNING = 64
NUM_NEW = 32
"""Tokens that a row draws."""

NUM_PREFIXES, PREFIX_PAGES, OWN_PAGES = 8, 14, 6
LARGE_POOL = 8_192
"""Pages: what all that runs needs, several times."""

SMALL_POOL, FEW_RUNNING = 192, 8
"""Pages and rows: prefixes are evicted between two rows that need them."""

TREE = str(Path("runtime") / "cache")
"""In the paths of the modules that keep the tree of pages."""

T = TypeVar("T")


class Clock:
    """CPU seconds of some calls; with a profile, whose they are."""

    def __init__(self, profile: Profile | None = None) -> None:
        self.total_s = 0.0
        self._profile = profile

    def call(self, method: Callable[..., T], *given: Any) -> T:
        if self._profile is not None:
            return self._profile.runcall(method, *given)
        began = process_time()
        found = method(*given)
        self.total_s += process_time() - began
        return found


def prompts(seed: int) -> Iterator[list[int]]:
    """Rows without end: a shared prefix, the first ones more often, and pages of its own."""
    draws = random.Random(seed)
    weights = [1 / rank for rank in range(1, NUM_PREFIXES + 1)]
    stems = [[draws.randrange(50_000) for _ in range(PREFIX_PAGES * PAGE)] for _ in weights]
    while True:
        stem = draws.choices(stems, weights)[0]
        yield stem + [draws.randrange(50_000) for _ in range(OWN_PAGES * PAGE)]


class Job:
    """A scheduler with `num_waiting` sequences before it; whoever ends is replaced."""

    def __init__(
        self, *, policy: str, eviction: str, num_pages: int, num_running: int, num_waiting: int
    ) -> None:
        self.cache = PrefixCache(num_pages=num_pages, page_size=PAGE, eviction=eviction)
        self.scheduler = Scheduler(
            self.cache, token_budget=2_048, max_running=num_running, policy=POLICIES[policy]
        )
        self._prompts = prompts(0)
        for _ in range(num_waiting + num_running):
            self._add()

    def _add(self) -> None:
        sequence = Sequence(next(self._prompts))
        sequence.want_sample()
        sequence.work = len(sequence.tokens) + NUM_NEW
        sequence.ahead = Ahead(len(sequence.tokens) + NUM_NEW)
        self.scheduler.add(sequence)

    def step(self, clock: Clock) -> None:
        scheduler = self.scheduler
        grants = clock.call(scheduler.schedule)
        drawing = [grant.sequence for grant in grants if grant.samples]
        clock.call(scheduler.commit, grants)
        for sequence in drawing:
            sequence.append([len(sequence.tokens)])
            if len(sequence.tokens) >= sequence.ahead.end:
                clock.call(scheduler.remove, sequence)
                self._add()

    @property
    def hit_rates(self) -> dict[str, float]:
        counts = self.scheduler.counts
        return {
            "hit_rate": counts.cached_tokens / counts.prompt_tokens,
            "best_hit_rate": counts.reusable_tokens / counts.prompt_tokens,
        }


def measure(policy: str, *, num_waiting: int, num_steps: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a step, the best round's; and the share of the tree, by a profile of further
    steps.
    """
    job = Job(
        policy=policy,
        eviction="lfu",
        num_pages=LARGE_POOL,
        num_running=NUM_RUNNING,
        num_waiting=num_waiting,
    )
    for _ in range(2 * NUM_NEW):
        job.step(Clock())
    clocks = [Clock() for _ in range(rounds)]
    for clock in clocks:
        for _ in range(num_steps):
            job.step(clock)
    profile = Profile()
    for _ in range(num_steps):
        job.step(Clock(profile))
    return {
        "ms_per_step": 1e3 * min(clock.total_s for clock in clocks) / num_steps,
        "tree_share": tree_share(profile),
        **job.hit_rates,
    }


def tree_share(profile: Profile) -> float:
    """Of the profiled time, what is spent in the prefix cache's own functions."""
    by_function: dict[tuple[str, int, str], tuple[int, int, float, float, Any]]
    by_function = Stats(profile).stats  # type: ignore[attr-defined]
    total_s = sum(own_s for _, _, own_s, _, _ in by_function.values())
    tree_s = sum(own_s for (file, _, _), (_, _, own_s, _, _) in by_function.items() if TREE in file)
    return tree_s / total_s


def measure_eviction(eviction: str, *, num_steps: int) -> dict[str, float]:
    """Where the pool is small, and rows come as they will: first come, first served."""
    job = Job(
        policy="fcfs",
        eviction=eviction,
        num_pages=SMALL_POOL,
        num_running=FEW_RUNNING,
        num_waiting=FEW_RUNNING,
    )
    for _ in range(num_steps):
        job.step(Clock())
    return {**job.hit_rates, "evicted_pages": job.cache.num_evicted}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scheduler", description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=500, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="100 steps, 2 rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON line at the end")
    options = parser.parse_args(arguments)
    num_steps, rounds = (100, 2) if options.quick else (options.steps, options.rounds)
    report: dict[str, Any] = {
        "running": NUM_RUNNING,
        "waiting": options.waiting,
        "policies": {
            name: measure(name, num_waiting=options.waiting, num_steps=num_steps, rounds=rounds)
            for name in POLICIES
        },
        "evictions": {name: measure_eviction(name, num_steps=4 * num_steps) for name in EVICTIONS},
    }
    show(report)
    if options.json:
        print(json.dumps(report))


def show(report: dict[str, Any]) -> None:
    print(f"{report['running']} rows running, {report['waiting']:,} waiting")
    for name, found in report["policies"].items():
        print(
            f"{name:>6}: {found['ms_per_step']:.3f} ms of CPU a step, {found['tree_share']:.0%} of "
            f"it the tree; hits {found['hit_rate']:.1%}, at best {found['best_hit_rate']:.1%}"
        )
    print(f"{FEW_RUNNING} rows running, a pool of {SMALL_POOL} pages, first come first served")
    for name, found in report["evictions"].items():
        print(
            f"{name:>6}: hits {found['hit_rate']:.1%}, at best {found['best_hit_rate']:.1%}; "
            f"{found['evicted_pages']:,} pages evicted"
        )
