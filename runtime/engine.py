"""The engine: one loop that closes gaps.

Owns the order of a step. The scheduler says who computes, the executor computes, the programs say
what the tokens mean. No queue of requests, no thread: whoever owns the engine calls `step`.

What a step draws arrives at its end. Where the executor overlaps, it arrives in the next step, when
that one's forward pass has been enqueued: so the host does its work while the device does its own.
Rows go on then with tokens that nobody has seen yet, and of a row that has come to another end by
then what it draws is left.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from runtime.batch import Batch, Grant, build_batch
from runtime.cache.copies import Copy
from runtime.executor.base import Executor, Pending
from runtime.programs import Programs
from runtime.scheduler import Scheduler
from runtime.telemetry.stats import StepStats


@dataclass(frozen=True, slots=True)
class _Launched:
    """A batch whose forward pass was asked for. `scheduled`: when it was known who computes."""

    batch: Batch
    copies: List[Copy]
    hidden: Any
    scheduled: float
    copy_s: float
    compute_s: float


class Engine:
    """`overlaps`: what a step draws arrives in the next one; the executor must allow for it."""

    def __init__(
        self,
        scheduler: Scheduler,
        programs: Programs,
        executor: Executor,
        *,
        overlaps: bool = False,
    ) -> None:
        self.scheduler = scheduler
        self.programs = programs
        self.stats = StepStats()
        self._executor = executor
        self._overlaps = overlaps
        self._in_flight: tuple[Batch, Pending] | None = None

    def step(self) -> bool:
        """One turn: tokens computed, tokens drawn, programs moved on. False if all is idle. A step
        that the memory does not suffice for is as if it had never been; the next ones are smaller.
        """
        began = perf_counter()
        grants = self.scheduler.schedule()
        if not grants and self._in_flight is None:
            assert self.scheduler.num_running == 0, "whoever runs has a gap"
            assert self.scheduler.num_waiting == 0, "an idle engine lets everyone in"
            return False
        launched = self._launch(grants, began) if grants else None
        if self._overlaps:
            if launched is not None:
                # Whatever is asked for from here on is done behind this forward pass.
                self.scheduler.commit(launched.batch.grants)
            self._arrive()
        if launched is not None and self._sample(launched) and not self._overlaps:
            self._arrive(launched)
        return True

    def _launch(self, grants: List[Grant], began: float) -> _Launched | None:
        """Have the grants computed; None if the memory does not suffice."""
        stats, scheduled = self.stats, perf_counter()
        grants = self.scheduler.add_drafts(grants, self.programs.draft(grants))
        drafted = perf_counter()
        batch = build_batch(grants, self.scheduler.cache.page_size)
        built = perf_counter()
        copies = self.scheduler.take_copies()
        self._executor.copy(copies)
        copied = perf_counter()
        try:
            hidden = self._executor.forward(batch)
        except MemoryError as error:
            self._shrink(batch, error)
            return None
        computed = perf_counter()
        stats.schedule_s += scheduled - began + built - drafted
        stats.draft_s += drafted - scheduled
        stats.copy_s += copied - built
        stats.forward_s += computed - copied
        return _Launched(batch, copies, hidden, scheduled, copied - built, computed - copied)

    def _shrink(self, batch: Batch, error: MemoryError) -> None:
        """Have the next steps be smaller; raises the error if they cannot be."""
        if not self.scheduler.shrink(batch.num_tokens):
            raise error

    def _sample(self, launched: _Launched) -> bool:
        """Have the batch's tokens drawn; False if the memory does not suffice."""
        batch, stats, began = launched.batch, self.stats, perf_counter()
        try:
            request = self.programs.request(batch)
            masked = perf_counter()
            pending = self._executor.sample(launched.hidden, batch, request)
        except MemoryError as error:
            if self._overlaps:
                self.scheduler.take_back(batch.grants)
            self._shrink(batch, error)
            return False
        self._in_flight = batch, pending
        if self._overlaps:
            self.programs.foretell(batch)
        stats.mask_s += masked - began
        stats.sample_s += perf_counter() - masked
        return True

    def _arrive(self, launched: _Launched | None = None) -> None:
        """What was drawn is known now, and programs go on. `launched`: what is still to commit."""
        if self._in_flight is None:
            return
        stats, began = self.stats, perf_counter()
        (batch, pending), self._in_flight = self._in_flight, None
        sampled = pending.read()
        drawn = perf_counter()
        stats.verified_tokens += self.programs.verify(batch, sampled)
        if launched is not None:
            self._commit(launched, drawn)
        self.programs.commit(batch, sampled)
        stats.num_steps += 1
        stats.computed_tokens += batch.num_tokens
        stats.drafted_tokens += sum(len(grant.draft) for grant in batch.grants)
        stats.max_running = max(stats.max_running, self.scheduler.num_running)
        stats.sample_s += drawn - began
        stats.programs_s += perf_counter() - drawn

    def _commit(self, launched: _Launched, drawn: float) -> None:
        """The batch is computed, and it is known how long that took."""
        batch = launched.batch
        self.programs.speculation.costs.saw(
            batch.num_tokens, drawn - launched.scheduled, num_drawn=len(batch.sample_at)
        )
        self.scheduler.took(
            batch.grants,
            launched.copies,
            copy_s=launched.copy_s,
            compute_s=launched.compute_s,
        )
        self.scheduler.commit(batch.grants)
