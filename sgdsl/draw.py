"""Graphs as text, for terminals: a tree of its nodes.

Owns the strokes between the lines. What is nested in what is the outline's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgdsl.labels import label
from sgdsl.nodes import Node, printable
from sgdsl.outline import by_branch, lines, merge_alike, outline, title

WIDTH = 110
"""Characters of a line before it is cut."""


def draw(head: str, nodes: Sequence[Node], *, max_nodes: int) -> str:
    """The tree of `nodes` under the line `head`. Branches of a fork that look the same are shown
    once; at most `max_nodes` nodes are shown.
    """
    root = outline(by_branch(nodes), lambda node: node)
    merge_alike(root, _row)
    drawn = [printable(head)]
    for line in lines(root, max_nodes=max_nodes):
        item = line.item
        if item is None:
            text = left_out(line.num_left_out)
        else:
            text = title(item) if item.entry is None else _row(item.entry)
        drawn.append(strokes(line.lasts) + cut(text))
    return "\n".join(drawn)


def strokes(lasts: Sequence[bool]) -> str:
    """What leads from the level above to a line."""
    above = "".join("   " if last else "│  " for last in lasts[:-1])
    return above + ("└─ " if lasts[-1] else "├─ ")


def left_out(count: int) -> str:
    return f"… {count:,} more node{'' if count == 1 else 's'}"


def cut(text: str) -> str:
    """`text` on one line that a terminal can show."""
    text = printable(text)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _row(node: Node) -> str:
    word, rest = label(node)
    return f"{word:<7} {rest}".rstrip()
