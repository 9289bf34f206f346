"""Our engine on a workload.

Owns what of a run is measured, and how it is made of the engine's totals. Knows neither other
engines nor what is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.arrivals import Arrived, all_at_once, at_times, poisson_times
from benchmarks.hits import Asked, Reuse, best_reuse
from benchmarks.machine import Stopwatch, Taken, peak_rss_mib
from benchmarks.measures import Spread, spread_of
from benchmarks.requests import Request, requests_of
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from runtime import Runtime
from runtime.device.choice import choose_device, weights_dtype
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramState
from sgdsl.pieces import Piece


@dataclass(frozen=True)
class Options:
    """How the engine is run. `rate`: rows a second, as a Poisson process; None: all at once."""

    folder: Path
    dtype: str = "auto"
    rate: float | None = None
    seed: int = 0
    max_running: int | None = None
    prefix_cache: bool = True
    batch_invariant: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether a text is promised to be the same in any batch. Smaller types than float32 round
        what batches add up in another order to other numbers.
        """
        dtype = weights_dtype(self.dtype, choose_device("auto"))
        return self.batch_invariant or dtype == "float32"

    def runtime(self) -> Runtime:
        """Equal rows are computed again: what is measured is not how often rows come twice."""
        return Runtime(
            self.folder,
            dtype=self.dtype,
            max_running=self.max_running,
            prefix_cache=self.prefix_cache,
            batch_invariant=self.batch_invariant,
            share_outputs=False,
        )


@dataclass(frozen=True)
class Ran:
    """What one engine made of the rows. Shares are of the wall time; `steps` are the differences of
    the engine's totals, `totals` of its cache. `tokens` has each run's requests as token ids, which
    `encode` makes.
    """

    taken: Taken
    states: list[ProgramState[Any]]
    requests: list[list[Request]]
    tokens: list[list[Asked]]
    steps: dict[str, float]
    totals: Reuse
    encode: Callable[[str], list[int]]
    ttft: Spread
    itl: Spread
    peak_rss_mib: int

    @property
    def texts(self) -> list[str]:
        """All that each row came to, over all branches."""
        return [
            "\n".join(f"{request.prompt}{request.text}" for request in run) for run in self.requests
        ]

    @property
    def output_tokens(self) -> int:
        return sum(request.num_tokens for run in self.requests for request in run)

    @property
    def reuse(self) -> Reuse:
        """What the cache did, as the engine says of every request; of selects it says nothing, so
        that its totals count.
        """
        if any(request.kind == "choices" for run in self.requests for request in run):
            return self.totals
        all_ = [request for run in self.requests for request in run]
        return Reuse(
            sum(request.num_prompt_tokens for request in all_),
            sum(request.num_cached_tokens for request in all_),
        )

    @property
    def best_reuse(self) -> Reuse:
        """What an infinite cache of whole prefixes would have done: every round after the one that
        it depends on.
        """
        depths = [
            (request.depth, asked)
            for run, tokens in zip(self.requests, self.tokens, strict=True)
            for request, asked in zip(run, tokens, strict=True)
        ]
        depths.sort(key=lambda each: each[0])
        return best_reuse(asked for _, asked in depths)

    def share(self, *names: str) -> float:
        """Of the wall time, what these parts of the steps took."""
        return sum(self.steps[f"{name}_s"] for name in names) / self.taken.wall_s

    def verdicts(self, workload: Workload, rows: Sequence[Row]) -> list[Verdict]:
        """A row that has failed is not valid, nor is one with an output of another length than was
        asked for.
        """
        found = []
        for state, run, row in zip(self.states, self.requests, rows, strict=True):
            outcome = state.outcome
            if outcome is None or outcome.error is not None:
                found.append(Verdict(False))
                continue
            texts: Texts = {}
            for request in run:
                texts.setdefault(request.name, []).append(request.text)
            verdict = workload.judge(texts, row)
            exact = all(request.has_its_length for request in run)
            found.append(replace(verdict, valid=verdict.valid and exact))
        return found


def run(workload: Workload, rows: Sequence[Row], options: Options) -> Ran:
    """The workload in an engine of its own, which has seen one row before and forgotten it."""

    def arrive(runtime: Runtime) -> Arrived:
        return _arrive(workload, rows, runtime, options)

    with options.runtime() as runtime:
        warm_up(workload, rows, runtime)
        return _measured(runtime, arrive)


def run_serially(workload: Workload, rows: Sequence[Row], options: Options) -> Ran:
    """One row after the other, nothing kept of those before: the judge of what batches and caches
    may not change. `prefix_cache` of the options is off.
    """
    assert not options.prefix_cache, "a judge remembers nothing"

    def arrive(runtime: Runtime) -> Arrived:
        program = workload.program
        return Arrived([program.run(args=row.arguments, backend=runtime) for row in rows], [])

    with options.runtime() as runtime:
        warm_up(workload, rows, runtime)
        return _measured(runtime, arrive)


def warm_up(workload: Workload, rows: Sequence[Row], runtime: Runtime) -> None:
    """One row, so that no first-time cost is measured; its prefixes are forgotten again."""
    workload.program.run(args=rows[0].arguments, backend=runtime)
    runtime.flush_cache()


def _arrive(workload: Workload, rows: Sequence[Row], runtime: Runtime, options: Options) -> Arrived:
    if options.rate is None:
        return all_at_once(workload, rows, runtime)
    times = poisson_times(len(rows), options.rate, options.seed)
    return at_times(workload, rows, runtime, times)


def _measured(runtime: Runtime, arrive: Callable[[Runtime], Arrived]) -> Ran:
    steps_before, cached_before = asdict(runtime.step_stats), runtime.stats()
    stopwatch = Stopwatch()
    arrived = arrive(runtime)
    taken = stopwatch.stop()
    steps, cached = asdict(runtime.step_stats), runtime.stats()
    requests = [requests_of(state.explain()) for state in arrived.states]
    return Ran(
        taken=taken,
        states=arrived.states,
        requests=requests,
        tokens=[[_asked(each, runtime.tokenizer) for each in run] for run in requests],
        steps={name: steps[name] - steps_before[name] for name in steps},
        totals=Reuse(
            cached.prompt_tokens - cached_before.prompt_tokens,
            cached.cached_tokens - cached_before.cached_tokens,
        ),
        encode=runtime.tokenizer.encode,
        ttft=spread_of([span.first_s for span in arrived.spans]),
        itl=spread_of([gap for span in arrived.spans for gap in span.gaps_s]),
        peak_rss_mib=peak_rss_mib(),
    )


def _asked(request: Request, tokenizer: Tokenizer) -> Asked:
    """Special tokens stand in prompts where a template wrote them; no row's text spells one."""
    pieces = [Piece(request.prompt, special=True)]
    prompt = [*tokenizer.bos_token_ids, *tokenizer.encode_pieces(pieces)]
    return Asked(prompt, tokenizer.encode(request.text))
