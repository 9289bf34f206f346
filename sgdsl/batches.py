"""What may be given to a batch, and which kind of batch it makes.

Owns the arguments that `run_batch`, `arun_batch` and `astream_batch` share, and their check. Knows
nothing of programs: a row is started by whoever has them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from sgdsl.arguments import RunArguments, did_you_mean, refuse, timeout_from
from sgdsl.async_batch import AsyncBatch
from sgdsl.backends.base import Backend
from sgdsl.batch import Batch
from sgdsl.context import (
    backend_for,
    cache_salt_for,
    priority_for,
    sampling_for,
    seed_for,
)
from sgdsl.conversation import Starts, starts_of
from sgdsl.errors import UsageError
from sgdsl.execution import Execution
from sgdsl.flights import AUTO_THREADS, Limits, OnError
from sgdsl.loop_batch import LoopBatch, ThreadBatch
from sgdsl.parameters import BatchRow
from sgdsl.progress import Progress
from sgdsl.row_order import row_order
from sgdsl.seeds import derive_seed
from sgdsl.state import ProgramState

AHEAD = 4
"""Times `max_in_flight`: how far results may run ahead of who takes them one by one."""

State = ProgramState[Any]


class BatchArguments(RunArguments, total=False):
    """What a batch takes besides its rows."""

    backend: Backend | None
    num_threads: int | Literal["auto"]
    progress_bar: bool
    on_error: OnError
    timeout_s: float | None
    row_timeout_s: float | None
    messages: Sequence[Any] | None
    row_seed: Callable[[Any], int] | None


_NAMES = frozenset(BatchArguments.__annotations__)


def _refuse_unknown(where: str, given: Mapping[str, Any]) -> None:
    if unknown := sorted(given.keys() - _NAMES):
        hint = did_you_mean(unknown[0], _NAMES)
        raise UsageError(
            f"{where}: no arguments {unknown}; there are {sorted(_NAMES)}{hint}; those of the "
            "program stand in the rows, or are given with bind(...)"
        )


def _row_seed_from(where: str, given: object, seed: int | None) -> Callable[[BatchRow], int] | None:
    if given is None:
        return None
    if not callable(given):
        refuse(where, "row_seed", given, "a function of a row that returns its seed")
    if seed is not None:
        refuse(where, "row_seed", given, "left out beside seed: both say what a row's seed is")
    row_seed: Callable[[BatchRow], int] = given
    return row_seed


class Waiting(Protocol):
    """A batch for a caller who waits."""

    def collect(self) -> list[State]: ...
    def in_order(self) -> Iterator[State]: ...
    def as_completed(self) -> Iterator[tuple[int, State]]: ...


class Awaiting(Protocol):
    """A batch for a task that awaits."""

    async def collect(self) -> list[State]: ...
    def in_order(self) -> AsyncIterator[State]: ...
    def as_completed(self) -> AsyncIterator[tuple[int, State]]: ...


class StartRow(Protocol):
    """Makes the execution of a row. `starts`: from what conversation each row goes on."""

    def __call__(self, index: int, row: BatchRow, *, seed: int, starts: Starts) -> Execution: ...


class Plan:
    """The checked arguments of a batch; raises `UsageError` for those that cannot work. `lazy`: the
    rows are read only as far as they are needed. Others start in an order in which equal arguments
    follow each other; `parameters` are the names of positional ones.
    """

    def __init__(
        self,
        where: str,
        batch: Iterable[BatchRow],
        given: Mapping[str, Any],
        *,
        lazy: bool,
        parameters: Sequence[str],
    ) -> None:
        options = dict(given)
        _refuse_unknown(where, options)
        self.backend = backend_for(options.pop("backend", None))
        threads = options.pop("num_threads", "auto")
        self._progress_bar = bool(options.pop("progress_bar", False))
        self._on_error: OnError = options.pop("on_error", "collect")
        limits = {
            name: timeout_from(where, name, options.pop(name, None))
            for name in ("timeout_s", "row_timeout_s")
        }
        if threads != "auto" and (
            not isinstance(threads, int) or isinstance(threads, bool) or threads < 1
        ):
            refuse(where, "num_threads", threads, '"auto" or a whole number, at least 1')
        if self._on_error not in {"collect", "raise"}:
            refuse(where, "on_error", self._on_error, '"collect" or "raise"')
        rows: object = batch
        if isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
            refuse(where, "batch", batch, "an iterable of rows, each a dict or a tuple")
        self.rows = batch if lazy else list(batch)
        self._parameters = parameters
        self._lazy = lazy
        self._starts = starts_of(where, options.pop("messages", None), self.rows)
        row_seed = options.pop("row_seed", None)
        said = {name: value for name, value in options.items() if value is not None}
        self.sampling = sampling_for(where, said)
        self.priority = priority_for(said.get("priority"), where)
        self.cache_salt = cache_salt_for(said.get("cache_salt"), where)
        self._row_seed = _row_seed_from(where, row_seed, said.get("seed"))
        self._seed = seed_for(said.get("seed"), where)
        in_flight = max(1, self.backend.max_in_flight)
        self._limits = Limits(
            in_flight=in_flight,
            threads=min(in_flight, AUTO_THREADS) if threads == "auto" else threads,
            ahead=AHEAD * in_flight if lazy else None,
            sized=isinstance(self.rows, Sequence),
            **limits,
        )

    def waiting(self, start: StartRow, *, is_async: bool) -> Waiting:
        """`is_async`: the bodies are coroutines."""
        return LoopBatch(self._on_loop(start)) if is_async else self._on_threads(start)

    def awaiting(self, start: StartRow, *, is_async: bool) -> Awaiting:
        return self._on_loop(start) if is_async else ThreadBatch(self._on_threads(start))

    def _on_threads(self, start: StartRow) -> Batch[BatchRow]:
        return Batch(
            self._numbered(),
            self._start(start),
            limits=self._limits,
            on_error=self._on_error,
            progress=self._progress(),
        )

    def _on_loop(self, start: StartRow) -> AsyncBatch[BatchRow]:
        return AsyncBatch(
            self._numbered(),
            self._start(start),
            limits=self._limits,
            on_error=self._on_error,
            progress=self._progress(),
        )

    def _start(self, start: StartRow) -> Callable[[int, BatchRow], Execution]:
        seed, starts, row_seed = self._seed, self._starts, self._row_seed

        def start_row(index: int, row: BatchRow) -> Execution:
            own = derive_seed(seed, index) if row_seed is None else row_seed(row)
            return start(index, row, seed=own, starts=starts)

        return start_row

    def _numbered(self) -> Iterator[tuple[int, BatchRow]]:
        """The rows with their indices, in the order in which they start."""
        if self._lazy or not isinstance(self.rows, Sequence):
            return enumerate(self.rows)
        order = row_order(self.rows, self._parameters)
        return zip(order, map(self.rows.__getitem__, order), strict=True)  # Ctrl-C ends no such

    def _progress(self) -> Progress:
        total = len(self.rows) if isinstance(self.rows, Sequence) else None
        return Progress(self.backend, total=total, visible=self._progress_bar)
