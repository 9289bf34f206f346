"""The pure interpreter of graphs.

Owns what a node means: text, variables, messages, roles, scopes, forks and joins. Sans-I/O: it
knows no clock, thread, token or model. A driver asks `next(branch)` what to do, does it (with
tokens or with completions of a remote API), and answers with `complete` or `choose`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from grammars import Constraint
from grammars.json_values import is_text
from sgdsl.chat import Around, ChatTemplate
from sgdsl.choices import ChoiceScores, pick
from sgdsl.errors import UsageError
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
from sgdsl.pieces import Piece as Piece  # noqa: PLC0414 - a part of what actions say
from sgdsl.reasoning import split
from sgdsl.roles import before_model, close_role, open_role, settle, write_text
from sgdsl.values import Lazy, gathered, typed


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


Step = tuple[Node, int, dict[str, Any] | None]
"""A node that was begun: where its text begins, in pieces, and what its answer says."""

_NOTHING: deque[Node] = deque(maxlen=0)


class Branch:
    """One line of a run: what has been written on it, and what is still to do."""

    __slots__ = (
        "active",
        "around",
        "begun",
        "forked_at",
        "forked_at_message",
        "held",
        "id",
        "inherited",
        "joined",
        "messages",
        "metas",
        "partial",
        "pieces",
        "queue",
        "role",
        "role_start",
        "scopes",
        "texts",
        "trail",
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
        self.around: Around | None = parent.around if parent else None
        self.begun: bool = parent.begun if parent else False  # the role has content
        self.held = ""  # white space that its template takes away if the message ends there
        self.scopes: list[tuple[str, int]] = []
        self.forked_at = len(self.pieces)
        self.forked_at_message = len(self.messages)
        self.inherited = frozenset(self.variables)
        self.unnamed: list[Any] = list(parent.unnamed) if parent else []
        self.trail: list[Step] = []
        self.queue: deque[Node] = deque()
        self.active: Node | None = None
        self.joined = False
        self.partial = ""

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

    def text(self, start: int = 0) -> str:
        """All text from piece `start` on, what the running `gen` has written so far included."""
        return "".join([piece.text for piece in self.pieces[start:]]) + self.partial

    def writes(self, name: str) -> bool:
        """Whether the gen that is running makes the variable."""
        return isinstance(self.active, Gen) and may_define(self.active, name)

    def partial_of(self, name: str) -> str:
        """What the running gen has written of a variable that it makes."""
        node = self.active
        if not isinstance(node, Gen) or node.reasoning is None:
            return self.partial
        parts = split(node.reasoning, self.partial, final=False)
        return parts.answer if name == node.name else parts.reasoning

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

    __slots__ = ("_defaults", "_early", "_template", "branches", "closed", "truncated", "unread")

    def __init__(self, *, template: ChatTemplate, defaults: Sampling) -> None:
        self._template = template
        self._defaults = defaults
        self.branches: dict[int, Branch] = {ROOT: Branch(ROOT)}
        self._early: dict[int, deque[Node]] = {}
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
            if isinstance(node, Gen | Select | Fork):
                if branch.held or (branch.around is not None and not branch.begun):
                    appended += self._before(branch, node)
                if appended:
                    moved = True
                    break
            if isinstance(node, Join) and not self._ready(node):
                return Append(tuple(appended)) if moved else Idle.JOINING
            branch.queue.popleft()
            branch.trail.append((node, len(branch.pieces), None))
            moved = True
            branch.active = node  # a fault below is this node's
            match node:
                case Gen():
                    return Generate(node, self._sampling(branch, node))
                case Select():
                    return Choose(node)
                case Fork(children=children):
                    branch.active = None
                    self._spawn(branch, children)
                    return Spawn(children)
                case _:
                    appended += self._write(branch, node)
                    branch.active = None
        if moved:
            return Append(tuple(appended))
        return Idle.FINISHED if self.closed or branch.joined else Idle.PAUSED

    def stream(self, branch_id: int, text: str) -> None:
        """The running `gen` has written `text` so far."""
        self.branches[branch_id].partial = text

    def complete(self, branch_id: int, completion: Completion) -> None:
        """Answer to `Generate`."""
        branch = self.branches[branch_id]
        node = branch.active
        assert isinstance(node, Gen), "only an active gen is completed"
        value: Any = completion.text
        if node.typed:
            value = typed(node, completion.text)
            self.unread.append(value)
        self.truncated |= completion.truncated
        text = completion.text
        if node.reasoning is not None:
            text, value = _set_reasoning_aside(branch, node, text)
        self._answer(branch, text, value, name=node.name, meta=completion.meta)

    def choose(
        self, branch_id: int, scores: ChoiceScores, *, draw: float, meta: dict[str, Any]
    ) -> str:
        """Answer to `Choose`: the option taken. `draw` in [0, 1) decides above temperature 0."""
        branch = self.branches[branch_id]
        node = branch.active
        assert isinstance(node, Select), "only an active select is chosen from"
        choice = pick(node.method, scores, temperature=node.temperature, draw=draw)
        text = node.choices[choice.index]
        said = {**meta, **choice.meta(node.choices, scores)}
        self._answer(branch, text, text, name=node.name, meta=said)
        return text

    def _answer(
        self, branch: Branch, text: str, value: Any, *, name: str | None, meta: dict[str, Any]
    ) -> None:
        branch.pieces.append(Piece(text, written=True))
        shown = value if isinstance(value, str) else text
        branch.define(name, value, text=shown, meta=meta)
        node, start, _ = branch.trail[-1]
        branch.trail[-1] = (node, start, meta)
        branch.partial = ""
        branch.active = None

    def _sampling(self, branch: Branch, node: Gen) -> Sampling:
        sampling = node.sampling.over(self._defaults)
        if branch.role is None or not self._template.stop:
            return sampling
        stop = (*(sampling.stop or ()), *self._template.stop)
        return Sampling(stop=stop).over(sampling)

    def _spawn(self, parent: Branch, children: Sequence[int]) -> None:
        for child_id in children:
            child = self.branches[child_id] = Branch(child_id, parent)
            child.queue.extend(self._early.pop(child_id, ()))

    def _ready(self, join: Join) -> bool:
        return all(
            child in self.branches and self.branches[child].drained for child in join.children
        )

    def _before(self, branch: Branch, node: Node) -> list[Piece]:
        """What a message needs before its model or its forks go on; returns these pieces."""
        start = len(branch.pieces)
        settle(branch) if isinstance(node, Fork) else before_model(branch)
        return branch.pieces[start:]

    def _write(self, branch: Branch, node: Node) -> list[Piece]:
        """Carry out a node that needs no model; returns the pieces that it appended."""
        start = len(branch.pieces)
        match node:
            case Text(text=text):
                write_text(branch, text)
            case Ref(name=name):
                write_text(branch, self._lookup(branch, name))
            case Assign(name=name, value=value, text=text):
                branch.define(name, value, text=text, meta={})
            case RoleBegin(role=role):
                open_role(branch, self._template, role)
            case RoleEnd():
                close_role(branch)
            case ScopeBegin(name=name):
                settle(branch)
                branch.scopes.append((name, len(branch.pieces)))
            case ScopeEnd():
                name, begin = branch.scopes.pop()
                text = branch.text(begin) + branch.held
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

    def _join(self, parent: Branch, join: Join) -> None:
        children = [self.branches[child] for child in join.children]
        for child in children:
            child.joined = True
        if join.mode == "concate_and_append":
            settle(parent)
            for child in children:
                settle(child)
                parent.begun |= child.begun
                parent.pieces += child.pieces[child.forked_at :]
                parent.messages += child.messages[child.forked_at_message :]
            return
        assert join.mode == "gather_variable", f"unknown join mode {join.mode!r}"
        new = dict.fromkeys(
            name for child in children for name in child.variables if name not in child.inherited
        )
        for name in new:
            values = [child.variables.get(name) for child in children]
            texts = ", ".join(_shown(child, name) for child in children)
            parent.define(name, gathered(values), text=f"[{texts}]", meta={})


def _set_reasoning_aside(branch: Branch, node: Gen, text: str) -> tuple[str, str]:
    """Write the reasoning in `text`; returns the rest, and the answer in it."""
    assert node.reasoning is not None, "it is told apart"
    parts = split(node.reasoning, text, final=True)
    branch.pieces.append(Piece(text[: parts.rest_at], written=True, aside=True))
    branch.define(node.reasoning_name, parts.reasoning, text=parts.reasoning, meta={})
    return text[parts.rest_at :], parts.answer


def _shown(branch: Branch, name: str) -> str:
    """A variable as it stands in the text of a list. Made of its text: `repr(value)` can be
    anybody's code, and the value need not be there yet.
    """
    text = branch.texts.get(name)
    return repr(text) if isinstance(branch.variables.get(name), str) else str(text)
