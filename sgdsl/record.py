"""How small immutable records are made, of which a run needs many.

Owns `record`. A dataclass that is frozen at run time sets every field through a check, which takes
most of the time that a record takes to make. Here the type checker does that: it reads all of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """A dataclass with slots, compared and hashed by its fields, which nobody assigns to."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
