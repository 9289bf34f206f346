"""The pure interpreter of graphs.

Owns what a node means: text, variables, messages, roles, scopes, forks and joins, several
completions of one gen, and the way back to before it. Sans-I/O: it knows no clock, thread, token or
model. A driver asks `next(branch)` what to do, does it (with tokens or with completions of a remote
API), and answers with `complete` or `choose`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from grammars import Constraint
from sgdsl.actions import (
    Action,
    Adopt,
    Append,
    Choose,
    Completion,
    Generate,
    Idle,
    Replay,
    Rewind,
    Spawn,
    Spelling,
)
from sgdsl.branch import Branch, Mark, Part, Variable
from sgdsl.chat import ChatTemplate
from sgdsl.choices import ChoiceScores, pick
from sgdsl.errors import BackendError, ProgramError
from sgdsl.failures import Failures
from sgdsl.graph import (
    ROOT,
    Check,
    Collect,
    Fork,
    Gen,
    Join,
    Node,
    Sampling,
    Select,
)
from sgdsl.joins import collected_values, join_forks
from sgdsl.pieces import Piece
from sgdsl.roles import before_model, settle
from sgdsl.seeds import derive_seed
from sgdsl.values import Lazy, gathered, typed
from sgdsl.writing import WRITERS, set_reasoning_aside

__all__ = [
    "Action",
    "Adopt",
    "Append",
    "Branch",
    "Choose",
    "Completion",
    "Generate",
    "Idle",
    "Machine",
    "Piece",
    "Replay",
    "Rewind",
    "Spawn",
    "Spelling",
]


_GOES_ON_FROM_TEXT = frozenset({Gen, Select, Fork})
_WAITS = frozenset({Join, Collect})


class Machine:
    """The branches of one run, and what each has to do next. `unread`: the typed values, in the
    order of their gens; who reads them parses them. `seed`: the run's.
    """

    __slots__ = (
        "_defaults",
        "_early",
        "_failures",
        "_num_truncated",
        "_seed",
        "_template",
        "branches",
        "closed",
        "unread",
    )

    def __init__(self, *, template: ChatTemplate, defaults: Sampling, seed: int = 0) -> None:
        self._template = template
        self._defaults = defaults
        self._seed = seed
        self.branches: dict[int, Branch] = {ROOT: Branch(ROOT)}
        self._early: dict[int, deque[Node]] = {}
        self._failures: Failures[Branch] | None = None  # made by the first: it refers to us
        self.closed = False
        self._num_truncated = 0
        self.unread: tuple[Lazy, ...] = ()

    @property
    def finished(self) -> bool:
        if not self.closed or self._early:
            return False
        for branch in self.branches.values():  # a loop, for speed: it is asked for after each step
            if branch.queue or branch.active is not None:
                return False
        return True

    @property
    def truncated(self) -> bool:
        """Whether an output that stands was cut off by its token limit."""
        return self._num_truncated > 0

    def extend(self, nodes: Iterable[Node]) -> None:
        assert not self.closed, "no node arrives after the end of the program"
        for node in nodes:
            branch = self.branches.get(node.branch)
            if branch is not None and branch.error is not None:
                assert self._failures is not None, "a branch that has failed is known there"
                self._failures.drop(branch, node)
                continue
            queue = branch.queue if branch else self._early.setdefault(node.branch, deque())
            queue.append(node)

    def pending_constraints(self) -> list[Constraint]:
        """What the nodes that are still to be carried out are constrained by."""
        return [
            node.constraint
            for node in self.waiting()
            if isinstance(node, Gen) and node.constraint is not None
        ]

    def waiting(self) -> list[Node]:
        """The nodes that are still to be carried out."""
        queues = [*(branch.queue for branch in self.branches.values()), *self._early.values()]
        return [node for queue in queues for node in queue]

    def close(self) -> None:
        """The program has returned: what is queued is all there will be."""
        self.closed = True

    def fail(self, branch_id: int, error: ProgramError) -> bool:
        """The active node of the branch has failed. Whether the run has to end for it now: not as
        long as a join may still collect it, and the other branches go on.
        """
        branch = self.branches[branch_id]
        if branch.error is None:
            if self._failures is None:
                self._failures = Failures(self.branches, self._open)
            self._failures.begin(branch, error)
        branch.active = None
        branch.partial = ""
        return self.overdue() is not None

    def overdue(self) -> ProgramError | None:
        """A failure that has waited for its join, and now has to end the run."""
        return None if self._failures is None else self._failures.end_run(closed=self.closed)

    def release(self) -> None:
        self._early.clear()
        self._failures = None
        for branch in self.branches.values():
            branch.release()

    def next(self, branch_id: int) -> Action:
        """What to do now on this branch. `Append` and `Spawn` are done when returned; `Generate`
        and `Choose` stay active until they are answered.
        """
        branch = self.branches[branch_id]
        assert branch.active is None, "one node of a branch is active at a time"
        first, moved = len(branch.pieces), False
        while branch.queue:
            node = branch.queue[0]
            kind = type(node)
            if kind in _GOES_ON_FROM_TEXT:
                self._before(branch, node)
                if len(branch.pieces) > first:
                    moved = True
                    break
            elif kind in _WAITS:
                assert isinstance(node, (Join, Collect)), "these wait for their children"
                if not self._ready(node):
                    return Append(tuple(branch.pieces[first:])) if moved else Idle.JOINING
            elif moved and isinstance(node, Check) and node.attempt:
                break
            branch.begin(node)  # a fault below is this node's
            moved = True
            if (write := WRITERS.get(kind)) is not None:
                if branch.mark is not None:
                    branch.note(node)
                write(branch, node, self._template)
                branch.active = None
            elif (action := self._act(branch, node)) is not None:
                return action
        if moved:
            return Append(tuple(branch.pieces[first:]))
        held = branch.part is not None  # until its parent has gone on from it
        over = branch.joined or branch.error is not None or (self.closed and not held)
        return Idle.FINISHED if over else Idle.PAUSED

    def _act(self, branch: Branch, node: Node) -> Action | None:
        """Begin what is more than to write; None where there is nothing to do for a driver."""
        match node:
            case Gen():
                return self._begin(branch, node)
            case Select():
                branch.mark = None
                return Choose(node)
            case Fork(children=children):
                branch.active = branch.mark = None
                self._spawn(branch, children)
                return Spawn(children)
            case Collect():
                return self._collect(branch, node)
            case Join():
                branch.mark = None
                self._join(branch, node)
                branch.active = None
                return None
            case Check(attempt=attempt):  # the program's side looks at the value
                branch.active = None
                return self._rewind(branch) if attempt else None
            case _:
                raise AssertionError(f"no meaning for node {node}")

    def stream(self, branch_id: int, text: str) -> None:
        """The running `gen` has written `text` so far."""
        branch = self.branches[branch_id]
        branch.partial = text
        if branch.part is not None and branch.part.index == 0:
            branch.part.of.partial = text

    def complete(self, branch_id: int, completion: Completion) -> None:
        """Answer to `Generate`."""
        branch = self.branches[branch_id]
        node = branch.active
        if not isinstance(node, Gen) or not isinstance(completion.text, str):
            raise BackendError(
                f"the backend answered {completion!r} to {node or 'nothing that was asked'}; "
                "a gen that was asked for is answered once, with a str"
            )
        part = branch.part
        mark = branch.mark if part is None else part.of.mark
        assert mark is not None, "a gen begins with a mark"
        value: Any = completion.text
        if node.typed:
            value = typed(node, completion.text)
            self.unread = (*self.unread, value)
            mark.values.append(value)
        if completion.truncated:
            self._num_truncated += 1
            mark.num_truncated += 1
        text = completion.text
        if node.reasoning is not None:
            text, value = set_reasoning_aside(branch, node, text)
        self._answer(branch, text, value, name=node.name, meta=completion.meta)
        if part is not None:
            part.completion, part.value = completion, value
            if part.index == 0:
                part.of.partial = completion.text

    def choose(
        self, branch_id: int, scores: ChoiceScores, *, draw: float, meta: dict[str, Any]
    ) -> str:
        """Answer to `Choose`: the option taken. `draw` in [0, 1) decides above temperature 0."""
        branch = self.branches[branch_id]
        node = branch.active
        if not isinstance(node, Select):
            raise BackendError(
                f"the backend answered {scores!r} to {node or 'nothing that was asked'}; "
                "a select that was asked for is answered once, with its scores"
            )
        choice = pick(node.method, scores, temperature=node.temperature, draw=draw)
        text = node.choices[choice.index]
        said = {**meta, **choice.meta(node.choices, scores, method=node.method)}
        self._answer(branch, text, text, name=node.name, meta=said)
        return text

    def _answer(
        self,
        branch: Branch,
        text: str,
        value: Any,
        *,
        name: str | None,
        meta: dict[str, Any],
        shown: str | None = None,
    ) -> None:
        branch.pieces.append(Piece(text, written=True))
        plain = value if isinstance(value, str) else text
        branch.define(name, Variable(value, plain, meta, shown))
        node, start, _ = branch.trail[-1]
        branch.trail[-1] = (node, start, meta)
        branch.partial = ""
        branch.active = None

    def _begin(self, branch: Branch, node: Gen) -> Action:
        """A gen begins: it is written here, or several times on branches of its own."""
        if (part := branch.part) is not None:
            sampling = self._sampling(branch, node, attempt=part.attempt, index=part.index)
            return Generate(node, replace(sampling, n=1))
        mark = branch.mark = Mark(branch, node)
        branch.next_attempt = 0
        sampling = self._sampling(branch, node, attempt=mark.attempt)
        if sampling.n in (None, 1):
            return Generate(node, sampling)
        branch.active = None
        children = tuple(part_id(node, mark.attempt, index) for index in range(sampling.n))
        self._spawn(branch, children)
        for index, child_id in enumerate(children):
            child = self.branches[child_id]
            child.part = Part(index, mark.attempt, branch)
            child.queue.append(node)
        collect = Collect(node.id, branch.id, node.source, node, children)
        branch.queue.appendleft(collect)
        branch.trail[-1] = (collect, len(branch.pieces), None)
        return Spawn(children)

    def _collect(self, parent: Branch, node: Collect) -> Adopt:
        """All completions are there: the branch goes on from the first."""
        children = [self.branches[child] for child in node.children]
        completions: list[Completion] = []
        values: list[Any] = []
        for child in children:
            assert child.part is not None and child.part.completion is not None, "it has written"
            completions.append(child.part.completion)
            values.append(child.part.value)
            child.joined = True
        first, gen = completions[0], node.gen
        meta = {**first.meta, "completions": [completion.meta for completion in completions]}
        start, text = len(parent.pieces), first.text
        if gen.reasoning is not None:
            text, _ = set_reasoning_aside(parent, gen, text)
            name = str(gen.reasoning_name)
            thoughts = [child.variables[name].value for child in children]
            parent.variables[name] = parent.variables[name]._replace(value=thoughts)
        pairs = zip(completions, values, strict=True)
        texts = [repr(v) if isinstance(v, str) else c.text for c, v in pairs]
        shown = f"[{', '.join(texts)}]"
        self._answer(parent, text, gathered(values), name=gen.name, meta=meta, shown=shown)
        return Adopt(tuple(parent.pieces[start:]), node.children[0])

    def _rewind(self, branch: Branch) -> Rewind:
        """Back to before the last gen; what came since is to be carried out again."""
        mark = branch.rewind()
        self._num_truncated -= mark.num_truncated
        self.unread = tuple(value for value in self.unread if value not in mark.values)
        branch.active = None
        return Rewind(())

    def _sampling(self, branch: Branch, node: Gen, *, attempt: int, index: int = 0) -> Sampling:
        sampling = node.sampling.over(self._defaults)
        if node.constraint is not None:  # stops of its surroundings do not concern it
            stop = node.sampling.stop or ()
            sampling = Sampling(stop=stop, stop_regex=(), stop_token_ids=()).over(sampling)
        elif branch.role is not None and self._template.stop:
            stop = (*(sampling.stop or ()), *self._template.stop)
            sampling = Sampling(stop=stop).over(sampling)
        if attempt or index:  # what is written again, and each of several, is another draw
            seed = self._seed if sampling.seed is None else sampling.seed
            sampling = replace(sampling, seed=derive_seed(seed, attempt << 32 | index))
        return sampling

    def _spawn(self, parent: Branch, children: Sequence[int]) -> None:
        for child_id in children:
            self._open(child_id, parent)

    def _open(self, child_id: int, parent: Branch) -> Branch:
        child = self.branches[child_id] = Branch(child_id, parent)
        if self._early and child_id in self._early:
            child.queue = self._early.pop(child_id)
        return child

    def _ready(self, join: Join | Collect) -> bool:
        branches = self.branches
        for child in join.children:  # a loop, for speed: it is asked for after each step
            if child not in branches or not branches[child].drained:
                return False
        return True

    def _before(self, branch: Branch, node: Node) -> None:
        """Write what a message needs before its model or its forks go on."""
        if branch.held or (branch.around is not None and not branch.begun):
            settle(branch) if isinstance(node, Fork) else before_model(branch)

    def _join(self, parent: Branch, join: Join) -> None:
        children = [self.branches[child] for child in join.children]
        join_forks(parent, children, join)
        if join.collect is not None:
            theirs = collected_values(parent, children)
            self.unread = tuple(value for value in self.unread if id(value) not in theirs)


def part_id(gen: Gen, attempt: int, index: int) -> int:
    """The id of the branch that carries `gen` out as one of several: always the same, and below
    all that programs open.
    """
    return -1 - (gen.id << 64 | attempt << 32 | index)
