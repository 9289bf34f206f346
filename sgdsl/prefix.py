"""The text with which every run of a program begins, computed ahead: `f.cache(backend)`.

Owns how much of a program is constant, the run that leaves it in a backend's cache, and for how
long it stays there. Knows nothing of arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

from sgdsl.async_state import AsyncProgramState
from sgdsl.backends.base import Backend
from sgdsl.context import Caller, caller
from sgdsl.errors import BackendError
from sgdsl.expressions import Hole
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Gen, Node, RoleBegin, RoleEnd, Sampling, Text
from sgdsl.recorder import Recorder
from sgdsl.run import Run
from sgdsl.state import ProgramState
from sgdsl.tracer import HoleReader, finish_at_once

_MARK = "\ufdd0sgdsl\ufdd1"
"""Stands where an argument's value would. Of code points that Unicode gives to nobody's text."""


def unknown(name: str) -> Hole:
    """The value of an argument that a prefix ends at."""
    return Hole(f"argument {name!r}", _MARK)


class _MarkReader(HoleReader):
    """Whatever is read ends the prefix where it is written."""

    __slots__ = ()

    def variable(self, branch_id: int, name: str | int) -> Hole:
        super().variable(branch_id, name)
        return Hole(f"variable {name!r}", _MARK)

    def text(self, branch_id: int) -> Hole:  # noqa: ARG002 - a `Reader`
        return Hole("text()", _MARK)


def literal_prefix(call: Callable[[Any], Any], *, asynchronous: bool) -> list[Node]:
    """The nodes of text and roles that `call` (a body with its arguments, those that are not known
    as holes of `unknown`) writes in any case, before it generates or branches.
    """
    recorder = Recorder()
    before = caller.set(Caller(None, DEFAULT_SAMPLING, 0))
    reader = _MarkReader(recorder)
    try:
        if asynchronous:
            finish_at_once(call)(AsyncProgramState(recorder, reader))
        else:
            call(ProgramState(recorder, reader))
    except Exception:  # noqa: BLE001, S110 - it needs a value: what it wrote before is constant
        pass
    finally:
        caller.reset(before)
    return list(_constant(recorder.nodes))


def _constant(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        match node:
            case Text(text=text) if _MARK in text:
                if known := text.split(_MARK)[0]:
                    yield replace(node, text=known)
                return
            case Text() | RoleBegin() | RoleEnd() if node.branch == ROOT:
                yield node
            case _:
                return


class CachedPrefix:
    """The beginning of a program, kept by the backends that have computed it until it is released.
    As a context manager it is released at the end of the block.
    """

    def __init__(self, runs: Iterable[tuple[Backend, Run]]) -> None:
        # A backend is not kept alive: one that nobody refers to any more is closed.
        self._held = [(weakref.ref(backend), run) for backend, run in runs]

    def release(self) -> None:
        """The pages may be evicted again; twice is fine."""
        held, self._held = self._held, []
        for backend, run in held:
            unpin = getattr(backend(), "unpin", None)
            if unpin is not None:
                unpin(run)

    def is_held_by(self, backend: Backend) -> bool:
        """Whether any of it is there, or on one that it hands runs on to."""
        theirs = _backends_of(backend).values()
        return any(kept() is each for kept, _ in self._held for each in theirs)

    @property
    def is_released(self) -> bool:
        return not self._held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _backends_of(backend: Backend) -> Mapping[str, Backend]:
    named: Mapping[str, Backend] = getattr(backend, "prefix_backends", {"": backend})
    return named


def compute_prefix(
    nodes: list[Node], backend: Backend, *, cache_salt: str | None, pins: bool
) -> CachedPrefix:
    """Have the backend compute these nodes, or each one that it hands runs on to; returns when all
    have. `pins`: they are to keep it. Raises what it fails with; of several, that some have failed,
    and which; then nothing is pinned.

    One token is drawn behind them, and thrown away: a backend computes what it draws from.
    """
    if not nodes:
        return CachedPrefix(())
    named = _backends_of(backend)
    begin = partial(_begin, nodes, cache_salt=cache_salt, pins=pins)
    runs = {name: begin(each) for name, each in named.items()}
    for run in runs.values():
        run.wait()
    kept = CachedPrefix((named[name], run) for name, run in runs.items() if pins)
    failed = {name: error for name, run in runs.items() if (error := run.error_of(ROOT))}
    if not failed:
        return kept
    kept.release()
    if len(runs) == 1:
        for error in failed.values():
            raise error.with_traceback(None)
    said = "; ".join(f"{name}: {error}" for name, error in failed.items())
    others = ", ".join(runs.keys() - failed.keys()) or "none"
    raise BackendError(f"the beginning is cached on {others}, and failed on {said}") from next(
        iter(failed.values())
    )


def _begin(nodes: list[Node], backend: Backend, *, cache_salt: str | None, pins: bool) -> Run:
    run = Run(
        template=backend.chat_template,
        defaults=DEFAULT_SAMPLING,
        seed=0,
        cache_salt=cache_salt,
        pins=pins and hasattr(backend, "unpin"),
        keeps_nodes=getattr(backend, "passes_nodes_on", False),
    )
    one_token = Sampling(max_tokens=1, temperature=0.0, healing=False)
    run.extend([*nodes, Gen(nodes[-1].id + 1, ROOT, None, None, one_token)])
    run.close()
    backend.submit(run)
    return run
