"""What may stand where in a graph: the check that runs on every node of every build.

Owns what the nodes so far allow next: open roles and scopes, live branches, names, what a check may
have written again. Knows nothing of what carrying a node out means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, ClassVar

from grammars.json_values import is_text
from sgdsl.errors import UsageError
from sgdsl.nodes import (
    JOIN_MODES,
    ROOT,
    Assign,
    Check,
    Fork,
    Gen,
    Join,
    Node,
    Ref,
    RoleBegin,
    RoleEnd,
    ScopeBegin,
    ScopeEnd,
    Select,
    Text,
)


class Line:
    """What was written on one branch, as far as it says what may follow. `open`: the roles and
    scopes, each with its name. `names`: what it defines, in that order, of which the first
    `num_inherited` were there at its fork. `role_at_fork`: the one that was open there.
    `since_gen`: the id of the last gen, and what was written since, that first (an int is an
    unnamed one's position); None: there is nothing to check.
    """

    __slots__ = (
        "has_roles",
        "joined",
        "names",
        "num_inherited",
        "num_unnamed",
        "open",
        "parent",
        "role_at_fork",
        "since_gen",
    )

    def __init__(self, parent: int | None = None, of: Line | None = None) -> None:
        self.parent = parent
        self.joined = False
        self.has_roles = False  # roles have begun or ended on it
        self.open: tuple[tuple[str, str], ...] = ()
        self.since_gen: tuple[int, tuple[str | int, ...]] | None = None
        self.names: dict[str, None] = {}
        self.num_inherited = self.num_unnamed = 0
        self.role_at_fork: str | None = None
        if of is not None:
            self.open = tuple(entry for entry in of.open if entry[0] == "role")
            self.names = dict(of.names)
            self.num_inherited, self.num_unnamed = len(of.names), of.num_unnamed
            self.role_at_fork = of.role

    @property
    def role(self) -> str | None:
        """The role that is open; roles do not nest."""
        return next((name for kind, name in self.open if kind == "role"), None)

    @property
    def new_names(self) -> Sequence[str]:
        """What it defines beyond what was there at its fork."""
        return tuple(islice(self.names, self.num_inherited, None))

    def define(self, name: str | None) -> None:
        if name is None:
            self.num_unnamed += 1
        else:
            self.names[name] = None

    def mark(self) -> tuple[Any, ...]:
        return self.open, len(self.names), self.num_unnamed, self.has_roles, self.since_gen

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Back to where `mark()` was taken."""
        self.open, num_names, self.num_unnamed, self.has_roles, self.since_gen = mark
        while len(self.names) > num_names:
            self.names.popitem()


class Shape:
    """The lines of a graph so far. `admit` is carried out once for every node."""

    __slots__ = ("_lines", "next_id")

    def __init__(self) -> None:
        self._lines = {ROOT: Line()}
        self.next_id = 0
        """The least id that the next node may have."""

    def defines(self, branch: int, name: str | int) -> bool:
        """Whether the branch defines the variable (an int: the unnamed one at that position)."""
        line = self._lines[branch]
        return 0 <= name < line.num_unnamed if isinstance(name, int) else name in line.names

    def defined(self, branch: int) -> tuple[list[str], int]:
        """The names that the branch defines, and how many gens have none."""
        line = self._lines[branch]
        return list(line.names), line.num_unnamed

    def new_names(self, children: Sequence[int]) -> tuple[str, ...]:
        """What these forks define beyond what their parent had."""
        return tuple(dict.fromkeys(n for child in children for n in self._lines[child].new_names))

    def last_gen(self, branch: int) -> str | int | None:
        """What the gen wrote that a check would look at; None where there is nothing to check."""
        since = self._lines[branch].since_gen
        return None if since is None else since[1][0]

    def checked(self, node: Check, name: str | None) -> tuple[int, str | int]:
        """The id of the gen that a check may have written again, and what it looks at: `name`, or
        that gen's own output (an int: an unnamed one).
        """
        known = self._lines[node.branch].since_gen
        if known is None:
            raise UsageError(
                f"{node} at {node.source}: no gen to write again: on this branch there is none, or "
                "a select, an assignment, a fork or a join came after it; check right after the gen"
            )
        gen, since = known
        if name is not None and name not in since:
            raise UsageError(
                f"{node} at {node.source}: {name!r} was not written by the last gen or since, only "
                f"{list(since)} can be checked here; check right after its gen"
            )
        return gen, since[0] if name is None else name

    def admit_all(self, nodes: Sequence[Node]) -> None:
        """All of these nodes of one branch, or none of them."""
        if not nodes:
            return
        line, next_id = self._lines[nodes[0].branch], self.next_id
        mark = line.mark()
        try:
            for node in nodes:
                self.admit(node)
        except BaseException:
            line.rewind(mark)
            self.next_id = next_id
            raise

    def admit(self, node: Node) -> None:
        assert node.id >= self.next_id, "node ids rise in program order"
        line = self._lines.get(node.branch)
        assert line is not None, "a branch exists before its nodes"
        if line.joined:
            raise UsageError(
                f"{node} at {node.source}: this fork has been joined, nothing can be appended to "
                "it any more; append to its parent, or join later"
            )
        self._RULES[type(node)](self, line, node)
        self.next_id = node.id + 1

    def _text(self, line: Line, node: Text) -> None:  # noqa: ARG002
        if not is_text(node.text):
            raise UsageError(
                f"{node} at {node.source}: a lone surrogate is no text; encode or replace it"
            )

    def _gen(self, line: Line, node: Gen) -> None:
        line.since_gen = (node.id, (node.name or line.num_unnamed,))
        line.define(node.name)
        if node.reasoning is not None:
            line.define(node.reasoning_name)

    def _define(self, line: Line, node: Select | Assign) -> None:
        line.since_gen = None
        line.define(node.name)

    def _ref(self, line: Line, node: Ref) -> None:
        if node.name not in line.names:
            raise UsageError(
                f"{node} at {node.source}: no variable {node.name!r} on this branch, it has "
                f"{list(line.names)}; generate or assign it before it is used"
            )

    def _check(self, line: Line, node: Check) -> None:  # noqa: ARG002
        self.checked(node, node.name)

    def _role_begin(self, line: Line, node: RoleBegin) -> None:
        if line.open and (opened := line.role) is not None:
            raise UsageError(
                f"{node} at {node.source}: role {opened!r} is still open; "
                "close it before another role begins"
            )
        line.open = (*line.open, ("role", node.role))
        line.has_roles = True

    def _role_end(self, line: Line, node: RoleEnd) -> None:
        self._close(line, node, node.role)
        line.has_roles = True

    def _scope_begin(self, line: Line, node: ScopeBegin) -> None:
        line.open = (*line.open, ("scope", node.name))

    def _scope_end(self, line: Line, node: ScopeEnd) -> None:
        self._close(line, node, node.name)
        line.define(node.name)
        if line.since_gen is not None:
            gen, since = line.since_gen
            line.since_gen = (gen, (*since, node.name))

    @staticmethod
    def _close(line: Line, node: RoleEnd | ScopeEnd, name: str) -> None:
        if not line.open or line.open[-1] != (node.kind, name):
            last = f"{line.open[-1][0]} {line.open[-1][1]!r}" if line.open else "nothing"
            raise UsageError(
                f"{node} at {node.source}: closes {node.kind} {name!r}, "
                f"but {last} is open; close what was opened last"
            )
        line.open = line.open[:-1]

    def _fork(self, line: Line, node: Fork) -> None:
        line.since_gen = None
        for child in node.children:
            assert child not in self._lines, "a branch is opened once"
            assert child > ROOT, "what is below are the machine's own branches"
            self._lines[child] = Line(node.branch, line)

    def _join(self, line: Line, node: Join) -> None:
        if node.mode not in JOIN_MODES:
            raise UsageError(
                f"{node} at {node.source}: mode {node.mode!r} is not allowed; "
                f"it is one of {', '.join(JOIN_MODES)}"
            )
        assert len({*node.children}) == len(node.children), "a join has every fork once"
        children = list[Line]()
        for number in node.children:
            child = self._lines.get(number)
            is_own = child is not None and child.parent == node.branch
            assert child is not None and is_own, "a fork is joined where it was forked"
            self._may_join(line, node, number, child)
            children.append(child)
        line.since_gen = None
        if node.mode == "gather_variable":
            for name in self.new_names(node.children):
                line.define(name)
        else:
            line.has_roles |= any(child.has_roles for child in children)
        for child in children:
            child.joined = True

    @staticmethod
    def _may_join(line: Line, join: Join, number: int, child: Line) -> None:
        """Appended text must be whole messages, or template text would end up inside of one."""
        reason = None
        scopes = [name for kind, name in child.open if kind == "scope"]
        if child.joined:
            reason = f"fork b{number} has been joined already; a fork is joined once"
        elif scopes:
            reason = (
                f"scope {scopes[-1]!r} of fork b{number} is still open; close it before the join"
            )
        elif join.mode != "concate_and_append" or not child.has_roles:
            return
        elif child.role_at_fork is not None:
            reason = (
                f"fork b{number} has closed the role {child.role_at_fork!r}, which was open at the "
                "fork; close it on the parent, after the join"
            )
        elif (own := child.role) is not None:
            reason = f"role {own!r} of fork b{number} is still open; close it before the join"
        elif (outer := line.role) is not None:
            reason = (
                f"fork b{number} has messages of its own, but role {outer!r} is open here; "
                "close it before the join"
            )
        if reason is not None:
            raise UsageError(f"{join} at {join.source}: {reason}")

    _RULES: ClassVar[dict[type[Node], Callable[[Shape, Line, Any], None]]] = {
        Text: _text,
        Ref: _ref,
        Gen: _gen,
        Select: _define,
        Assign: _define,
        Check: _check,
        RoleBegin: _role_begin,
        RoleEnd: _role_end,
        ScopeBegin: _scope_begin,
        ScopeEnd: _scope_end,
        Fork: _fork,
        Join: _join,
    }
    """What a program can write. The machine's own nodes are in no graph."""
