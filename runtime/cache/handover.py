"""The handover: which cached prefixes go into the prefix file, and how those in it come back.

Owns the choice, and what is said of a file that cannot be used. The format is the business of
`file`, what the KV depends on that of whoever makes the key.

Only prefixes without a salt are handed over: what was computed for a tenant stays in the process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np

from runtime.cache import file
from runtime.cache.copies import Copy
from runtime.cache.file import Key, Prefixes, UnusableFileError
from runtime.cache.nodes import PageNode
from runtime.cache.pins import Pins
from runtime.cache.prefix import PrefixCache
from runtime.cache.store import PageStore


class Handover:
    """`tell` is called with what an operator should hear of. `settle` and `take` are for whoever
    owns the cache, between two steps; `write` is for any thread.
    """

    def __init__(
        self, path: Path, key: Key, *, pages: PageStore, tell: Callable[[str], None]
    ) -> None:
        self._path = path
        self._key = key
        self._pages = pages
        self._tell = tell

    def load(self, cache: PrefixCache) -> None:
        """Cache what is in the file, as far as there are free pages. Whatever is wrong with it, the
        cache is as it was.
        """
        try:
            found = file.read(
                self._path,
                self._key,
                page_size=cache.page_size,
                page_shape=self._pages.page_shape,
            )
        except UnusableFileError as error:
            self._tell(f"{self} {error}; starting without it")
        except (OSError, MemoryError) as error:
            self._tell(f"{self} cannot be read ({_reason(error)}); starting without it")
        else:
            if found is not None:
                give(found, cache, self._pages)

    def settle(self, copies: Sequence[Copy]) -> None:
        """Carry out what the cache has asked for and no step has done yet."""
        self._pages.copy(copies)

    def take(self, cache: PrefixCache, pins: Pins) -> Prefixes:
        """Copies of the pages that are worth most, as many as a file holds."""
        most = file.max_pages(self._pages.page_bytes, cache.page_size)
        chosen = hottest(cache, pins.nodes, most)
        numbers = {node: number for number, node in enumerate(chosen)}
        return Prefixes(
            tokens=np.array([node.key for node in chosen], np.int64).reshape(-1, cache.page_size),
            parents=np.array([numbers.get(_parent(node), -1) for node in chosen], np.int64),
            pages=self._pages.read([node.source for node in chosen]).numpy(),
        )

    def write(self, prefixes: Prefixes) -> str | None:
        """What went wrong, if anything did; the old file is there then. No pages are no reason to
        forget those in it.
        """
        if not len(prefixes):
            return None
        try:
            file.write(self._path, prefixes, self._key)
        except UnusableFileError as error:
            return f"{self} {error}; the prefixes are not saved"
        except (OSError, MemoryError) as error:
            return f"{self} cannot be written ({_reason(error)}); the prefixes are not saved"
        return None

    def __str__(self) -> str:
        return f"prefix_file={str(self._path)!r}"


def hottest(cache: PrefixCache, pinned: Collection[PageNode], most: int) -> list[PageNode]:
    """Whole pages without a salt, at most so many, each behind those that lead to it: first what is
    pinned, then by heat, then by the last use. A page for whose path there is no room is left out.
    """
    nodes = [node for node in _below(cache.root) if len(node.key) == cache.page_size]
    nodes.sort(key=lambda node: (node in pinned, node.heat, node.used), reverse=True)
    chosen: dict[PageNode, None] = {}
    for node in nodes:
        if len(chosen) == most:
            break
        path: list[PageNode] = []
        above: PageNode | None = node
        while above is not None and above is not cache.root and above not in chosen:
            path.append(above)
            above = above.parent
        if len(chosen) + len(path) <= most:
            chosen.update(dict.fromkeys(reversed(path)))
    return list(chosen)


def give(prefixes: Prefixes, cache: PrefixCache, pages: PageStore) -> None:
    """Cache them, unlocked, while there are free pages; those that come first are evicted last."""
    nodes: list[PageNode] = []  # in their order: what has no page has none behind it either
    for key, parent, kv in zip(
        prefixes.tokens.tolist(), prefixes.parents.tolist(), prefixes.pages, strict=True
    ):
        if not cache.num_free:
            break
        page = cache.allocate()
        assert page is not None, "there is a free one"
        pages.write(page, kv)
        nodes.append(cache.insert(nodes[parent] if parent >= 0 else cache.root, tuple(key), page))
    for node in reversed(nodes):
        cache.unlock(node)


def _below(root: PageNode) -> list[PageNode]:
    found = list(root.children.values())
    for node in found:
        found += node.children.values()
    return found


def _parent(node: PageNode) -> PageNode:
    assert node.parent is not None, "only roots have no parent"
    return node.parent


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
