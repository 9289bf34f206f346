"""What this process and the others take of the machine.

Owns clocks: the wall's, this process's CPU, and what others took meanwhile. Linux tells the last;
elsewhere it is unknown.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
BUSY_MACHINE = 0.1
"""Where others took more than this share of the machine, wall times say little."""


@dataclass(frozen=True)
class Taken:
    """Seconds. `others_s`: of CPU, by other processes; None: unknown."""

    wall_s: float
    cpu_s: float
    others_s: float | None

    @property
    def others_share(self) -> float | None:
        """Of all CPU time that there was."""
        if self.others_s is None or not self.wall_s:
            return None
        return max(0.0, self.others_s / (self.wall_s * (os.cpu_count() or 1)))


class Stopwatch:
    """From its making to `stop`."""

    def __init__(self) -> None:
        self._busy_s = busy_seconds()
        self._cpu_s = time.process_time()
        self._wall_s = time.perf_counter()

    def stop(self) -> Taken:
        wall_s = time.perf_counter() - self._wall_s
        cpu_s = time.process_time() - self._cpu_s
        busy_s = busy_seconds()
        known = busy_s is not None and self._busy_s is not None
        others_s = max(0.0, busy_s - self._busy_s - cpu_s) if known else None  # type: ignore[operator]
        return Taken(wall_s, cpu_s, others_s)


def busy_seconds(stat: Path = STAT) -> float | None:
    """Seconds that all CPUs together have worked since the start; None where nobody tells."""
    try:
        words = stat.read_text(encoding="ascii").splitlines()[0].split()[1:9]
    except (OSError, IndexError):
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, words)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def peak_rss_mib() -> int:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
