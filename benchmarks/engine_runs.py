"""Runs an engine over the corpus in processes of its own, and says what came of each case.

A case that is refused, takes too long or ends the process is counted, and the next goes to a new
process. It must not know how an engine is asked; `engine_worker` does.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus import Case

ROOT = Path(__file__).parent.parent
PEER_PYTHON = ROOT / ".bench-venv" / "bin" / "python"
"""Of the peers' environment, which `make bench-grammars` makes."""

SETUP_SECONDS = 120

Times = list[tuple[float, float]]
"""Seconds of CPU and of the wall."""


@dataclass
class Outcome:
    """What one engine made of one case. `ended`: "done", "refused", "slow" or "crashed"."""

    case: Case
    ended: str = "done"
    reason: str = ""
    compile: tuple[float, float] | None = None
    masks: Times = field(default_factory=list)
    warm: Times = field(default_factory=list)
    accepts: Times = field(default_factory=list)
    verdicts: list[bool] = field(default_factory=list)

    @property
    def wrongly_accepted(self) -> list[str]:
        return self._wrong(accepted=True)

    @property
    def wrongly_rejected(self) -> list[str]:
        return self._wrong(accepted=False)

    def _wrong(self, *, accepted: bool) -> list[str]:
        pairs = zip(self.case.texts(), self.verdicts, strict=False)
        return [text for (text, right), found in pairs if found == accepted != right]


class EngineMissingError(Exception):
    """The engine is not installed."""


@dataclass(frozen=True)
class TokenFile:
    """A vocabulary as the engines' processes read it. `tokenizer`: the file that it comes from."""

    tokens: Sequence[bytes | None]
    stops: Sequence[int]
    tokenizer: Path | None = None


def run_engine(
    name: str, cases: Sequence[Case], texts: Sequence[list[list[int]]], vocabulary: TokenFile,
    *, seconds: float,
) -> list[Outcome]:  # fmt: skip
    """All cases in order; `texts` are the tokens of each case's texts. A compile, and all of a
    case's masks, may take `seconds` each. Raises EngineMissingError.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.json"
        tokens = [None if token is None else token.hex() for token in vocabulary.tokens]
        path.write_text(json.dumps({"tokens": tokens, "stops": list(vocabulary.stops)}))
        tokenizer = None if vocabulary.tokenizer is None else str(vocabulary.tokenizer)
        setup = {"engine": name, "vocabulary": str(path), "tokenizer": tokenizer}
        worker = _Worker(setup)
        found = []
        try:
            for case, tokenized in zip(cases, texts, strict=True):
                outcome = _run_case(worker, case, tokenized, seconds)
                found.append(outcome)
                if outcome.ended in {"slow", "crashed"}:
                    worker.end()
                    worker = _Worker(setup)
        finally:
            worker.end()
        return found


def _run_case(worker: _Worker, case: Case, tokenized: list[list[int]], seconds: float) -> Outcome:
    worker.say({"kind": case.kind, "spec": case.spec, "texts": tokenized})
    outcome = Outcome(case)
    for part in ("compile", "masks"):
        try:
            answer = worker.hear(seconds)
        except queue.Empty:
            outcome.ended, outcome.reason = "slow", f"{part} took more than {seconds:g} s"
            return outcome
        if answer is None:
            outcome.ended, outcome.reason = "crashed", f"the process ended in {part}"
            return outcome
        if "refused" in answer:
            outcome.ended, outcome.reason = "refused", answer["refused"]
            return outcome
        if part == "compile":
            outcome.compile = (answer["cpu"], answer["wall"])
        else:
            outcome.masks, outcome.warm = answer["masks"], answer["warm"]
            outcome.accepts, outcome.verdicts = answer["accepts"], answer["verdicts"]
    return outcome


class _Worker:
    """A process of `engine_worker`."""

    def __init__(self, setup: dict[str, Any]) -> None:
        python = sys.executable if setup["engine"] == "ours" else str(PEER_PYTHON)
        if not Path(python).exists():
            raise EngineMissingError("its environment is not there: make bench-grammars makes it")
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.engine_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.say(setup)
        try:
            answer = self.hear(SETUP_SECONDS)
        except queue.Empty:
            answer = None
        if answer is None or "missing" in answer:
            self.end()
            reason = "its process does not start" if answer is None else answer["missing"]
            raise EngineMissingError(reason)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def say(self, message: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; `hear` says so
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def hear(self, seconds: float) -> Any:
        """Its next answer; None when it has ended. Raises queue.Empty when none comes in time."""
        line = self._answers.get(timeout=seconds)
        return json.loads(line) if line else None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
