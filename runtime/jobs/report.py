"""The report: what a job came to.

Owns its figures, as a value. How it is shown is not its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runtime.jobs.entry import Status


@dataclass(frozen=True, kw_only=True)
class Report:
    """counts: rows by how they ended, in all runs of the job. `num_same`: those of them that equal
    another one, which alone was computed; `num_resumed`: those that earlier runs had done. Tokens
    and seconds are of this run. `is_complete`: every row of the input has ended.
    """

    output: Path | None
    journal: Path | None
    counts: Mapping[Status, int]
    num_same: int
    num_resumed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    wall_s: float
    is_complete: bool
    records: list[dict[str, Any]] | None = None
    """Those of a job without an output file."""

    @property
    def num_rows(self) -> int:
        """That have ended."""
        return sum(self.counts.values())

    @property
    def error_rate(self) -> float:
        """Of these, the share that has failed or was cancelled."""
        bad = self.counts["failed"] + self.counts["cancelled"]
        return bad / max(1, self.num_rows)

    @property
    def cache_hit_rate(self) -> float:
        return self.cached_tokens / max(1, self.prompt_tokens)

    def figures(self) -> dict[str, Any]:
        """As JSON."""
        said = asdict(self)
        del said["records"]
        return {
            **said,
            "output": None if self.output is None else str(self.output),
            "journal": None if self.journal is None else str(self.journal),
            "counts": dict(self.counts),
            "error_rate": round(self.error_rate, 6),
            "cache_hit_rate": round(self.cache_hit_rate, 4),
            "wall_s": round(self.wall_s, 3),
        }
