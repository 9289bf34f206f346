"""The watch over the prefix cache: says once why a workload that looks shared misses it.

Owns the window of prompts that is looked at, and when. What is wrong with one is the diagnosis's
business, and how it is told the caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence as List

from runtime.cache.diagnosis import Setup, Window, likely_cause
from runtime.cache.history import MIN_REACH, History

FIRST_LOOK, LAST_LOOK = 32, 4096
"""Prompts between two looks; twice as many after each one, so that a workload in which nothing is
shared pays a millisecond now and then.
"""

NUM_RECENT, MAX_TOKENS = 8, 1024
"""Prompts that are compared, and tokens of each."""


class CacheWatch:
    """`tell` is called once for each cause."""

    def __init__(self, setup: Setup, tell: Callable[[str], None]) -> None:
        self._setup = setup
        self._tell = tell
        self._told: set[str] = set()
        self._window = Window()
        self._recent: deque[tuple[str, List[int]]] = deque(maxlen=NUM_RECENT)
        self._look_after = FIRST_LOOK
        self._num_evicted = 0
        self._of_all: History | None = None  # whatever the salt, once there is one

    def saw(self, tokens: List[int], salt: str, *, cached: int, reusable: int) -> None:
        """A prompt that has just been let in for the first time; see `Window`."""
        if salt and self._of_all is None:
            self._of_all = History(page_size=self._setup.page_size, reach=MIN_REACH)
        window = self._window
        window.num_prompts += 1
        window.prompt_tokens += len(tokens)
        window.cached += cached
        window.reusable += reusable
        if self._of_all is not None:
            window.elsewhere += self._of_all.note(0, tokens, limit=len(tokens) - 1)
        self._recent.append((salt, tokens[:MAX_TOKENS]))

    @property
    def is_due(self) -> bool:
        return self._window.num_prompts >= self._look_after

    def look(self, num_evicted: int) -> None:
        """`num_evicted`: pages since the start."""
        window, self._window = self._window, Window()
        window.evicted_pages = num_evicted - self._num_evicted
        window.recent = list(self._recent)
        self._num_evicted = num_evicted
        self._look_after = min(2 * self._look_after, LAST_LOOK)
        cause = likely_cause(window, self._setup)
        if cause is not None and cause.name not in self._told:
            self._told.add(cause.name)
            self._tell(cause.message)
