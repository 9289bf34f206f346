"""The nodes of the prefix cache's trees.

Owns what a node knows of itself. What becomes of it is the cache's business.
"""

from __future__ import annotations

from typing import Any

from runtime.cache.eviction import COLD, Heat
from runtime.cache.history import chain_of
from runtime.cache.keys import Keys

PageKey = tuple[int, ...]


class PageNode:
    """A cached page; the path from the root spells the prefix that it completes. `depth`: pages on
    that path; `chain`: its hash. `born`: rises with every page that is cached. `used`: rises with
    every end of a use; `heat`, `last_use`: the eviction order's. `waiters`: the observer's, who
    would go on from here, by the page that they would go on with. `keys`: the children's, in order.
    `page`: in the pool, `host`: on the host; -1: it has none there. `num_behind`: children whose
    pages are in the pool.
    """

    __slots__ = (
        "born",
        "chain",
        "children",
        "depth",
        "heat",
        "host",
        "key",
        "keys",
        "last_use",
        "locks",
        "num_behind",
        "page",
        "parent",
        "used",
        "waiters",
    )

    def __init__(self, key: PageKey, page: int, parent: PageNode | None, born: int = 0) -> None:
        self.key = key
        self.page = page
        self.parent = parent
        self.born = born
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.chain: int = 0 if parent is None else chain_of(parent.chain, key)
        self.waiters: dict[PageKey | None, dict[int, Any]] | None = None
        self.children: dict[PageKey, PageNode] = {}
        self.keys = Keys()
        self.host = -1
        self.num_behind = 0
        self.locks = 0
        self.used = 0
        self.heat: Heat = COLD
        self.last_use: tuple[int, int] | None = None

    @property
    def source(self) -> int:
        """The page to copy it from."""
        return self.page if self.page >= 0 else self.host


class Root(PageNode):
    """Where the prefixes of a salt begin: no page. Its locks are those who have entered; without
    them and without pages it goes.
    """

    __slots__ = ("salt",)

    def __init__(self, salt: str) -> None:
        super().__init__((), -1, None)
        self.salt = salt
        self.chain = hash(salt)
