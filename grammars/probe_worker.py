"""The worker of `probe`: compiles what it is given, and says whether it could.

Run as `python -m grammars.probe_worker`. One thread compiles, another reads: so it ends as soon as
its input does, whatever it is at.
"""

from __future__ import annotations

import gc
import os
import pathlib
import pickle
import sys
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from grammars.budget import Limits
from grammars.compiler import Compiler
from grammars.constraint import Constraint
from grammars.errors import CompileBudgetError, GrammarError
from grammars.probe import answer_of, read_frame, write_frame
from grammars.vocabulary import Vocabulary


def main() -> None:
    """Answers requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    setup = pickle.loads(requests.get())  # noqa: S301 - its parent wrote it
    tokens, eos_token_ids, limits, max_memory = setup
    vocabulary = Vocabulary(tokens, eos_token_ids=eos_token_ids)
    _limit_memory(max_memory)
    max_steps, max_seconds, max_bytes = limits
    while True:
        compiler = Compiler(
            vocabulary, max_steps=max_steps, max_seconds=max_seconds, max_bytes=max_bytes
        )
        write_frame(answers, answer_of(_try(compiler, requests.get())))
        del compiler
        gc.collect()


def _read(stream: IO[bytes], requests: SimpleQueue[bytes]) -> None:
    with suppress(EOFError):
        while True:
            requests.put(read_frame(stream))
    os._exit(0)


def _try(compiler: Compiler, request: bytes) -> Limits | GrammarError | None:
    try:
        constraint = _Unpickler(BytesIO(request)).load()
        assert isinstance(constraint, Constraint), "a request is a constraint"
        return compiler.compile(constraint).needed
    except GrammarError as error:
        return error
    except MemoryError:
        return CompileBudgetError("compiling the constraint takes more memory than its process has")
    except Exception:  # noqa: BLE001 - a fault of this package, and its parent meets it too
        return None


class _Unpickler(pickle.Unpickler):  # noqa: S301 - its parent wrote what it reads
    """Makes values of this package alone: no module of anybody else is loaded here."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "grammars":
            raise pickle.UnpicklingError(f"{module}.{name} is not of this package")
        return getattr(import_module(module), name)


def _limit_memory(max_memory: int) -> None:
    """No more than this beyond what there is, where the system can limit it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        with pathlib.Path("/proc/self/statm").open(encoding="ascii") as sizes:
            now = int(sizes.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + max_memory, hard))


if __name__ == "__main__":
    main()
