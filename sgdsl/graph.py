"""The execution graph: nodes in the order of the program, their check and their printed form.

Owns what a program compiles to. Pure data: knows nothing of execution, tokens, threads or backends.
A graph is a flat list of nodes in the order in which the program wrote them; `branch` says on which
line of the run a node stands (0 is the root; `Fork` opens more). The printed form is what traces,
tests, errors and docs show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

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
from sgdsl.shape import Shape

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
    "Text",
    "may_define",
    "shorten",
]


HTML_NODES = 1000
"""How many nodes a notebook shows."""

_DEEPEST = 60


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
