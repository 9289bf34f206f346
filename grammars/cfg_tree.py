"""What a grammar's text says, as a tree. Owns the nodes.

Nodes are compared by identity: two places of a text are two nodes.
It must not know of the text's syntax, nor of expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grammars.regex_tree import Tree


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """Characters: a literal, a range or a pattern. One terminal, where it stands in a rule."""

    tree: Tree


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """What a rule or a terminal stands for."""

    name: str
    offset: int


@dataclass(frozen=True, eq=False, slots=True)
class Items:
    """All of them, one after another."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Options:
    """Any of them."""

    options: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Times:
    """`low` to `high` (None: any number of) times the body."""

    body: Node
    low: int
    high: int | None


Node = Text | Symbol | Items | Options | Times


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A rule (lower case) or a terminal (upper case), and where its name stands."""

    name: str
    body: Node
    offset: int


@dataclass(frozen=True, eq=False, slots=True)
class Ignored:
    """A terminal that may stand between terminals, and where that is said."""

    node: Symbol | Text
    offset: int


@dataclass(frozen=True, eq=False, slots=True)
class GrammarTree:
    """All definitions by name, and what may stand between terminals."""

    definitions: Mapping[str, Definition]
    ignored: tuple[Ignored, ...]


def is_terminal(name: str) -> bool:
    """Whether it is the name of a terminal (and not of a rule)."""
    return name.isupper()


def parts_of(node: Node) -> tuple[Node, ...]:
    """The nodes right below."""
    if isinstance(node, Items):
        return node.items
    if isinstance(node, Options):
        return node.options
    return (node.body,) if isinstance(node, Times) else ()


def symbols_of(node: Node) -> list[Symbol]:
    """The symbols anywhere below, from left to right."""
    found = []
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, Symbol):
            found.append(here)
        pending.extend(reversed(parts_of(here)))
    return found
