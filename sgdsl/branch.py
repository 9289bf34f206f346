"""One line of a run: what has been written on it, and how it goes back to before its last gen.

Owns a branch's text, variables and messages, and the mark that a rewind returns to. What a node
does to them is the machine's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sgdsl.actions import Completion
from sgdsl.chat import Around
from sgdsl.errors import ProgramError
from sgdsl.graph import Assign, Check, Collect, Gen, Node, may_define
from sgdsl.pieces import Piece
from sgdsl.reasoning import split
from sgdsl.values import Lazy

Step = tuple[Node, int, dict[str, Any] | None]
"""A node that was begun: where its text begins, in pieces, and what its answer says."""

_NOTHING: deque[Node] = deque(maxlen=0)
_NO_NAMES: frozenset[str] = frozenset()


class Variable(NamedTuple):
    """What a name stands for: `value` to who reads it, `text` where a `Ref` puts it in. `meta` of a
    gen or a select. `shown`: how one of several outputs stands in a list, if not as its text, which
    is that of the first.
    """

    value: Any
    text: str
    meta: dict[str, Any] | None = None
    shown: str | None = None


class Mark:
    """A branch just before its last gen, as far as that and what may follow it can change it. From
    then on it collects the nodes carried out, the variables they replaced, and what a rewind gives
    up: values that nobody has read, and outputs that were cut off.
    """

    __slots__ = (
        "around",
        "attempt",
        "begun",
        "messages",
        "nodes",
        "num_truncated",
        "pieces",
        "replaced",
        "role",
        "role_start",
        "scopes",
        "trail",
        "unnamed",
        "values",
    )

    def __init__(self, branch: Branch, node: Gen) -> None:
        self.attempt = branch.next_attempt
        self.nodes: list[Node] = [node]
        self.replaced: list[tuple[str, Variable | None]] = []
        self.values: list[Lazy] = []
        self.num_truncated = 0
        self.pieces = len(branch.pieces)
        self.messages = len(branch.messages)
        self.unnamed = len(branch.unnamed)
        self.role = branch.role
        self.role_start = branch.role_start
        self.around = branch.around
        self.begun = branch.begun
        self.scopes = branch.scopes
        self.trail = len(branch.trail) - 1  # the gen is on it already


@dataclass(slots=True)
class Part:
    """What makes a branch one of several that carry out the same gen: which, at which attempt, and
    what it has written. `of`: the branch that waits for them.
    """

    index: int
    attempt: int
    of: Branch
    completion: Completion | None = None
    value: Any = None


class Branch:
    """One line of a run: what has been written on it, and what is still to do."""

    __slots__ = (
        "active",
        "around",
        "begun",
        "error",
        "forked_at",
        "forked_at_message",
        "held",
        "id",
        "joined",
        "kept",
        "mark",
        "messages",
        "next_attempt",
        "num_inherited",
        "parent_id",
        "part",
        "partial",
        "pieces",
        "queue",
        "rewinds",
        "role",
        "role_start",
        "scopes",
        "trail",
        "unnamed",
        "variables",
    )

    def __init__(self, branch_id: int, parent: Branch | None = None) -> None:
        self.id = branch_id
        self.pieces: list[Piece] = []
        self.variables: dict[str, Variable] = {}
        self.num_inherited = 0
        """How many of them, the first, were there at the fork."""
        self.messages: tuple[dict[str, str], ...] = ()
        self.role: str | None = None
        self.role_start = 0
        self.around: Around | None = None
        self.begun = False  # the role has content
        self.held = ""  # white space that its template takes away if the message ends there
        self.scopes: tuple[tuple[str, int], ...] = ()
        self.forked_at = self.forked_at_message = 0
        self.unnamed: tuple[Any, ...] = ()
        self.trail: list[Step] = []
        self.queue: deque[Node] = deque()
        self.active: Node | None = None
        self.joined = False
        self.partial = ""
        self.part: Part | None = None
        self.mark: Mark | None = None
        self.next_attempt = 0  # of the gen that a rewind has put back
        self.rewinds: tuple[int, ...] = ()
        """For every rewind, how many pieces it has left."""
        self.parent_id: int | None = None
        self.error: ProgramError | None = None
        self.kept: AbstractSet[str] = _NO_NAMES
        """Of a branch that has failed: the variables that it had by then."""
        if parent is not None:
            self._copy(parent)

    def _copy(self, parent: Branch) -> None:
        """Begin as the parent stands."""
        self.parent_id = parent.id
        self.pieces = list(parent.pieces)
        self.variables = dict(parent.variables)
        self.num_inherited = len(parent.variables)
        self.messages, self.unnamed = parent.messages, parent.unnamed
        self.role, self.role_start = parent.role, parent.role_start
        self.around, self.begun = parent.around, parent.begun
        self.forked_at, self.forked_at_message = len(self.pieces), len(self.messages)

    @property
    def new_names(self) -> Sequence[str]:
        """What it defines beyond what was there at its fork."""
        return tuple(islice(self.variables, self.num_inherited, None))

    @property
    def values(self) -> Sequence[Any]:
        """What its gens and assignments have made, unnamed ones first."""
        return (*self.unnamed, *(variable.value for variable in self.variables.values()))

    @property
    def drained(self) -> bool:
        """Everything that the program wrote on this branch so far has been carried out."""
        return not self.queue and self.active is None

    def begin(self, node: Node) -> None:
        """The first node that waits is carried out now."""
        self.queue.popleft()
        self.active = node
        if not isinstance(node, Collect):  # it is there since its gen began
            self.trail.append((node, len(self.pieces), None))

    def note(self, node: Node) -> None:
        """What is written after a gen is written again with it; an assignment ends that."""
        assert self.mark is not None, "there is a gen to go back to"
        if isinstance(node, Assign):
            self.mark = None
        else:
            self.mark.nodes.append(node)

    def defines(self, name: str | int) -> bool:
        """Whether the variable (an int: the unnamed one at that position) has a value."""
        if isinstance(name, int):
            return 0 <= name < len(self.unnamed)
        return name in self.variables

    def awaits(self, name: str | int) -> bool:
        """Something still to be carried out may change the variable."""
        pending = self.queue if self.active is None else (self.active, *self.queue)
        if any(isinstance(node, Check) and node.attempt for node in pending):
            return True
        return isinstance(name, str) and any(may_define(node, name) for node in pending)

    def lost(self, name: str | int) -> bool:
        """Whether the branch has failed before the variable got the value that it should have."""
        return self.error is not None and isinstance(name, str) and name not in self.kept

    def fail(self, error: ProgramError) -> None:
        """What was still to be carried out on this branch never will be."""
        self.kept = {name for name in self.variables if not self.awaits(name)}
        self.error = error
        self.queue.clear()

    def writes(self, name: str) -> bool:
        """Whether the gen that is running makes the variable, and `partial` is its text so far."""
        running = self._running
        return running is not None and may_define(running, name)

    @property
    def _running(self) -> Gen | None:
        """The gen that is being written, here or on branches of its own."""
        running = self.active
        if running is None and self.queue and isinstance(self.queue[0], Collect):
            running = self.queue[0].gen
        return running if isinstance(running, Gen) else None

    def partial_of(self, name: str) -> str:
        """What the running gen has written of a variable that it makes."""
        node = self._running
        if node is None or node.reasoning is None:
            return self.partial
        parts = split(node.reasoning, self.partial, final=False)
        return parts.answer if name == node.name else parts.reasoning

    def text(self, start: int = 0) -> str:
        """All text from piece `start` on, what the running `gen` has written so far included."""
        return "".join([piece.text for piece in self.pieces[start:]]) + self.partial

    def define(self, name: str | None, variable: Variable) -> None:
        if name is None:
            self.unnamed = (*self.unnamed, variable.value)
            return
        if self.mark is not None:
            self.mark.replaced.append((name, self.variables.get(name)))
        self.variables[name] = variable

    def rewind(self) -> Mark:
        """Back to the mark; the nodes since are to be carried out again. Returns the mark."""
        mark = self.mark
        assert mark is not None, "only what the graph's check lets through is written again"
        del self.pieces[mark.pieces :]
        self.messages = self.messages[: mark.messages]
        self.unnamed = self.unnamed[: mark.unnamed]
        del self.trail[mark.trail :]
        self.around, self.begun, self.held = mark.around, mark.begun, ""
        self.role, self.role_start = mark.role, mark.role_start
        self.scopes = mark.scopes
        for name, before in reversed(mark.replaced):
            if before is None:
                del self.variables[name]
            else:
                self.variables[name] = before
        self.queue.extendleft(reversed(mark.nodes))
        self.next_attempt = mark.attempt + 1
        self.rewinds = (*self.rewinds, mark.pieces)
        self.mark = None
        return mark

    def release(self) -> None:
        """Keep what can be read, drop what only execution needs."""
        self.queue = _NOTHING
        self.active = None
        self.mark = None
        self.part = None
