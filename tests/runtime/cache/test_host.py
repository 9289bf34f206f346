"""The order in which pages of the host are given up."""

from __future__ import annotations

import pytest

from runtime.cache.host import HostPages


def test_whoever_was_offered_first_goes_first_and_who_is_held_stays() -> None:
    host: HostPages[str] = HostPages(first=10, num_pages=3)
    pages = [host.take() for _ in range(3)]
    assert (sorted(pages), host.num_free, host.first_owner) == ([10, 11, 12], 0, None)
    for page, owner in zip(pages, "abc", strict=True):
        host.offer(page, owner)
    host.offer(pages[0], "a")
    assert host.first_owner == "b"
    host.hold(pages[1])
    assert host.first_owner == "c"
    host.free(pages[2])
    assert host.first_owner == "a"
    assert host.take() == pages[2]


def test_a_page_has_one_owner() -> None:
    host: HostPages[str] = HostPages(first=4, num_pages=2)
    page = host.take()
    host.offer(page, "a")
    host.check_integrity([page])
    for owned in ([], [page, page], [4, 5]):
        with pytest.raises(AssertionError, match="one owner"):
            host.check_integrity(owned)
