"""The journal: one line for every finished row, and the truth about a job.

Owns the file: its header, who may write it, what is synced when, and what is left of it after a
crash. It is append-only: of several lines about a row the last one counts. Who writes it holds a
lock, which ends with the process.

A line is on disk as a whole or, if it is the last one, torn: then it is as if it had never been
written. Of a process that is killed every line stays; of a machine that goes down, those synced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BufferedRandom
from pathlib import Path
from time import monotonic
from typing import Any

from filelock import FileLock, Timeout

from runtime.jobs.entry import Entry
from runtime.jobs.ledger import Ledger
from sgdsl.errors import SgdslError, UsageError

FORMAT = 1
"""Of the lines; another one is refused."""

SYNC_ROWS, SYNC_S = 256, 1.0
"""Lines, and seconds, after which what was written is on disk."""


class JournalError(SgdslError):
    """The journal cannot be written: the disk is full, or gone. What it has stays."""


def journal_of(output: Path) -> Path:
    """Where the journal of a job with this output is."""
    return output.with_name(output.name + ".journal")


class Journal:
    """That of one job, from `open` to `close`, by one thread at a time."""

    def __init__(self, path: Path, file: BufferedRandom, lock: FileLock, ledger: Ledger) -> None:
        self.path = path
        self.ledger = ledger
        self._file = file
        self._lock = lock
        self._end = file.seek(0, os.SEEK_END)
        self._num_unsynced = 0
        self._synced = monotonic()
        self._fault: JournalError | None = None

    @classmethod
    def open(cls, path: Path, fingerprint: Mapping[str, str], *, force: bool = False) -> Journal:
        """The journal there, or a new one. `fingerprint`: all that outputs depend on, by name.

        Raises UsageError if another process writes it, if it is of another job (unless `force`:
        what it has then stays as it is), and where it is damaged.
        """
        lock = FileLock(f"{path}.lock", timeout=0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise UsageError(
                f"{path} is being written by another process; wait for it, or give another output"
            ) from None
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        try:
            file = path.open("r+b" if path.exists() else "w+b")
            try:
                ledger = _begin(path, file, fingerprint, force=force)
                return cls(path, file, lock, ledger)
            except BaseException:
                file.close()
                raise
        except OSError as error:
            lock.release()
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        except BaseException:
            lock.release()
            raise

    def write(self, entry: Entry) -> None:
        """Raises JournalError if there is no room for it: then the row is not done."""
        line = entry.line()
        self._attempt(lambda: self._file.seek(self._end))
        self._attempt(lambda: self._file.write(line))
        self._attempt(self._file.flush)  # with the system: it outlives this process
        status = entry.status
        if entry.same_as is not None:
            found = self.ledger.status(entry.same_as)
            assert found is not None, "a row equals one that is done"
            status = found
        self.ledger.note(
            entry.row, entry.key, status, place=self._end, same=entry.same_as is not None
        )
        self._end += len(line)
        self._num_unsynced += 1
        if self._num_unsynced >= SYNC_ROWS:
            self.sync()

    def tick(self) -> None:
        """Sync if it is time."""
        if self._num_unsynced and monotonic() - self._synced >= SYNC_S:
            self.sync()

    def sync(self) -> None:
        """What was written is on disk."""
        self._attempt(self._file.flush)
        self._attempt(lambda: os.fsync(self._file.fileno()))
        self._num_unsynced = 0
        self._synced = monotonic()

    def _attempt(self, call: Callable[[], object]) -> None:
        """What could not be written once may be lost: nothing is written after it."""
        if self._fault is not None:
            raise self._fault
        try:
            call()
        except OSError as error:
            self._fault = _unwritable(self.path, error)
            raise self._fault from error

    def entry(self, row: int) -> Entry | None:
        """What became of the row; of one that equals another, what became of that."""
        place = self.ledger.place(row)
        if place is None:
            return None
        self._attempt(lambda: self._file.seek(place))
        entry = Entry.from_line(self._file.readline())
        if entry.same_as is None:
            return entry
        first = self.entry(entry.same_as)
        assert first is not None, "a row equals one that is done"
        return replace(first, columns=entry.columns)

    def close(self) -> None:
        """Sync, and let others write it. Closing twice is fine."""
        if self._file.closed:
            return
        try:
            self.sync()
        finally:
            with suppress(OSError):  # the same that `sync` has told of
                self._file.close()
            self._lock.release()


def read_header(path: Path) -> dict[str, Any]:
    """Raises UsageError if there is no journal."""
    try:
        with path.open("rb") as file:
            return _header(path, file.readline())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _begin(
    path: Path, file: BufferedRandom, fingerprint: Mapping[str, str], *, force: bool
) -> Ledger:
    ledger = Ledger()
    first = file.readline()
    if not first.endswith(b"\n"):  # nothing, or a header that was torn
        file.seek(0)
        file.truncate()
        header = {"sgdsl_journal": FORMAT, "fingerprint": dict(fingerprint)}
        file.write(json.dumps(header, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
        _sync_folder(path.parent)
        return ledger
    _check(path, _header(path, first)["fingerprint"], fingerprint, force=force)
    end = read_entries(path, file, lambda entry, place: _note(ledger, entry, place))
    file.truncate(end)
    return ledger


def read_entries(path: Path, file: Any, take: Callable[[Entry, int], None]) -> int:
    """Calls `take` with each entry and its place, from where the file stands; returns where the
    last whole line ends. Raises UsageError for a line that no job wrote.
    """
    place: int = file.tell()
    for number, line in enumerate(iter(file.readline, b""), start=2):
        if not line.endswith(b"\n"):
            break  # torn: the process ended while it was written
        try:
            take(Entry.from_line(line), place)
        except (ValueError, TypeError) as error:
            if not file.readline():
                break  # of the last lines, a crash of the machine may leave anything
            raise UsageError(
                f"line {number} of {path} is damaged ({error}); delete that line to have its row "
                "computed again"
            ) from None
        place += len(line)
    return place


def _note(ledger: Ledger, entry: Entry, place: int) -> None:
    status = entry.status
    if entry.same_as is not None:
        found = ledger.status(entry.same_as)
        if found is None:
            raise ValueError(f"row {entry.row} equals row {entry.same_as}, which is not there")
        status = found
    ledger.note(entry.row, entry.key, status, place=place, same=entry.same_as is not None)


def _header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
        known = header["sgdsl_journal"] == FORMAT and isinstance(header["fingerprint"], dict)
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is no journal of a job; give another output") from None
    if not known:
        raise UsageError(
            f"{path} is a journal in another format than {FORMAT}; give another output"
        )
    found: dict[str, Any] = header
    return found


def _check(path: Path, found: Mapping[str, str], wanted: Mapping[str, str], *, force: bool) -> None:
    changed = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    if changed and not force:
        raise UsageError(
            f"{path} is of a job with another {', another '.join(changed)}: rows would not fit "
            "together; give another output, delete the journal, or say force to go on all the same"
        )


def _sync_folder(folder: Path) -> None:
    """So that the file's name is on disk, too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _unwritable(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"{path} cannot be written: {error.strerror}; what it has is safe: make room, and run the "
        "same job again"
    )
