"""Which of several backends has computed the beginning of a run's text before.

Owns a guess at what their prefix caches hold, from what was sent to each: a router has neither
their tokens nor their pages. Texts are known by blocks, each by the hash of all text up to its end,
so that blocks which are known from the first one on are a common beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

from sgdsl.graph import Text
from sgdsl.nodes import Node, RoleBegin, RoleEnd

BLOCK_CHARS = 128
"""About two pages of 16 tokens."""

MAX_CHARS = 1 << 18
"""Of a beginning: what is longer is as good as known when so much is."""

MAX_BLOCKS = 1 << 16
"""That are kept for each backend, the last used ones: two million tokens, more than most hold."""


def beginning(nodes: Iterable[Node]) -> str:
    """The text before the first thing that a model writes, roles included."""
    parts: list[str] = []
    size = 0
    for node in nodes:
        if isinstance(node, Text):
            parts.append(node.text)
        elif isinstance(node, RoleBegin | RoleEnd):
            parts.append(f"\0{type(node).__name__} {node.role}\0")
        else:
            break
        size += len(parts[-1])
        if size >= MAX_CHARS:
            break
    return "".join(parts)[:MAX_CHARS]


def blocks_of(text: str) -> list[bytes]:
    """A key for each whole block, of all the text up to its end."""
    running = blake2b(digest_size=16)
    keys = []
    for end in range(BLOCK_CHARS, len(text) + 1, BLOCK_CHARS):
        running.update(text[end - BLOCK_CHARS : end].encode("utf-8", "surrogatepass"))
        keys.append(running.digest())
    return keys


class Affinity:
    """What each of `num_backends` has been sent. Not thread-safe."""

    def __init__(self, num_backends: int, *, max_blocks: int = MAX_BLOCKS) -> None:
        self._known: list[OrderedDict[bytes, None]] = [OrderedDict() for _ in range(num_backends)]
        self._max_blocks = max_blocks

    def num_known(self, index: int, blocks: list[bytes]) -> int:
        """How many of the first blocks this backend has been sent."""
        known = self._known[index]
        return next((i for i, key in enumerate(blocks) if key not in known), len(blocks))

    def num_kept(self, index: int) -> int:
        """Blocks that this backend has been sent, of all runs."""
        return len(self._known[index])

    def sent(self, index: int, blocks: list[bytes]) -> None:
        known = self._known[index]
        for key in reversed(blocks):  # the first ones are used last, since others need them most
            known[key] = None
            known.move_to_end(key)
        while len(known) > self._max_blocks:
            known.popitem(last=False)

    def forget(self, index: int) -> None:
        """It has failed: what it held may be gone."""
        self._known[index].clear()
