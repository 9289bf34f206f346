"""Nodes as a tree: what stands inside of a role, a scope or a fork's branch.

Owns the nesting that the views of graphs and runs share, what is left out of large ones, and how
anybody's text is made safe to show. Knows nothing of what a view looks like. Everything here takes
time in proportion to the nodes, whatever their nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sgdsl.nodes import ROOT, Join, Node, RoleBegin, RoleEnd, ScopeBegin, ScopeEnd

E = TypeVar("E")

MAX_DEPTH = 24
"""What is nested deeper is counted, not shown."""


@dataclass(slots=True)
class Item(Generic[E]):
    """`entry`: of a node; None: `branch` is the one that begins here (of the root: -1), `num_alike`
    of which look the same. `size`: how many nodes it holds, its own included.
    """

    entry: E | None
    branch: int = -1
    children: list[Item[E]] = field(default_factory=list)
    size: int = 0
    num_alike: int = 1


def by_branch(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    """The nodes of each branch."""
    found: dict[int, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.branch, []).append(node)
    return found


def outline(branches: Mapping[int, Sequence[E]], node_of: Callable[[E], Node]) -> Item[E]:
    """All entries in one tree. A branch stands under the node that opens it."""
    root = Item[E](None)
    made: list[tuple[Item[E], Item[E]]] = []  # with what it stands in, which is made before it
    left = dict.fromkeys(branches)
    due = [(ROOT, root)]
    while due or left:
        if not due:  # opened by no node that is there
            due.append((next(iter(left)), Item(None, branch=next(iter(left)))))
            root.children.append(due[-1][1])
            made.append((due[-1][1], root))
        branch, item = due.pop()
        left.pop(branch, None)
        open_items = [item]
        for entry in branches.get(branch, ()):
            node = node_of(entry)
            if isinstance(node, RoleEnd | ScopeEnd) and len(open_items) > 1:
                open_items.pop()
                continue
            own = Item(entry, size=1)
            open_items[-1].children.append(own)
            made.append((own, open_items[-1]))
            if isinstance(node, RoleBegin | ScopeBegin):
                open_items.append(own)
            for child in _opened(node):
                begin = Item[E](None, branch=child)
                own.children.append(begin)
                made.append((begin, own))
                due.append((child, begin))
    for own, within in reversed(made):
        within.size += own.size
    return root


def _opened(node: Node) -> tuple[int, ...]:
    """The branches that begin with this node."""
    return () if isinstance(node, Join) else getattr(node, "children", ())


def merge_alike(root: Item[E], label: Callable[[E], str]) -> None:
    """Branches of one fork that hold the same, one after another, become one of them."""
    numbers: dict[tuple[object, ...], int] = {}
    known: dict[int, int] = {}
    for item in reversed([*walk(root)]):
        kept: list[Item[E]] = []
        for child in item.children:
            last = kept[-1] if kept else None
            if (
                last is not None
                and last.entry is child.entry is None
                and known[id(last)] == known[id(child)]
            ):
                last.num_alike += 1
            else:
                kept.append(child)
        item.children = kept
        shown = "" if item.entry is None else label(item.entry)
        inside = tuple((known[id(child)], child.num_alike) for child in kept)
        known[id(item)] = numbers.setdefault((shown, inside), len(numbers))


def walk(root: Item[E]) -> Iterator[Item[E]]:
    """The items in their order, each before what it holds."""
    due = [root]
    while due:
        item = due.pop()
        yield item
        due += reversed(item.children)


@dataclass(frozen=True, slots=True)
class Line(Generic[E]):
    """One line of a view: an item, or how many nodes are left out there. `lasts`: for each level
    down to it, whether what it stands in is the last one there.
    """

    item: Item[E] | None
    lasts: tuple[bool, ...]
    num_left_out: int = 0


def lines(root: Item[E], *, max_nodes: int, max_depth: int = MAX_DEPTH) -> Iterator[Line[E]]:
    """The lines below the root: `max_nodes` nodes at most, and what is left out."""
    num_shown, num_covered = 0, 0
    due: list[tuple[Item[E], tuple[bool, ...]]] = [
        (child, (child is root.children[-1],)) for child in reversed(root.children)
    ]
    while due:
        item, lasts = due.pop()
        if num_shown >= max_nodes:
            yield Line(None, (True,), root.size - num_covered)
            return
        yield Line(item, lasts)
        own = int(item.entry is not None)
        num_shown += own
        num_covered += own + item.size * (item.num_alike - 1)
        if len(lasts) >= max_depth and item.size > own:
            yield Line(None, (*lasts, True), item.size - own)
            num_covered += item.size - own
            continue
        last = item.children[-1] if item.children else None
        due += [(child, (*lasts, child is last)) for child in reversed(item.children)]


def title(item: Item[E]) -> str:
    """What stands where branches begin."""
    if item.branch < 0:  # the machine's own, one for each output of a gen
        return f"output {(-1 - item.branch & 0xFFFFFFFF) + 1}"
    if item.num_alike == 1:
        return f"b{item.branch}"
    return f"b{item.branch} and {item.num_alike - 1} alike"
