"""How a run ended: the one record that tells the truth about a row.

Owns the outcome, its status words and how a failure is put. Knows nothing of how a run is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sgdsl.errors import ProgramError, told
from sgdsl.graph import Node
from sgdsl.source import Source

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


OK, TRUNCATED = Outcome("ok"), Outcome("truncated")


def failure(cause: BaseException, *, node: Node | None, source: Source | None) -> ProgramError:
    """`cause` as the failure of `node`, at `source`. That of a nested run is passed on as it is."""
    if isinstance(cause, ProgramError):
        return cause
    where = [str(node)] if node is not None else []
    where += [f"at {source}"] if source is not None else []
    error = ProgramError(
        f"{' '.join(where)}: {told(cause)}".removeprefix(": "),
        node=str(node) if node is not None else None,
        source=str(source) if source is not None else None,
    )
    error.__cause__ = cause
    return error
