"""The pure interpreter of graphs.

Owns what a node means: text, variables, messages, roles, scopes, forks and joins. Sans-I/O: it
knows no clock, thread, token or model. A driver asks `next(branch)` what to do, does it (with
tokens or with completions of a remote API), and answers with `complete` or `choose`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from grammars import Constraint
from grammars.json_values import is_text
from sgdsl.chat import ChatTemplate
from sgdsl.choices import ChoiceScores, pick
from sgdsl.errors import BackendError, ProgramError, UsageError
from sgdsl.failures import Failures
from sgdsl.graph import (
    ROOT,
    Assign,
    Fork,
    Gen,
    Join,
    Node,
    Ref,
    RoleBegin,
    RoleEnd,
    Sampling,
    ScopeBegin,
    ScopeEnd,
    Select,
    Text,
    may_define,
)
from sgdsl.values import Lazy, collected, gathered, leaves, typed


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a branch's text. `special`: special tokens in it are special (template text).
    `written`: a model wrote it.
    """

    text: str
    special: bool = False
    written: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    """Nodes that need no model were carried out; `pieces` is empty if they have no text. Even then
    something has moved: a join may wait for just that.
    """

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Generate:
    """`sampling` is complete: the node's own, over the run's defaults, plus the role's stops."""

    node: Gen
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Choose:
    node: Select


@dataclass(frozen=True, slots=True)
class Spawn:
    """Branches that now exist as copies of the asking one."""

    children: tuple[int, ...]


class Idle(Enum):
    """Nothing to do on this branch: now, or ever again."""

    JOINING = "waits for its children"
    PAUSED = "waits for the program"
    FINISHED = "finished"


Action = Append | Generate | Choose | Spawn | Idle


@dataclass(frozen=True, slots=True)
class Completion:
    """What a driver answers to `Generate`. `truncated`: cut by its token limit before its end."""

    text: str
    meta: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False


_NOTHING: deque[Node] = deque(maxlen=0)
_NO_NAMES: frozenset[str] = frozenset()


class Branch:
    """One line of a run: what has been written on it, and what is still to do."""

    __slots__ = (
        "active",
        "error",
        "forked_at",
        "forked_at_message",
        "id",
        "inherited",
        "joined",
        "kept",
        "messages",
        "metas",
        "parent_id",
        "partial",
        "pieces",
        "queue",
        "role",
        "role_start",
        "scopes",
        "texts",
        "unnamed",
        "variables",
    )

    def __init__(self, branch_id: int, parent: Branch | None = None) -> None:
        self.id = branch_id
        self.pieces: list[Piece] = list(parent.pieces) if parent else []
        self.variables: dict[str, Any] = dict(parent.variables) if parent else {}
        self.texts: dict[str, str] = dict(parent.texts) if parent else {}
        self.metas: dict[str, dict[str, Any]] = dict(parent.metas) if parent else {}
        self.messages: list[dict[str, str]] = list(parent.messages) if parent else []
        self.role: str | None = parent.role if parent else None
        self.role_start: int = parent.role_start if parent else 0
        self.scopes: list[tuple[str, int]] = []
        self.forked_at = len(self.pieces)
        self.forked_at_message = len(self.messages)
        self.inherited = frozenset(self.variables)
        self.unnamed: list[Any] = list(parent.unnamed) if parent else []
        self.queue: deque[Node] = deque()
        self.active: Node | None = None
        self.joined = False
        self.partial = ""
        self.parent_id = parent.id if parent else -1
        self.error: ProgramError | None = None
        self.kept: AbstractSet[str] = _NO_NAMES  # of a failed branch: what it had by then

    @property
    def drained(self) -> bool:
        """Everything that the program wrote on this branch so far has been carried out."""
        return not self.queue and self.active is None

    def defines(self, name: str | int) -> bool:
        """Whether the variable (an int: the unnamed one at that position) has a value."""
        if isinstance(name, int):
            return 0 <= name < len(self.unnamed)
        return name in self.variables

    def awaits(self, name: str | int) -> bool:
        """Something still to be carried out may change the variable."""
        if isinstance(name, int):
            return False
        pending = self.queue if self.active is None else (self.active, *self.queue)
        return any(may_define(node, name) for node in pending)

    def lost(self, name: str | int) -> bool:
        """Whether the branch has failed before the variable got the value that it should have."""
        return self.error is not None and name not in self.kept and isinstance(name, str)

    def fail(self, error: ProgramError) -> None:
        """What was still to be carried out on this branch never will be."""
        self.kept = {name for name in self.variables if not self.awaits(name)}
        self.error = error
        self.queue.clear()

    def text(self, start: int = 0) -> str:
        """All text from piece `start` on, what the running `gen` has written so far included."""
        return "".join([piece.text for piece in self.pieces[start:]]) + self.partial

    def define(self, name: str | None, value: Any, *, text: str, meta: dict[str, Any]) -> None:
        if name is None:
            self.unnamed.append(value)
            return
        self.variables[name] = value
        self.texts[name] = text
        if meta:
            self.metas[name] = meta
        else:
            self.metas.pop(name, None)

    def release(self) -> None:
        """Keep what can be read, drop what only execution needs."""
        self.queue = _NOTHING
        self.active = None
        self.inherited = frozenset()


