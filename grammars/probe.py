"""A place to compile in that can be killed. Owns the worker process and what is said to it.

Whether a constraint compiles within its limits is tried in a process of its own, so that what hurts
there (time, memory, a crash) hurts nobody else. What passes is compiled here again: the worker's
answer is only what the compile has needed, or the error.

A request is a pickled constraint, in its portable form; an answer is JSON; each has its length in
front. A worker that
is dead, stalled or missing is an error of the constraint that was asked for, and of no other. It
ends when its parent does: then its input ends.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import weakref
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any

from grammars import errors
from grammars.budget import Limits
from grammars.constraint import Constraint
from grammars.errors import CompileBudgetError, GrammarError
from grammars.vocabulary import Vocabulary

MAX_MEMORY = 1 << 30
"""Bytes that a worker may take beyond those that it starts with: more than any budget counts, for
what is not counted."""

PATIENCE_S = 60.0
"""Seconds, by the wall, for which an answer is waited for; the budget counts the worker's own."""

_KINDS = ("GrammarError", "UnsupportedError", "EmptyLanguageError", "CompileBudgetError")


_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Nothing here is multiplied; each thread of these libraries would take address space."""


class Probe:
    """Tries constraints for `vocabulary` under `limits`, one at a time. Thread-safe.

    The worker is started when it is first needed, and again after it has died.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: Limits,
        *,
        patience_s: float = PATIENCE_S,
        max_memory: int = MAX_MEMORY,
    ) -> None:
        self._vocabulary = vocabulary
        self._limits = limits
        self._patience_s = patience_s
        self._max_memory = max_memory
        self._worker: _Worker | None = None
        self._lock = Lock()

    def check(self, constraint: Constraint) -> Limits | None:
        """What `constraint`, which compiles within the limits, has needed of them; None where that
        is not known.

        Raises what the compile raises, and CompileBudgetError when the worker does not answer.
        """
        try:
            request = _pickled(constraint)
        except RecursionError:
            raise CompileBudgetError("the constraint is nested too deep; flatten it") from None
        with self._lock:
            answer = self._ask(request)
        return _needed(answer)

    def close(self) -> None:
        """End the worker; who waits for an answer gets CompileBudgetError."""
        worker = self._worker
        if worker is not None:
            worker.end()

    @property
    def process_id(self) -> int | None:
        """The worker's, while there is one."""
        worker = self._worker
        return None if worker is None or not worker.is_alive else worker.process.pid

    def _ask(self, request: bytes) -> bytes:
        """The worker's answer; when there is none the worker is ended."""
        try:
            worker = self._worker
            if worker is None or not worker.is_alive:
                worker = self._worker = self._start()
        except OSError as error:
            raise CompileBudgetError(
                "the constraint needs more than is compiled on the spot, and the process for the "
                f"rest cannot be started: {error}"
            ) from None
        patience = Timer(self._patience_s, worker.give_up)
        patience.daemon = True
        patience.start()
        try:
            worker.write(request)
            return worker.read()
        except (OSError, EOFError):
            worker.bury()
            raise CompileBudgetError(
                f"compiling the constraint took more than {self._patience_s:g} s, and its process "
                "was killed; make it smaller"
                if worker.was_slow
                else "the process that compiled the constraint died: killed, or of more than "
                f"{self._max_memory >> 20} MiB; make it smaller"
            ) from None
        finally:
            patience.cancel()

    def _start(self) -> _Worker:
        worker = _Worker()
        vocabulary = self._vocabulary
        tokens = [vocabulary.token_bytes(index) for index in range(vocabulary.size)]
        setup = (tokens, vocabulary.eos_token_ids, tuple(self._limits), self._max_memory)
        weakref.finalize(self, worker.bury)
        worker.write(pickle.dumps(setup))
        return worker


class _Worker:
    """The process, as its parent sees it."""

    def __init__(self) -> None:
        self.was_slow = False
        root = str(Path(__file__).parents[1])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grammars.probe_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            start_new_session=True,  # a Ctrl-C is its parent's
        )
        self._owner = os.getpid()

    @property
    def is_alive(self) -> bool:
        """Whether it runs, and is this process's (after a fork it is another's)."""
        return self._owner == os.getpid() and self.process.poll() is None

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None, "its input is a pipe"
        write_frame(self.process.stdin, data)

    def read(self) -> bytes:
        assert self.process.stdout is not None, "its output is a pipe"
        return read_frame(self.process.stdout)

    def end(self) -> None:
        """Kill it, and wait until nothing of it is left. Any number of times, from any thread."""
        if self._owner != os.getpid():
            return
        self.process.kill()
        self.process.wait()

    def give_up(self) -> None:
        """End it because it took too long."""
        self.was_slow = True
        self.end()

    def bury(self) -> None:
        """End it, and close its pipes; only by who would read them."""
        self.end()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """One message, with its length in front."""
    stream.write(len(data).to_bytes(8, "big") + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """The next message; raises EOFError when there is none, or a part of one."""
    size = int.from_bytes(_exactly(stream, 8), "big")
    return _exactly(stream, size)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def answer_of(found: Limits | GrammarError | None) -> bytes:
    """What the worker says: what the compile has needed (None: not known), or what is wrong."""
    if found is None:
        return b"{}"
    if isinstance(found, Limits):
        return json.dumps({"needed": found}).encode()
    said = {"error": type(found).__name__, "message": str(found), "position": found.position}
    return json.dumps(said).encode()


def _needed(answer: bytes) -> Limits | None:
    """What an answer says was needed; raises the error that it says."""
    said = json.loads(answer)
    if "error" in said:
        kind = said["error"] if said["error"] in _KINDS else "GrammarError"
        found: GrammarError = getattr(errors, kind)(said["message"], said["position"])
        raise found
    return Limits(*said["needed"]) if said else None


class _Pickler(pickle.Pickler):
    """Writes constraints in their portable forms."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Constraint) and value.portable() is not value:
            return _itself, (value.portable(),)
        return NotImplemented


def _itself(constraint: Constraint) -> Constraint:
    """How the worker makes a portable form out of what is sent."""
    return constraint


def _pickled(constraint: Constraint) -> bytes:
    written = BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(constraint)
    return written.getvalue()
