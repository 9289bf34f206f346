"""The execution graph: nodes in the order of the program, their check and their printed form.

Owns what a program compiles to. Pure data: knows nothing of execution, tokens, threads or backends.
A graph is a flat list of nodes in the order in which the program wrote them; `branch` says on which
line of the run a node stands (0 is the root; `Fork` opens more). The printed form is what traces,
tests, errors and docs show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from grammars.json_values import is_text
from sgdsl.draw import draw
from sgdsl.errors import UsageError
from sgdsl.html import graph_html
from sgdsl.mermaid import to_mermaid
from sgdsl.nodes import (
    JOIN_MODES,
    ROOT,
    Assign,
    Check,
    Collect,
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
    may_define,
    shorten,
)
from sgdsl.outline import by_branch
from sgdsl.sampling import DEFAULT_SAMPLING, Sampling

__all__ = [
    "DEFAULT_SAMPLING",
    "JOIN_MODES",
    "ROOT",
    "Assign",
    "Check",
    "Collect",
    "Fork",
    "Gen",
    "Graph",
    "Join",
    "Node",
    "Ref",
    "RoleBegin",
    "RoleEnd",
    "Sampling",
    "ScopeBegin",
    "ScopeEnd",
    "Select",
    "Shape",
    "Text",
    "may_define",
    "shorten",
]


HTML_NODES = 1000
"""How many nodes a notebook shows."""

_DEEPEST = 60


class Shape:
    """What a graph's nodes so far allow next: open roles and scopes, live branches, names.

    `admit` is the check that runs on every node of every build, carried out once.
    """

    def __init__(self) -> None:
        self._open: dict[int, list[tuple[str, str]]] = {ROOT: []}
        self._joined: set[int] = set()
        self._inherited: dict[int, frozenset[str]] = {ROOT: frozenset()}
        self._parents: dict[int, int] = {}
        self._forked_in: dict[int, str | None] = {}  # the role that was open at the fork
        self._with_roles: set[int] = set()  # branches on which roles began or ended
        self._since_gen: dict[int, tuple[int, tuple[str | int, ...]]] = {}
        """The id of a branch's last gen, and what was written since, that first; an int is an
        unnamed one's position. No entry: there is nothing to check."""
        self._last_id = -1
        self.names: dict[int, dict[str, None]] = {ROOT: {}}
        """What the nodes of a branch define, in their order."""
        self.num_unnamed: dict[int, int] = {ROOT: 0}

    @property
    def next_id(self) -> int:
        return self._last_id + 1

    def admit_all(self, nodes: Sequence[Node]) -> None:
        """All of these nodes of one branch, or none of them."""
        if len(nodes) < 2:
            for node in nodes:
                self.admit(node)
            return
        branch, last_id = nodes[0].branch, self._last_id
        before = (list(self._open[branch]), dict(self.names[branch]), self.num_unnamed[branch])
        with_roles, since_gen = branch in self._with_roles, self._since_gen.get(branch)
        try:
            for node in nodes:
                assert node.branch == branch, "what is written at once stands on one branch"
                assert not isinstance(node, Fork | Join), "forks and joins are written alone"
                self.admit(node)
        except BaseException:
            self._open[branch], self.names[branch], self.num_unnamed[branch] = before
            if not with_roles:
                self._with_roles.discard(branch)
            self._since_gen.pop(branch, None)
            if since_gen is not None:
                self._since_gen[branch] = since_gen
            self._last_id = last_id
            raise

    def admit(self, node: Node) -> None:
        assert node.id > self._last_id, "node ids rise in program order"
        if node.branch in self._joined:
            raise UsageError(
                f"{node} at {node.source}: this fork has been joined, nothing can be appended to "
                "it any more; append to its parent, or join later"
            )
        assert node.branch in self._open, "a branch exists before its nodes"
        match node:
            case Text(text=text):
                if not is_text(text):
                    raise UsageError(
                        f"{node} at {node.source}: a lone surrogate is no text; "
                        "encode or replace it"
                    )
            case Gen(name=name):
                key = name or self.num_unnamed[node.branch]
                self._since_gen[node.branch] = (node.id, (key,))
                self._define(node.branch, name)
                if node.reasoning_name is not None:
                    self._define(node.branch, node.reasoning_name)
            case Select(name=name) | Assign(name=name):
                self._since_gen.pop(node.branch, None)
                self._define(node.branch, name)
            case Ref(name=name):
                self._require(node, name)
            case Check(name=name):
                self.checked(node, name)
            case RoleBegin() | RoleEnd() | ScopeBegin() | ScopeEnd():
                self._bracket(node)
            case Fork():
                self._fork(node)
            case Join():
                self._join(node)
            case _:
                pass
        self._last_id = node.id

    def last_gen(self, branch: int) -> str | int | None:
        """What the gen wrote that a check would look at; None where there is nothing to check."""
        return self._since_gen[branch][1][0] if branch in self._since_gen else None

    def checked(self, node: Check, name: str | None) -> tuple[int, str | int]:
        """The id of the gen that a check may have written again, and what it looks at: `name`, or
        that gen's own output (an int: an unnamed one).
        """
        if node.branch not in self._since_gen:
            raise UsageError(
                f"{node} at {node.source}: no gen to write again: on this branch there is none, or "
                "a select, an assignment, a fork or a join came after it; check right after the gen"
            )
        gen, since = self._since_gen[node.branch]
        if name is not None and name not in since:
            raise UsageError(
                f"{node} at {node.source}: {name!r} was not written by the last gen or since, only "
                f"{list(since)} can be checked here; check right after its gen"
            )
        return gen, since[0] if name is None else name

    def _define(self, branch: int, name: str | None) -> None:
        if name is None:
            self.num_unnamed[branch] += 1
        else:
            self.names[branch][name] = None

    def _require(self, node: Node, name: str) -> None:
        names = self.names[node.branch]
        if name not in names:
            raise UsageError(
                f"{node} at {node.source}: no variable {name!r} on this branch, it has "
                f"{list(names)}; generate or assign it before it is used"
            )

    def _bracket(self, node: RoleBegin | RoleEnd | ScopeBegin | ScopeEnd) -> None:
        stack = self._open[node.branch]
        match node:
            case RoleBegin(role=role):
                opened = self._role(node.branch)
                if opened is not None:
                    raise UsageError(
                        f"{node} at {node.source}: role {opened!r} is still open; "
                        "close it before another role begins"
                    )
                stack.append(("role", role))
            case ScopeBegin(name=name):
                stack.append(("scope", name))
            case RoleEnd(role=name) | ScopeEnd(name=name):
                if not stack or stack[-1] != (node.kind, name):
                    last = f"{stack[-1][0]} {stack[-1][1]!r}" if stack else "nothing"
                    raise UsageError(
                        f"{node} at {node.source}: closes {node.kind} {name!r}, "
                        f"but {last} is open; close what was opened last"
                    )
                stack.pop()
                if isinstance(node, ScopeEnd):
                    self._define(node.branch, name)
                    if node.branch in self._since_gen:
                        gen, since = self._since_gen[node.branch]
                        self._since_gen[node.branch] = (gen, (*since, name))
        if isinstance(node, (RoleBegin, RoleEnd)):
            self._with_roles.add(node.branch)

    def _role(self, branch: int) -> str | None:
        """The role that is open on the branch; roles do not nest."""
        return next((name for kind, name in self._open[branch] if kind == "role"), None)

    def _fork(self, node: Fork) -> None:
        parent = node.branch
        self._since_gen.pop(parent, None)
        for child in node.children:
            assert child not in self._open, "a branch is opened once"
            assert child > ROOT, "what is below are the machine's own branches"
            self._parents[child] = parent
            self._open[child] = [entry for entry in self._open[parent] if entry[0] == "role"]
            self.names[child] = dict(self.names[parent])
            self._inherited[child] = frozenset(self.names[parent])
            self._forked_in[child] = self._role(parent)
            self.num_unnamed[child] = self.num_unnamed[parent]

    def _join(self, node: Join) -> None:
        self._since_gen.pop(node.branch, None)
        if node.mode not in JOIN_MODES:
            raise UsageError(
                f"{node} at {node.source}: mode {node.mode!r} is not allowed; "
                f"it is one of {', '.join(JOIN_MODES)}"
            )
        assert len({*node.children}) == len(node.children), "a join has every fork once"
        for child in node.children:
            assert self._parents.get(child) == node.branch, "a fork is joined where it was forked"
            if child in self._joined:
                raise UsageError(
                    f"{node} at {node.source}: fork b{child} has been joined already; "
                    "a fork is joined once"
                )
            scopes = [name for kind, name in self._open[child] if kind == "scope"]
            if scopes:
                raise UsageError(
                    f"{node} at {node.source}: scope {scopes[-1]!r} of fork b{child} is still "
                    "open; close it before the join"
                )
            if node.mode == "concate_and_append" and child in self._with_roles:
                self._check_roles(node, child)
        if node.mode == "gather_variable":
            for name in self.new_names(node.children):
                self._define(node.branch, name)
        elif any(child in self._with_roles for child in node.children):
            self._with_roles.add(node.branch)
        self._joined.update(node.children)

    def new_names(self, children: Sequence[int]) -> tuple[str, ...]:
        """What these forks define beyond what their parent had."""
        new: dict[str, None] = {}
        for child in children:
            inherited = self._inherited[child]
            new.update((name, None) for name in self.names[child] if name not in inherited)
        return tuple(new)

    def _check_roles(self, join: Join, child: int) -> None:
        """The fork's text is appended: what it says of roles must be whole messages, or template
        text would end up inside of a message.
        """
        reason = None
        if (inherited := self._forked_in[child]) is not None:
            reason = (
                f"fork b{child} has closed the role {inherited!r}, which was open at the fork; "
                "close it on the parent, after the join"
            )
        elif (own := self._role(child)) is not None:
            reason = f"role {own!r} of fork b{child} is still open; close it before the join"
        elif (outer := self._role(join.branch)) is not None:
            reason = (
                f"fork b{child} has messages of its own, but role {outer!r} is open here; "
                "close it before the join"
            )
        if reason is not None:
            raise UsageError(f"{join} at {join.source}: {reason}")


