"""What a running body appends, on its way to the backend.

Owns the order, the ids and the check of the nodes of one run, and the moment at which they are
submitted: at a read, or at the end. Knows nothing of what the nodes will mean.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from sgdsl.backends.base import Backend
from sgdsl.checks import Condition
from sgdsl.errors import BackendError, CancelledError, UsageError, told
from sgdsl.expressions import Part
from sgdsl.graph import Check, Fork, Gen, Join, Node, may_define
from sgdsl.run import Run
from sgdsl.shape import Shape
from sgdsl.source import Source, user_source

FINISHED = (
    "the program has returned, nothing can be appended any more; append inside of its body, "
    "or start another run"
)

_NO_NODES: list[Node] = []
_CLOSED = threading.RLock()
"""What all recorders have that take no more: nobody writes to these."""


class Recorder:
    """Thread-safe, since a body may fill its forks from threads of its own.

    Without a run it only collects: that is what a trace does.
    """

    __slots__ = (
        "_backend",
        "_closed",
        "_conditions",
        "_lock",
        "_next_branch",
        "_run",
        "_shape",
        "_started",
        "nodes",
    )

    def __init__(self, run: Run | None = None, backend: Backend | None = None) -> None:
        assert (run is None) == (backend is None), "a run is recorded for a backend"
        self._run = run
        self._backend = backend
        self._lock = threading.RLock()  # `fork` and `join` write under it
        self._shape: Shape | None = Shape()
        self._next_branch = 1
        self._started = False
        self._conditions: dict[int, tuple[int, tuple[Condition, ...]]] = {}
        """Of a branch, the id of the gen that was checked last, and what was asked of it."""
        self._closed: str | None = None
        self.nodes: list[Node] = []
        """Those not yet submitted (of a trace: all)."""

    @classmethod
    def refusing(cls, reason: str) -> Recorder:
        """A recorder that takes nothing, for a state that can only be read."""
        recorder = cls()
        recorder._closed = reason
        return recorder

    def write(self, branch: int, parts: Sequence[Part], *, source: Source | None = None) -> None:
        """Append to a branch: all parts, or none if one of them cannot stand there. `source`: the
        line that writes them, if it is not that of the caller.
        """
        with self._lock:
            shape = self._open_shape()
            source = source or user_source()
            nodes = [part(id_, branch, source) for id_, part in enumerate(parts, shape.next_id)]
            shape.admit_all(nodes)
            self.nodes += nodes

    def fork(self, branch: int, size: int) -> tuple[int, ...]:
        """Open `size` branches; returns their ids."""
        with self._lock:
            children = tuple(range(self._next_branch, self._next_branch + size))
            self.write(branch, (partial(Fork, children=children),))
            self._next_branch += size
            return children

    def join(self, branch: int, children: tuple[int, ...], mode: str, on_error: str) -> None:
        with self._lock:
            names = self._open_shape().new_names(children) if on_error == "collect" else None
            self.write(branch, (partial(Join, children=children, mode=mode, collect=names),))

    def check(
        self, branch: int, condition: Condition, *, name: str | None, retries: int
    ) -> tuple[Check, list[Condition]]:
        """Write a check; returns its node, and all that was asked of its gen, this at last. It must
        hold together of whatever is written in the end.
        """
        with self._lock:
            own = self._open_shape().last_gen(branch)
            shown = own if name is None and isinstance(own, str) else name
            self.write(branch, (partial(Check, name=shown, retries=retries),))
            node = self.nodes[-1]
            assert isinstance(node, Check), "it was written just now"
            gen, key = self._open_shape().checked(node, shown)
            of_gen, asked = self._conditions.get(branch, (gen, ()))
            asked = (*(asked if of_gen == gen else ()), condition.of(key))
            self._conditions[branch] = (gen, asked)
            return node, list(asked)

    def rewind(self, check: Check, attempt: int) -> None:
        """Have the last gen written again, as its check asks for."""
        again = partial(Check, name=check.name, retries=check.retries, attempt=attempt)
        self.write(check.branch, (again,))

    @property
    def is_trace(self) -> bool:
        """Whether nothing that is written will ever be carried out."""
        return self._run is None

    def defines(self, branch: int, name: str | int) -> bool:
        """Whether what was written so far defines the variable (an int: the unnamed one there)."""
        with self._lock:
            return self._open_shape().defines(branch, name)

    def defined(self, branch: int) -> tuple[list[str], int]:
        """The variables of what was written so far, and how many gens have no name."""
        with self._lock:
            return self._open_shape().defined(branch)

    def pends(self, branch: int, name: str | int | None) -> bool:
        """Whether something that is not submitted yet may define the variable (None: is there)."""
        with self._lock:
            return any(
                node.branch == branch
                and (name is None or isinstance(name, int) or may_define(node, name))
                for node in self.nodes
            )

    @property
    def is_constrained(self) -> bool:
        """Something that is not submitted yet has a constraint, which a backend will compile."""
        with self._lock:
            return any(isinstance(node, Gen) and node.constraint is not None for node in self.nodes)

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def flush(self) -> None:
        """Submit what was written so far: the graph break."""
        with self._lock:
            if self._run is None or not self.nodes:
                return
            nodes, self.nodes = self.nodes, []
            self._run.extend(nodes)
            self._tell()

    def close(self, value: object) -> None:
        """The body returned `value`: submit the rest."""
        with self._lock:
            assert self._run is not None, "only a run is closed"
            self._run.extend(self.nodes)
            self._run.close(value)
            self._end()
            self._tell()

    def wake(self) -> None:
        """Have the backend look at the run again, if it has it."""
        if self._started:
            self._tell()

    def abandon(self, error: BaseException, source: Source | None = None) -> None:
        """The body raised `error` at `source`, and with it the run ends."""
        with self._lock:
            assert self._run is not None, "only a run is abandoned"
            self._run.abandon(error, source)
            self._end()
            self.wake()

    def _end(self) -> None:
        self._closed = FINISHED
        self._shape = None
        self._conditions.clear()
        self.nodes, self._lock = _NO_NODES, _CLOSED

    def _tell(self) -> None:
        assert self._run is not None and self._backend is not None, "a run has a backend"
        if self._run.cancelled and not self._started:
            self._run.finish_cancelled("cancelled before it was submitted")
            return
        try:
            if not self._started:
                self._backend.submit(self._run)
                self._started = True
                if not self._run.cancelled:  # a cancellation meanwhile woke nobody
                    return
            self._backend.wake(self._run)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a broken backend must not leave a run waiting
            failure = BackendError(f"the backend failed to take the run: {told(error)}")
            failure.__cause__ = error
            self._run.fail(failure)

    def _open_shape(self) -> Shape:
        if self._run is not None and (self._run.cancelled or self._run.outcome is not None):
            self._refuse_ended(self._run)
        if self._shape is None or self._closed is not None:
            raise UsageError(self._closed or FINISHED)
        return self._shape

    @staticmethod
    def _refuse_ended(run: Run) -> NoReturn:
        outcome = run.outcome
        if outcome is not None and outcome.error is not None:
            raise outcome.error.with_traceback(None)
        if outcome is None:
            raise CancelledError("the run was cancelled; its body should return")
        raise UsageError(FINISHED)
