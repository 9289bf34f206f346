"""Rows: what a job reads, one at a time, and how equal ones are known.

Owns the row and its key. Knows nothing of files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import to_jsonable_python

KEY_DIGITS = 32
"""Hexadecimal ones, 128 bits: two of ten million rows have the same with a chance of 1.5e-25."""


@dataclass(frozen=True, slots=True)
class Row:
    """number: its place in the input, from 0 on. `fault`: why there are no columns there."""

    number: int
    columns: Mapping[str, Any]
    fault: str | None = None


def key_of(arguments: Mapping[str, Any]) -> str:
    """The same for equal arguments, whatever else their row has, and in every process."""
    return sha256(canonical(arguments).encode()).hexdigest()[:KEY_DIGITS]


def canonical(value: Any) -> str:
    """JSON of it in ASCII, the same for equal values."""
    return json.dumps(jsonable(value), sort_keys=True, separators=(",", ":"))


def jsonable(value: Any) -> Any:
    """What stands for it in JSON: of bytes base64, of dates ISO 8601, of what is unknown a text."""
    return to_jsonable_python(
        value, bytes_mode="base64", inf_nan_mode="constants", fallback=str, serialize_unknown=True
    )


def digest_of(value: Any) -> str:
    """Of what is too long to be said again."""
    return sha256(canonical(value).encode()).hexdigest()[:KEY_DIGITS]
