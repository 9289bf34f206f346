"""A job: every row of the input through a program, and what became of each in the journal.

Owns how rows go through the backend and how a job ends: when all are done, when it is asked to stop
(what is in flight is finished first), or when the backend is gone. Knows nothing of files of rows,
nor of what is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from runtime.jobs.asked import Asked
from runtime.jobs.entry import Entry, Status
from runtime.jobs.faults import cause_of, code_of, is_of_backend
from runtime.jobs.feed import Feed, Flight
from runtime.jobs.journal import SYNC_S, Journal, JournalError
from runtime.jobs.row import key_of
from sgdsl.backends.base import Backend
from sgdsl.errors import BackendError
from sgdsl.seeds import derive_seed
from sgdsl.state import ProgramState

MAX_BACKEND_FAULTS = 8
"""Rows that fail by the backend's fault, one after another: then it is gone, and the job ends."""


class BackendGoneError(BackendError):
    """The backend fails every row. Rows that it failed are not done; the others are safe."""


@dataclass(slots=True)
class Progress:
    """What a job has done since it began, for whoever looks at it meanwhile."""

    began: float = field(default_factory=monotonic)
    num_done: int = 0
    """Rows whose entries were written in this run."""
    num_failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    is_stopping: bool = False


class Job:
    """One run of it."""

    def __init__(
        self,
        asked: Asked,
        feed: Feed,
        journal: Journal,
        backend: Backend,
        *,
        seed: int,
        row_timeout_s: float | None = None,
    ) -> None:
        self.progress = Progress()
        self._asked = asked
        self._feed = feed
        self._journal = journal
        self._backend = backend
        self._seed = seed
        self._row_timeout_s = row_timeout_s
        self._held: list[tuple[int, Flight, Entry]] = []  # failed by the backend, by rows started
        self._num_faults = 0  # of the backend, one after another
        self._gone: BackendGoneError | None = None

    def stop(self) -> None:
        """Start no more rows; `run` returns when those in flight have ended."""
        self.progress.is_stopping = True
        self._feed.stop()

    def run(self) -> None:
        """Raises JournalError, BackendGoneError, and what the input raises: whatever is done by
        then is in the journal.
        """
        states = self._asked.program.run_batch(
            self._feed.arguments(),
            as_completed=True,
            backend=self._backend,
            row_seed=self._row_seed,
            row_timeout_s=self._row_timeout_s,
        )
        with self._synced():
            for index, state in states:
                self._land(index, self._feed.land(index), state)
            if self._gone is not None:
                raise self._gone
            self._release(self._feed.num_started)

    def _row_seed(self, row: Mapping[str, Any]) -> int:
        """Of its arguments alone: not of its place, its neighbours, or when it is computed."""
        return derive_seed(self._seed, int(key_of(row)[:16], 16))

    def _land(self, index: int, flight: Flight, state: ProgramState[Any]) -> None:
        """index: how many rows had started before it."""
        outcome = state.outcome
        assert outcome is not None, "a row of a batch has ended"
        error = outcome.error
        if error is not None and self._feed.is_stopped and code_of(error) == "cancelled":
            return  # it was not its turn any more
        entry = self._entry(flight, state, outcome.status, error)
        if error is not None and is_of_backend(error):
            self._hold(flight, entry, error)
            return
        self._num_faults = 0
        if self._gone is None:
            self._release(index)
        self._write(flight, entry)

    def _hold(self, flight: Flight, entry: Entry, error: BaseException) -> None:
        """Until it is known whether the backend is there: a row that starts after this one has
        failed, and ends well, shows it. If it is gone, what is in flight still ends.
        """
        self._held.append((self._feed.num_started, flight, entry))
        self._num_faults += 1
        if self._num_faults == MAX_BACKEND_FAULTS and self._gone is None:
            self._gone = BackendGoneError(
                f"the last {self._num_faults} rows failed by the backend's fault: "
                f"{cause_of(error)}; they are not done, and all others are safe: run the same job "
                "again when it is back"
            )
            self._feed.stop()

    def _release(self, index: int) -> None:
        """The backend was there for the row that started as this one: what it has failed before, it
        has failed.
        """
        held, self._held = self._held, []
        for num_started, flight, entry in held:
            if num_started <= index:
                self._write(flight, entry)
            else:
                self._held.append((num_started, flight, entry))

    def _write(self, flight: Flight, entry: Entry) -> None:
        self._feed.write(flight, entry)
        progress = self.progress
        progress.num_done += 1 + len(flight.equals)
        progress.num_failed += 0 if entry.is_done else 1 + len(flight.equals)
        progress.prompt_tokens += entry.prompt_tokens
        progress.cached_tokens += entry.cached_tokens
        progress.completion_tokens += entry.completion_tokens

    def _entry(
        self, flight: Flight, state: ProgramState[Any], status: Status, error: BaseException | None
    ) -> Entry:
        output = None
        if error is None:
            try:
                output = self._asked.output(state)
            except Exception as fault:  # noqa: BLE001 - whatever a user's value does, it is this row's
                status, error = "failed", fault
        nodes = state.explain().nodes
        return Entry(
            row=flight.row.number,
            key=flight.key,
            status=status,
            code=None if error is None else code_of(error),
            message=None if error is None else str(error),
            attempts=flight.attempts,
            output=output,
            prompt_tokens=sum(node.prompt_tokens or 0 for node in nodes),
            cached_tokens=sum(node.cached_tokens or 0 for node in nodes),
            completion_tokens=sum(node.completion_tokens or 0 for node in nodes),
            latency_s=round(sum(node.seconds or 0.0 for node in nodes), 4),
            columns=self._feed.columns_of(flight.row),
        )

    @contextmanager
    def _synced(self) -> Iterator[None]:
        """Lines are on disk soon, also while no row ends."""
        ended = threading.Event()

        def tick() -> None:
            # What cannot be written is said again by the next one who writes.
            while not ended.wait(SYNC_S):
                with suppress(JournalError), self._feed.lock:
                    self._journal.tick()

        thread = threading.Thread(target=tick, name="sgdsl-journal", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with self._feed.lock:
                self._journal.sync()


def model_of(backend: Backend) -> str:
    """What tells the backend's model from others: of one of this process a digest of its files, of
    a provider its name there.
    """
    tell = getattr(backend, "model_identity", None)
    if tell is not None:
        return str(tell())
    return f"{type(backend).__name__} {getattr(backend, 'model', '')}".strip()
