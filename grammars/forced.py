"""What a state forces. Owns the byte run that every continuation begins with, and where a
token may begin that reaches beyond it.

It must not know how text is split into tokens (see `jump_forward`).
"""

from __future__ import annotations

from grammars.completion import Completions
from grammars.derive import arms, step
from grammars.expr import Expr

MAX_FORCED_BYTES = 4_096
"""A run is looked at so far: long enough for any literal, and it always ends."""


def forced_run(node: Expr, completions: Completions) -> bytes:
    """The longest string that every string of `node` begins with, up to MAX_FORCED_BYTES."""
    found = bytearray()
    while not node.nullable and len(found) < MAX_FORCED_BYTES:
        alive = _living(node, completions)
        if len(alive) != 1:
            break
        ((byte, node),) = alive
        found.append(byte)
    return bytes(found)


def _living(node: Expr, completions: Completions) -> list[tuple[int, Expr]]:
    """The bytes after which something can be completed, and what; two of them are enough."""
    found: list[tuple[int, Expr]] = []
    for mask, rest in arms(completions.algebra, node):
        is_open = rest.is_open
        if not is_open and not completions.is_alive(rest):
            continue
        for byte in range(256):
            if not mask >> byte & 1:
                continue
            after = step(completions.algebra, node, byte) if is_open else rest
            if not is_open or completions.is_alive(after):
                found.append((byte, after))
                if len(found) > 1:
                    return found
    return found


def exceeding(node: Expr, written: bytes, completions: Completions) -> list[int]:
    """The places in `written`, which led to `node`, from which a token may reach beyond its end."""
    vocabulary = completions.vocabulary
    found = []
    for start in range(max(0, len(written) - vocabulary.longest + 1), len(written)):
        trie_node = 0
        for byte in written[start:]:
            trie_node = vocabulary.child.get(trie_node * 256 + byte, 0)
            if not trie_node:
                break
        if trie_node and _goes_on(trie_node, node, completions):
            found.append(start)
    return found


def _goes_on(trie_node: int, node: Expr, completions: Completions) -> bool:
    """Whether a token lies below a node of the trie, along bytes that `node` allows."""
    first_child, num_children, edge_byte = completions.vocabulary.trie.lists
    token_at = completions.vocabulary.token_at
    pending = [(trie_node, node)]
    while pending:
        above, state = pending.pop()
        if not num_children[above]:
            continue
        for child in range(first_child[above], first_child[above] + num_children[above]):
            rest = step(completions.algebra, state, edge_byte[child])
            if not completions.is_alive(rest):
                continue
            if token_at[child] >= 0:
                return True
            pending.append((child, rest))
    return False
