"""The forks of a run that have failed, and whether the run has to end for one of them.

Owns that decision. A fork's failure is decided by the join that takes the fork over: it is
collected there, or it is the failure of the joining branch too. Until that join is written it
waits, while the other branches go on. What nobody joins fails the run, once the program is over.
Knows nothing of what the nodes of a branch do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set as AbstractSet
from typing import Generic, Protocol, TypeVar

from sgdsl.errors import ProgramError
from sgdsl.graph import Collect, Fork, Join, Node, may_define


class Failing(Protocol):
    """What a failure asks of a branch. `kept`: of one that has failed, the variables it had."""

    id: int
    parent_id: int | None
    joined: bool
    queue: deque[Node]
    partial: str
    error: ProgramError | None
    kept: AbstractSet[str]

    def fail(self, error: ProgramError) -> None: ...


B = TypeVar("B", bound=Failing)


class Failures(Generic[B]):
    """`branches` are those of the run, by id; `spawn` adds one that its parent forks."""

    __slots__ = ("_branches", "_spawn", "_waiting")

    def __init__(self, branches: dict[int, B], spawn: Callable[[int, B], B]) -> None:
        self._branches = branches
        self._spawn = spawn
        self._waiting: list[B] = []

    def begin(self, branch: B, error: ProgramError) -> None:
        error.partial = error.partial or branch.partial
        self._end(branch, error)
        self._waiting.append(branch)

    def end_run(self, *, closed: bool) -> ProgramError | None:
        """The first failure that the run has to end for. `closed`: no join will be written."""
        if not self._waiting:
            return None
        waiting, self._waiting = self._waiting, []
        for branch in waiting:
            if (error := self._decide(branch, closed=closed)) is not None:
                return error
        return None

    def drop(self, branch: B, node: Node) -> None:
        """The program writes on, on a branch that has failed."""
        branch.kept = {name for name in branch.kept if not may_define(node, name)}
        if isinstance(node, Fork):
            self._never_begin(branch, node)

    def _decide(self, branch: B, *, closed: bool) -> ProgramError | None:
        while branch.parent_id is not None:
            parent = self._branches[branch.parent_id]
            if parent.error is not None:  # that is decided on its own
                return None
            join = _join_of(parent, branch.id)
            if join is None:
                if closed:
                    return branch.error
                self._waiting.append(branch)
                return None
            if isinstance(join, Join) and join.collect is not None:
                return None
            assert branch.error is not None, "a branch that has failed has its error"
            self._end(parent, branch.error)
            branch = parent
        return branch.error

    def _end(self, branch: B, error: ProgramError) -> None:
        forks = [node for node in branch.queue if isinstance(node, Fork)]
        branch.fail(error)
        for fork in forks:
            self._never_begin(branch, fork)
        for child in list(self._branches.values()):
            if child.parent_id == branch.id and not child.joined and child.error is None:
                self._end(child, error)

    def _never_begin(self, parent: B, fork: Fork) -> None:
        assert parent.error is not None, "only what has failed forks branches that never begin"
        for child_id in fork.children:
            self._end(self._spawn(child_id, parent), parent.error)


def _join_of(parent: Failing, child_id: int) -> Join | Collect | None:
    """The node that will take the child over, as far as there is one yet."""
    for node in parent.queue:
        if isinstance(node, Join | Collect) and child_id in node.children:
            return node
    return None
