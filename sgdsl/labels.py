"""What a node is called in a view: one word for what it does, and what is to be said of it."""

from __future__ import annotations

from grammars import Constraint, Regex, TypeOf
from sgdsl.nodes import Fork, Gen, Join, Node, RoleBegin, RoleEnd, ScopeBegin, ScopeEnd, shorten


def label(node: Node) -> tuple[str, str]:
    """The word, and the rest; ids of nodes and branches are left out."""
    match node:
        case Gen(name=name, constraint=Constraint() as constraint, sampling=sampling):
            return node.kind, f"{name or '_'} {asked(constraint)} {sampling}".rstrip()
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


def asked(constraint: Constraint) -> str:
    """A constraint in few words."""
    match constraint:
        case TypeOf(tp=type() as tp):
            return f"type={tp.__qualname__}"
        case TypeOf(tp=tp):
            return f"type={shorten(repr(tp))}"
        case Regex(pattern=pattern):
            return f"regex={shorten(pattern)!r}"
        case _:
            return shorten(repr(constraint))
