"""What was computed once and may be used again. Owns the bound on its bytes.

It must not know what a mask says.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Protocol


class Sized(Protocol):
    """Something that knows how many bytes it keeps."""

    @property
    def num_bytes(self) -> int: ...


class MaskCache:
    """Masks by key, least recently used first; bounded in bytes. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._kept: OrderedDict[Hashable, Sized] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Sized | None:
        """What is kept under `key`, if it is here."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Hashable, made: Sized) -> None:
        """Keeps `made`, and as many of the others as there is room for."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = made
            self._num_bytes += made.num_bytes
            while self._num_bytes > self._max_bytes and len(self._kept) > 1:
                self._num_bytes -= self._kept.popitem(last=False)[1].num_bytes