@dataclass(frozen=True, slots=True)
class Graph:
    """A program with its nodes; what `trace()` returns. Checked at construction."""

    name: str
    parameters: tuple[str, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raises `UsageError` at the first node that cannot stand where it stands."""
        shape = Shape()
        for node in self.nodes:
            shape.admit(node)

    def branch(self, branch: int) -> Iterator[Node]:
        return (node for node in self.nodes if node.branch == branch)

    @property
    def head(self) -> str:
        """The program's name and its parameters."""
        return f"{self.name}({', '.join(self.parameters)})"

    def draw(self, *, max_nodes: int = 200) -> str:
        """The graph as a tree, for a terminal. Branches of a fork that look the same are shown
        once; what lies beyond `max_nodes` nodes is counted.
        """
        return draw(self.head, self.nodes, max_nodes=_checked(max_nodes))

    def to_mermaid(self, *, max_nodes: int = 200) -> str:
        """The graph as a Mermaid flowchart; what lies beyond `max_nodes` nodes is counted."""
        return to_mermaid(self.nodes, max_nodes=_checked(max_nodes))

    def _repr_html_(self) -> str:
        return graph_html(self.head, self.nodes, max_nodes=HTML_NODES)

    def __str__(self) -> str:
        """Every node, with its id. What is nested too deep stands below each other."""
        printed = [f"graph {self.head}"]
        nodes = by_branch(self.nodes)
        due: list[tuple[int, Iterator[Node | str]]] = [(1, iter(nodes.get(ROOT, ())))]
        while due:
            depth, rest = due[-1]
            entry = next(rest, None)
            if entry is None:
                due.pop()
                continue
            indent = 2 * min(depth, _DEEPEST) - (2 if isinstance(entry, str) else 0)
            printed.append(f"{' ' * indent}{entry}")
            if isinstance(entry, Fork):
                due += [
                    (depth + 2, chain([f"b{child}:"], nodes.get(child, ())))
                    for child in reversed(entry.children)
                ]
        return "\n".join(printed)


def _checked(max_nodes: object) -> int:
    if not isinstance(max_nodes, int) or isinstance(max_nodes, bool) or max_nodes < 1:
        raise UsageError(
            f"max_nodes={max_nodes!r} is not allowed; max_nodes is a whole number, at least 1"
        )
    return max_nodes
