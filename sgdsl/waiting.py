"""Who is told when a body's thread has to wait.

Owns the hook that a pool of threads sets for its own threads. Knows nothing of pools or runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

blocking_hook: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar(
    "blocking_hook", default=nullcontext
)


def blocking() -> AbstractContextManager[None]:
    """To be entered around every wait of a body."""
    return blocking_hook.get()()
