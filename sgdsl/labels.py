"""What a node is called in a view: one word for what it does, and what is to be said of it."""

from __future__ import annotations

from sgdsl.nodes import Fork, Join, Node, RoleBegin, RoleEnd, ScopeBegin, ScopeEnd


def label(node: Node) -> tuple[str, str]:
    """The word, and the rest; ids of nodes and branches are left out."""
    match node:
        case RoleBegin(role=name) | ScopeBegin(name=name):
            return node.kind, name
        case RoleEnd(role=name) | ScopeEnd(name=name):
            return node.kind, f"end of {name}"
        case Fork(children=children):
            return node.kind, f"into {len(children)}"
        case Join(mode=mode):
            return node.kind, mode
        case _:
            return node.kind, node.describe()
