"""What no single place of a grammar shows. Owns the checks of all definitions together.

It must not know of tokens; the text is for the places in errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammars.cfg_scanner import malformed, unsupported
from grammars.cfg_tree import (
    GrammarTree,
    Items,
    Node,
    Options,
    Symbol,
    Text,
    is_terminal,
    symbols_of,
)
from grammars.regex_tree import span

MAX_IGNORED = 16
"""Characters of an ignored terminal: a model that may write white space without end often does."""


def check(text: str, tree: GrammarTree) -> None:
    """Raises GrammarError or UnsupportedError for what the definitions say together."""
    _check_names(text, tree)
    order = terminals_in_order(tree, text)
    lengths: dict[str, int | None] = {}
    for name in order:
        lengths[name] = _longest(tree.definitions[name].body, lengths)
    for ignored in tree.ignored:
        most = _longest(ignored.node, lengths)
        if most is None or most > MAX_IGNORED:
            raise unsupported(
                text,
                f"an %ignore of more than {MAX_IGNORED} characters, with which a model could go "
                "on for ever; bound it, as in %ignore /[ \\n]{1,4}/",
                ignored.offset,
            )


def _check_names(text: str, tree: GrammarTree) -> None:
    """Every name is defined, and terminals are made of terminals."""
    used = [(entry.node, "") for entry in tree.ignored if isinstance(entry.node, Symbol)]
    for owner, definition in tree.definitions.items():
        used += [(symbol, owner) for symbol in symbols_of(definition.body)]
    for symbol, owner in used:
        if symbol.name not in tree.definitions:
            raise malformed(
                text, f"{symbol.name!r} is not defined; define it, or quote a text", symbol.offset
            )
        if is_terminal(owner) and not is_terminal(symbol.name):
            raise malformed(
                text,
                f"the terminal {owner!r} has the rule {symbol.name!r} inside; make that a "
                "terminal, in upper case, or this a rule",
                symbol.offset,
            )


def terminals_in_order(tree: GrammarTree, text: str = "") -> list[str]:
    """The terminals, each after those that it is made of; raises GrammarError where there is no
    such order. A loop and no recursion: they may be a long chain.
    """
    order: dict[str, None] = {}
    for root in filter(is_terminal, tree.definitions):
        path: dict[str, Iterator[Symbol]] = {}
        if root not in order:
            path[root] = iter(symbols_of(tree.definitions[root].body))
        while path:
            name, inside = next(reversed(path.items()))
            symbol = next(inside, None)
            if symbol is None:
                del path[name]
                order[name] = None
            elif symbol.name in path:
                raise malformed(
                    text,
                    f"the terminal {symbol.name!r} contains itself; make it a rule, in lower case",
                    symbol.offset,
                )
            elif symbol.name not in order:
                path[symbol.name] = iter(symbols_of(tree.definitions[symbol.name].body))
    return list(order)


def _longest(node: Node, lengths: dict[str, int | None]) -> int | None:
    """The most characters of a terminal (None: any number), from those of its parts."""
    if isinstance(node, Text):
        return span(node.tree)[1]
    if isinstance(node, Symbol):
        return lengths[node.name]
    if isinstance(node, Items | Options):
        parts = node.items if isinstance(node, Items) else node.options
        found = [_longest(part, lengths) for part in parts]
        bounded = [length for length in found if length is not None]
        if len(bounded) < len(found):
            return None
        return sum(bounded) if isinstance(node, Items) else max(bounded)
    body = _longest(node.body, lengths)
    if body == 0 or node.high == 0:
        return 0
    return None if node.high is None or body is None else body * node.high
