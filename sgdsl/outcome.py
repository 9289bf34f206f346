"""How a run ended: the one record that tells the truth about a row.

Owns the outcome and its status words. Knows nothing of how a run is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "truncated", "cancelled"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`ok`: every node finished. `truncated`: finished, but an unconstrained `gen` was cut off by
    its token limit (a constrained one never is). `failed`, `cancelled`: `error` says why.
    """

    status: Status
    error: BaseException | None = None

    def __post_init__(self) -> None:
        needs_error = self.status in ("failed", "cancelled")
        assert needs_error == (self.error is not None), "exactly the unfinished carry an error"
