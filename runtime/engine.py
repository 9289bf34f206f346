"""The engine: one loop that closes gaps.

Owns the order of a step. The scheduler says who computes, the executor computes, the programs say
what the tokens mean. No queue of requests, no thread: whoever owns the engine calls `step`.
"""

from __future__ import annotations

from time import perf_counter

from runtime.batch import build_batch
from runtime.executor.base import Executor
from runtime.programs import Programs
from runtime.scheduler import Scheduler
from runtime.telemetry.stats import StepStats


class Engine:
    def __init__(self, scheduler: Scheduler, programs: Programs, executor: Executor) -> None:
        self.scheduler = scheduler
        self.programs = programs
        self.stats = StepStats()
        self._executor = executor

    def step(self) -> bool:
        """One turn: tokens computed, tokens drawn, programs moved on. False if all is idle. A step
        that the memory does not suffice for is as if it had never been; the next ones are smaller.
        """
        stats = self.stats
        began = perf_counter()
        grants = self.scheduler.schedule()
        if not grants:
            assert self.scheduler.num_running == 0, "whoever runs has a gap"
            assert self.scheduler.num_waiting == 0, "an idle engine lets everyone in"
            return False
        batch = build_batch(grants, self.scheduler.cache.page_size)
        scheduled = perf_counter()
        copies = self.scheduler.take_copies()
        self._executor.copy(copies)
        copied = perf_counter()
        try:
            hidden = self._executor.forward(batch)
            computed = perf_counter()
            request = self.programs.request(batch)
            masked = perf_counter()
            sampled = self._executor.sample(hidden, batch, request)
        except MemoryError:
            if not self.scheduler.shrink(batch.num_tokens):
                raise
            return True
        drawn = perf_counter()
        self.scheduler.took(grants, copies, copy_s=copied - scheduled, compute_s=computed - copied)
        self.scheduler.commit(grants)
        self.programs.commit(batch, sampled)
        stats.num_steps += 1
        stats.computed_tokens += batch.num_tokens
        stats.max_running = max(stats.max_running, self.scheduler.num_running)
        stats.schedule_s += scheduled - began
        stats.copy_s += copied - scheduled
        stats.forward_s += computed - copied
        stats.mask_s += masked - computed
        stats.sample_s += drawn - masked
        stats.programs_s += perf_counter() - drawn
        return True
