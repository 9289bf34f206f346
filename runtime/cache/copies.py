"""Copies of pages: what the cache asks of whoever has the tensors.

Owns the request. It must not know why a page is copied.
"""

from __future__ import annotations

from typing import NamedTuple


class Copy(NamedTuple):
    """The first `num_slots` slots of the page `source` are to be those of the page `target` too.

    Copies are carried out in the order in which they were asked for, all of them before anything is
    computed that was scheduled with them. So a page can be given to somebody else as soon as its
    copy is asked for.
    """

    source: int
    target: int
    num_slots: int
