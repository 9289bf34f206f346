"""One replica: the real engine, scheduler, prefix cache and programs, with a clock that is told.

Owns the simulated time of one engine, and what its requests come to. Nothing is computed: a step
takes what the machine says, and draws symbols at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from benchmarks.simulation.costs import Machine, Work, work_of
from benchmarks.simulation.symbols import NUM_SYMBOLS, NoGrammars, SymbolTokenizer
from runtime.assembly import assemble
from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.config import RuntimeConfig
from runtime.grammar_store import GrammarStore
from runtime.sampling.request import Sampled, SampleRequest
from sgdsl.chat_families import get_chat_template
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Gen, Sampling, Text
from sgdsl.run import Run

TEMPLATE = get_chat_template("default")
ANSWER = "answer"


@dataclass(slots=True)
class Request:
    """A turn of a session, on its way. Times in seconds since the beginning of the simulation."""

    prompt: str
    num_output: int
    arrived_s: float
    first_s: float = -1.0
    finished_s: float = -1.0
    answer: str = ""


class SteppedClock:
    """An executor whose steps take the time that a machine says. `grain`: real tokens that each
    token of the batch stands for. A decode draws them one after another, in as many real steps;
    a prefill computes them together.
    """

    overlaps = False

    def __init__(self, machine: Machine, *, grain: int, token_budget: int, seed: int) -> None:
        self.now_s = 0.0
        self.busy_s = 0.0
        self.num_steps = 0
        self.drawing: dict[int, Request] = {}  # those that have drawn nothing yet, by run
        self._machine = machine
        self._grain = grain
        self._budget = token_budget
        self._generator = np.random.default_rng(seed)

    def copy(self, copies: Sequence[Copy]) -> None:
        """Takes no time: it is far less than a step."""

    def forward(self, batch: Batch) -> None:
        work = work_of(batch)
        decodes = sum(grant.num_tokens == 1 for grant in batch.sampled)
        num_real = work.num_tokens * self._grain
        num_steps = self._grain if decodes else -(-num_real // self._budget)
        share = self._grain / num_steps
        real = Work(
            num_tokens=round((work.num_tokens - work.num_decodes) * share) + work.num_decodes,
            num_decodes=work.num_decodes,
            own_slots=work.own_slots * self._grain,
            shared_slots=work.shared_slots * self._grain,
            pairs=round(work.pairs * self._grain * share),
        )
        head_s = self._machine.head_s(len(batch.sample_at))
        step_s = num_steps * (self._machine.layers_s(real) + head_s)
        self.now_s += step_s
        self.busy_s += step_s
        self.num_steps += num_steps

    def sample(self, _: None, batch: Batch, __: SampleRequest) -> Sampled:
        for grant in batch.sampled:
            if (new := self.drawing.pop(grant.sequence.group, None)) is not None:
                new.first_s = self.now_s
        count = len(batch.sampled)
        tokens = self._generator.integers(0, NUM_SYMBOLS, size=count).tolist()
        return Sampled(tokens, [0.0] * count, ())


class Replica:
    """`finished` is called with every request that has ended, in simulated time."""

    def __init__(
        self,
        config: RuntimeConfig,
        machine: Machine,
        *,
        pool_tokens: int,
        grain: int,
        seed: int,
        finished: Callable[[Request], None],
    ) -> None:
        num_pages = pool_tokens // grain // config.page_size
        assert config.token_budget is not None, "a simulation says how large its steps are"
        self._tokenizer = SymbolTokenizer()
        self.executor = SteppedClock(
            machine, grain=grain, token_budget=config.token_budget, seed=seed
        )
        self.engine = assemble(
            config,
            tokenizer=self._tokenizer,
            grammars=cast(GrammarStore, NoGrammars()),
            executor=self.executor,
            num_pages=num_pages,
            context_len=num_pages * config.page_size,
            clock=lambda: self.executor.now_s,
        )
        self._finished = finished
        self.num_open = 0

    @property
    def now_s(self) -> float:
        return self.executor.now_s

    def submit(self, request: Request) -> None:
        """Not before its time: the replica is idle, or its step has ended."""
        executor = self.executor
        executor.now_s = max(executor.now_s, request.arrived_s)
        sampling = Sampling(max_tokens=request.num_output, temperature=0.0, ignore_eos=True)
        run = Run(template=TEMPLATE, defaults=DEFAULT_SAMPLING, seed=0)
        run.extend(
            [
                Text(0, ROOT, None, request.prompt),
                Gen(1, ROOT, None, ANSWER, sampling),
            ]
        )
        run.close()
        self.num_open += 1
        executor.drawing[run.id] = request

        def end(run: Any) -> None:
            assert run.outcome.error is None or run.outcome.status == "truncated", run.outcome.error
            self.num_open -= 1
            request.finished_s = executor.now_s
            request.answer = str(run.variable(ROOT, ANSWER))
            run.release()
            self._finished(request)

        run.when_finished(end)
        self.engine.programs.start(run, {})

    def step(self) -> bool:
        return self.engine.step()

    def cached_tokens(self, tokens: list[int]) -> int:
        """Of a prompt, what this replica's cache holds."""
        cache = self.engine.scheduler.cache
        return len(cache.match(tokens, len(tokens) - 1)) * cache.page_size