class Machine:
    """The branches of one run, and what each has to do next. `unread`: the typed values, in the
    order of their gens; who reads them parses them.
    """

    __slots__ = (
        "_defaults",
        "_early",
        "_failures",
        "_template",
        "branches",
        "closed",
        "truncated",
        "unread",
    )

    def __init__(self, *, template: ChatTemplate, defaults: Sampling) -> None:
        self._template = template
        self._defaults = defaults
        self.branches: dict[int, Branch] = {ROOT: Branch(ROOT)}
        self._early: dict[int, deque[Node]] = {}
        self._failures = Failures(self.branches, self._spawn)
        self.closed = False
        self.truncated = False
        self.unread: list[Lazy] = []

    @property
    def finished(self) -> bool:
        return self.closed and not self._early and all(b.drained for b in self.branches.values())

    def extend(self, nodes: Iterable[Node]) -> None:
        assert not self.closed, "no node arrives after the end of the program"
        for node in nodes:
            branch = self.branches.get(node.branch)
            if branch is not None and branch.error is not None:
                self._failures.drop(branch, node)
                continue
            queue = branch.queue if branch else self._early.setdefault(node.branch, deque())
            queue.append(node)

    def pending_constraints(self) -> list[Constraint]:
        """What the nodes that are still to be carried out are constrained by."""
        queues = [*(branch.queue for branch in self.branches.values()), *self._early.values()]
        return [
            node.constraint
            for queue in queues
            for node in queue
            if isinstance(node, Gen) and node.constraint is not None
        ]

    def close(self) -> None:
        """The program has returned: what is queued is all there will be."""
        self.closed = True

    def fail(self, branch_id: int, error: ProgramError) -> bool:
        """The active node of the branch has failed. Whether the run has to end for it now: not as
        long as a join may still collect it, and the other branches go on.
        """
        branch = self.branches[branch_id]
        if branch.error is None:
            self._failures.begin(branch, error)
        branch.active = None
        branch.partial = ""
        return self._failures.end_run(closed=self.closed) is not None

    def overdue(self) -> ProgramError | None:
        """A failure that has waited for its join, and now has to end the run."""
        return self._failures.end_run(closed=self.closed)

    def release(self) -> None:
        self._early = {}
        for branch in self.branches.values():
            branch.release()

    def next(self, branch_id: int) -> Action:
        """What to do now on this branch. `Append` and `Spawn` are done when returned; `Generate`
        and `Choose` stay active until they are answered.
        """
        branch = self.branches[branch_id]
        assert branch.active is None, "one node of a branch is active at a time"
        appended: list[Piece] = []
        moved = False
        while branch.queue:
            node = branch.queue[0]
            if isinstance(node, Gen | Select | Fork) and appended:
                break
            if isinstance(node, Join) and not self._ready(node):
                return Append(tuple(appended)) if moved else Idle.JOINING
            branch.queue.popleft()
            moved = True
            branch.active = node  # a fault below is this node's
            match node:
                case Gen():
                    return Generate(node, self._sampling(branch, node))
                case Select():
                    return Choose(node)
                case Fork(children=children):
                    branch.active = None
                    for child_id in children:
                        self._spawn(child_id, branch)
                    return Spawn(children)
                case _:
                    appended += self._write(branch, node)
                    branch.active = None
        if moved:
            return Append(tuple(appended))
        over = self.closed or branch.joined or branch.error is not None
        return Idle.FINISHED if over else Idle.PAUSED

    def stream(self, branch_id: int, text: str) -> None:
        """The running `gen` has written `text` so far."""
        self.branches[branch_id].partial = text

    def complete(self, branch_id: int, completion: Completion) -> None:
        """Answer to `Generate`."""
        branch = self.branches[branch_id]
        node = branch.active
        if not isinstance(node, Gen) or not isinstance(completion.text, str):
            raise BackendError(
                f"the backend answered {completion!r} to {node or 'nothing that was asked'}; "
                "a gen that was asked for is answered once, with a str"
            )
        value: Any = completion.text
        if node.typed:
            value = typed(node, completion.text)
            self.unread.append(value)
        self.truncated |= completion.truncated
        self._answer(branch, completion.text, value, name=node.name, meta=completion.meta)

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
        said = {**meta, **choice.meta(node.choices, scores)}
        self._answer(branch, text, text, name=node.name, meta=said)
        return text

    def _answer(
        self, branch: Branch, text: str, value: Any, *, name: str | None, meta: dict[str, Any]
    ) -> None:
        branch.pieces.append(Piece(text, written=True))
        branch.define(name, value, text=text, meta=meta)
        branch.partial = ""
        branch.active = None

    def _sampling(self, branch: Branch, node: Gen) -> Sampling:
        sampling = node.sampling.over(self._defaults)
        if branch.role is None or not self._template.stop:
            return sampling
        stop = (*(sampling.stop or ()), *self._template.stop)
        return Sampling(stop=stop).over(sampling)

    def _spawn(self, child_id: int, parent: Branch) -> Branch:
        child = self.branches[child_id] = Branch(child_id, parent)
        child.queue.extend(self._early.pop(child_id, ()))
        return child

    def _ready(self, join: Join) -> bool:
        return all(
            child in self.branches and self.branches[child].drained for child in join.children
        )

    def _write(self, branch: Branch, node: Node) -> list[Piece]:
        """Carry out a node that needs no model; returns the pieces that it appended."""
        start = len(branch.pieces)
        match node:
            case Text(text=text):
                branch.pieces.append(Piece(text))
            case Ref(name=name):
                branch.pieces.append(Piece(self._lookup(branch, name)))
            case Assign(name=name, value=value, text=text):
                branch.define(name, value, text=text, meta={})
            case RoleBegin(role=role):
                self._open_role(branch, role)
            case RoleEnd():
                self._close_role(branch)
            case ScopeBegin(name=name):
                branch.scopes.append((name, len(branch.pieces)))
            case ScopeEnd():
                name, begin = branch.scopes.pop()
                text = branch.text(begin)
                branch.define(name, text, text=text, meta={})
            case Join():
                self._join(branch, node)
            case _:
                raise AssertionError(f"no meaning for node {node}")
        return branch.pieces[start:]

    def _lookup(self, branch: Branch, name: str) -> str:
        if name not in branch.texts:
            raise UsageError(
                f"ref({name!r}): no such variable on this branch; "
                f"it has {sorted(branch.texts)!r}; generate or assign it before it is used"
            )
        text = branch.texts[name]
        if not is_text(text):
            raise UsageError(
                f"ref({name!r}): {text!r} has a lone surrogate, which is no text; "
                "encode or replace it before it is assigned"
            )
        return text

    def _open_role(self, branch: Branch, role: str) -> None:
        template = self._template
        prompt = template.default_system_prompt
        if not branch.messages and role != "system" and prompt is not None:
            self._open_role(branch, "system")
            branch.pieces.append(Piece(prompt))
            self._close_role(branch)
        branch.role = role
        branch.pieces.append(Piece(template.prefixes.get(role, ""), special=True))
        branch.role_start = len(branch.pieces)

    def _close_role(self, branch: Branch) -> None:
        assert branch.role is not None, "a role that closes was open"
        content = branch.text(branch.role_start)
        branch.messages.append({"role": branch.role, "content": content})
        branch.pieces.append(Piece(self._template.suffixes.get(branch.role, ""), special=True))
        branch.role = None

    def _join(self, parent: Branch, join: Join) -> None:
        children = [self.branches[child] for child in join.children]
        for child in children:
            child.joined = True
        if join.mode == "concate_and_append":
            for child in children:
                if child.error is None:
                    parent.pieces += child.pieces[child.forked_at :]
                    parent.messages += child.messages[child.forked_at_message :]
            return
        assert join.mode == "gather_variable", f"unknown join mode {join.mode!r}"
        new = dict.fromkeys(join.collect or ())
        for child in children:
            new |= dict.fromkeys(name for name in child.variables if name not in child.inherited)
        gather = gathered if join.collect is None else collected
        for name in new:
            values = [child.variables.get(name) for child in children]
            if join.collect is not None:
                for index, child in enumerate(children):
                    if child.lost(name):
                        values[index] = child.error
            texts = ", ".join(_shown(child, name) for child in children)
            parent.define(name, gather(values), text=f"[{texts}]", meta={})
        if join.collect is not None:
            self._collect_values(parent, children)

    def _collect_values(self, parent: Branch, children: Sequence[Branch]) -> None:
        """A value of the forks that cannot be parsed fails its place in the lists, not the run."""
        before = {id(value) for value in (*parent.unnamed, *parent.variables.values())}
        theirs = {
            id(value)
            for child in children
            for value in leaves((*child.unnamed, *child.variables.values()))
        }
        self.unread = [value for value in self.unread if id(value) not in theirs - before]


def _shown(branch: Branch, name: str) -> str:
    """A variable as it stands in the text of a list, `failed` if it never came to be. Made of its
    text: `repr(value)` can be anybody's code, and the value need not be there yet.
    """
    if branch.error is not None and branch.lost(name):
        return "failed"
    text = branch.texts.get(name)
    return repr(text) if isinstance(branch.variables.get(name), str) else str(text)
