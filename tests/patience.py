"""How long a test waits before it calls something hung.

Such ends take some milliseconds, and 2 seconds are promised; a shared machine may stand still for
longer than that, and a hang lasts for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 10


def await_that(holds: Callable[[], bool]) -> None:
    """Return as soon as `holds()`; fail if it does not become true."""
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it does not come true"
        time.sleep(0.002)
