"""Entries: what became of a row, as one line of the journal.

Owns the record and its JSON. Everything that a job says of a row is made of it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Status = Literal["ok", "failed", "truncated", "cancelled", "skipped"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """row: its number. key: of its arguments. `same_as`: the row that it equals, whose entry is
    this one's too; then nothing else is said.

    code, message: why it is neither ok nor truncated. attempts: how often it was tried, in all
    runs of the job. output: what was written, as JSON. Tokens are of all its generations.
    columns: its own, where the input cannot be read again.
    """

    row: int
    key: str
    same_as: int | None = None
    status: Status = "ok"
    code: str | None = None
    message: str | None = None
    attempts: int = 1
    output: Any = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    columns: dict[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        """There is an output."""
        return self.status in ("ok", "truncated")

    def line(self) -> bytes:
        """Without what is as it is by default. In ASCII: what is no text in Unicode stays, too."""
        said = {
            name: value
            for name, value in asdict(self).items()
            if name in ("row", "key") or value != _DEFAULTS[name]
        }
        return json.dumps(said, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Entry:
        """Raises ValueError for what no entry wrote."""
        said = json.loads(line)
        if not isinstance(said, dict) or not said.keys() <= _NAMES or not said.keys() >= _NEEDED:
            raise ValueError("it is no entry of a row")
        if type(said["row"]) is not int or said["row"] < 0:
            raise ValueError(f"{said['row']!r} is no number of a row")
        if said.get("status", "ok") not in STATUSES:
            raise ValueError(f"{said['status']!r} is no status")
        int(said["key"], 16)
        return cls(**said)


_NAMES = {field.name for field in fields(Entry)}
_NEEDED = {"row", "key"}
_DEFAULTS = {field.name: field.default for field in fields(Entry)}
