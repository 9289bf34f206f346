"""Has other engines answer what ours was asked, each in a process of its own environment.

Owns where those environments are, and what is said of one that is missing or fails.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.hits import Asked as Tokens
from benchmarks.peers.protocol import Asked, Job, Served, served_from
from benchmarks.requests import Request, rounds_of
from runtime.threads import SPIN_COUNT

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".bench-peers"
"""One environment for each peer, and what they made of models; `make bench-peers` fills it."""

TIMEOUT_S = 3600


PEERS = {
    "transformers": "transformers_static",
    "vllm": "vllm_cpu",
    "llama-cpp": "llama_cpp",
    "openvino": "openvino_genai",
}
"""The peers, and the module of `benchmarks.peers` that asks each."""


class PeerMissingError(Exception):
    """The peer is not installed, or its process failed; the text says which."""


def python_of(name: str) -> Path:
    """The Python that runs the peer. That of transformers is ours where it has none of its own."""
    own = FOLDER / name / "bin" / "python"
    if own.exists():
        return own
    if name == "transformers":
        return Path(sys.executable)
    raise PeerMissingError(f"{name} is not installed; make bench-peers PEERS={name} does that")


def keeps_constraints(name: str) -> bool:
    """Whether the peer can be asked for constraints: transformers alone cannot."""
    own = FOLDER / name / "bin" / "python"
    return own.exists() or importlib.util.find_spec("xgrammar") is not None


def job_of(
    runs: Sequence[list[Request]], tokens: Sequence[list[Tokens]], model: Path, *, threads: int,
    constrains: bool, options: dict[str, list[int]],
) -> Job:  # fmt: skip
    """The requests of our runs, in rounds. Without constraints every request writes exactly as much
    as ours did. `options`: the texts of choices, in tokens.
    """
    by_request = {
        id(request): own.prompt
        for run, asked in zip(runs, tokens, strict=True)
        for request, own in zip(run, asked, strict=True)
    }
    rounds = [
        [_asked(each, by_request[id(each)], constrains, options) for _, each in round_]
        for round_ in rounds_of(runs)
    ]
    return Job(str(model), str(FOLDER), threads, rounds, constrains=constrains)


def _asked(
    request: Request, prompt: Sequence[int], constrains: bool, options: dict[str, list[int]]
) -> Asked:
    if request.kind == "choices":
        own = [options[text] for text in request.spec]
        return Asked(list(prompt), 0, kind="choices", spec=request.spec, options=own)
    if request.kind == "free" or not constrains:
        exact = request.is_exact or not constrains
        length = request.max_tokens if request.is_exact else request.num_tokens
        return Asked(list(prompt), max(1, length), is_exact=exact)
    return Asked(list(prompt), request.max_tokens, kind=request.kind, spec=request.spec)


def ask_peer(name: str, job: Job) -> Served:
    """Raises PeerMissingError, with the last line that it said, when it does not answer."""
    python = python_of(name)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "job.json", Path(folder) / "answers.json"
        source.write_text(json.dumps(asdict(job)), encoding="utf-8")
        command = [str(python), "-m", f"benchmarks.peers.{PEERS[name]}"]
        # Threads wait for each other as ours do, so that a busy machine slows all down alike.
        env = {"GOMP_SPINCOUNT": str(SPIN_COUNT), **os.environ}
        env |= {"OMP_NUM_THREADS": str(job.threads), "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(
                [*command, str(source), str(target)],
                cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise PeerMissingError(f"{name} took more than {TIMEOUT_S} s") from None
        if done.returncode != 0 or not target.exists():
            said = [line for line in done.stderr.splitlines() if line.strip()]
            raise PeerMissingError(f"{name} failed: {said[-1] if said else done.returncode}")
        return served_from(json.loads(target.read_text(encoding="utf-8")))
