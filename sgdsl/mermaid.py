"""Graphs as Mermaid flowcharts, for pages and notebooks that draw them.

Owns the syntax: shapes, edges, subgraphs, and the escape of whatever stands in a label. Source:
https://mermaid.js.org/syntax/flowchart.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sgdsl.draw import left_out
from sgdsl.labels import label
from sgdsl.nodes import Join, Node, RoleBegin, ScopeBegin, printable
from sgdsl.outline import Item, by_branch, lines, outline

_SHAPES = {
    "gen": ("([", "])"),
    "select": ("{{", "}}"),
    "fork": ("{", "}"),
    "join": ("{", "}"),
    "assign": ("[[", "]]"),
}
_PLAIN = re.compile(r"[^\w .,:=()+*/'…-]")
_MAX_LABEL = 80


def to_mermaid(nodes: Sequence[Node], *, max_nodes: int) -> str:
    """A flowchart of `nodes`: each branch from node to node, roles and scopes as boxes around their
    nodes. At most `max_nodes` nodes are shown.
    """
    chart = _Chart()
    root = outline(by_branch(nodes), lambda node: node)
    for line in lines(root, max_nodes=max_nodes):
        chart.close_to(len(line.lasts))
        if line.item is None:
            chart.more(line.num_left_out)
        elif line.item.entry is None:
            chart.branch(line.item.branch)
        else:
            chart.node(line.item, line.item.entry)
    chart.close_to(0)
    return "\n".join(["flowchart TD", *chart.statements, *chart.edges])


class _Chart:
    """`open_boxes`: the levels of the boxes that are open. A branch stands in the box that was open
    where it begins, and its nodes are tied to the last one that stands before them.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.edges: list[str] = []
        self._open_boxes: list[int] = []
        self._level = 0
        self._num_boxes = self._num_left_out = 0
        self._forks: list[tuple[int, str]] = []  # the levels of the nodes that open branches
        self._opening: set[str] = set()  # nodes that open branches
        self._last: dict[int, str] = {}  # by branch
        self._branches: list[tuple[int, int]] = [(0, 0)]  # with their levels
        self._names: dict[int, str] = {}  # what stands on the edge to a branch's first node

    def close_to(self, level: int) -> None:
        """The next line stands at `level`: what is deeper has ended."""
        while self._open_boxes and self._open_boxes[-1] >= level:
            self._open_boxes.pop()
            self._say("end")
        while len(self._branches) > 1 and self._branches[-1][0] >= level:
            self._branches.pop()
        while self._forks and self._forks[-1][0] >= level:
            self._forks.pop()
        self._level = level

    def branch(self, branch: int) -> None:
        self._branches.append((self._level, branch))
        self._names[branch] = f"b{branch}"
        if self._forks:
            self._last[branch] = self._forks[-1][1]

    def node(self, item: Item[Node], node: Node) -> None:
        word, rest = label(node)
        if isinstance(node, RoleBegin | ScopeBegin) and item.children:
            self._say(f'subgraph s{self._num_boxes}["{escape(f"{word} {rest}")}"]')
            self._num_boxes += 1
            self._open_boxes.append(self._level)
            return
        opening, closing = _SHAPES.get(word, ("[", "]"))
        name = f"n{node.id}"
        self._say(f'{name}{opening}"{escape(f"{word} {rest}".strip())}"{closing}')
        ends = [self._last[child] for child in _joined(node) if child in self._last]
        if ends and self._last.get(self._branches[-1][1]) in self._opening:
            self._last[self._branches[-1][1]] = name  # the way leads through the branches
        else:
            self._tie(name)
        self.edges += [f"  {end} --> {name}" for end in dict.fromkeys(ends)]
        if item.children:
            self._opening.add(name)
            self._forks.append((self._level, name))

    def more(self, count: int) -> None:
        name = f"more{self._num_left_out}"
        self._num_left_out += 1
        self._say(f'{name}["{escape(left_out(count))}"]')
        self._tie(name)

    def _tie(self, name: str) -> None:
        branch = self._branches[-1][1]
        if (last := self._last.get(branch)) is not None:
            edge = f'-->|"{named}"|' if (named := self._names.pop(branch, None)) else "-->"
            self.edges.append(f"  {last} {edge} {name}")
        self._last[branch] = name

    def _say(self, statement: str) -> None:
        self.statements.append("  " * (len(self._open_boxes) + 1) + statement)


def _joined(node: Node) -> tuple[int, ...]:
    return node.children if isinstance(node, Join) else ()


def escape(text: str) -> str:
    """`text` inside of a quoted label: what Mermaid could read as syntax or markup is an entity."""
    text = printable(text)
    if len(text) > _MAX_LABEL:
        text = text[: _MAX_LABEL - 1] + "…"
    return _PLAIN.sub(lambda match: f"#{ord(match[0])};", text)
