"""The host tier's pages: where pages go that have to leave the pool.

Owns which of them are free, and in which order the others are given up. It must not know what a
node is, nor when its page comes or goes: that is the prefix cache's business.

Who was evicted from the pool first is given up first. A node leaves the pool after those behind it,
so whoever is first here has nobody behind it any more.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Owner = TypeVar("Owner")


class HostPages(Generic[Owner]):
    """`num_pages` pages from number `first` on."""

    def __init__(self, *, first: int, num_pages: int) -> None:
        self.first = first
        self.num_pages = num_pages
        self._free = list(range(first + num_pages - 1, first - 1, -1))
        self._owners: OrderedDict[int, Owner] = OrderedDict()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def first_owner(self) -> Owner | None:
        """Who is to be given up first; None if all pages are free or held."""
        return next(iter(self._owners.values()), None)

    def take(self) -> int:
        """A free page. Nobody gives it up before it is offered."""
        return self._free.pop()

    def offer(self, page: int, owner: Owner) -> None:
        """The page may be given up, after all others."""
        self._owners[page] = owner
        self._owners.move_to_end(page)

    def hold(self, page: int) -> None:
        """The page may not be given up until it is offered again."""
        self._owners.pop(page, None)

    def free(self, page: int) -> None:
        self._owners.pop(page, None)
        self._free.append(page)

    def check_integrity(self, owned: list[int]) -> None:
        """`owned`: the pages that nodes have."""
        pages = range(self.first, self.first + self.num_pages)
        assert sorted([*self._free, *owned]) == list(pages), "a page of the host has one owner"
        assert set(self._owners) == set(owned), "whatever nobody holds can be given up"
