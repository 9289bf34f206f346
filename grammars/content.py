"""What a constraint consists of: its size, and whether it is made of nothing but values.

It must not know the kinds of constraints; it looks at their fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammars.constraint import Constraint

BYTES_PER_PART = 80
"""What a field, or an item of a tuple, takes beside its text."""

_OWN = Constraint.__module__.partition(".")[0]


def num_bytes(constraint: Constraint) -> int:
    """About the memory that a constraint takes, its texts above all."""
    return sum(
        BYTES_PER_PART + (len(part) if isinstance(part, str | bytes) else 0)
        for part in _parts(constraint)
    )


def is_portable(constraint: Constraint) -> bool:
    """Whether another process can have it, in its portable form: it is of this package, and so is
    all that is inside, or text, numbers, None.
    """
    return all(
        isinstance(part, str | bytes | int | None)
        or (isinstance(part, Constraint) and type(part).__module__.partition(".")[0] == _OWN)
        for part in _parts(constraint)
    )


def _parts(constraint: Constraint) -> Iterator[object]:
    """The constraint and all that is inside of its portable form, without their tuples."""
    pending: list[object] = [constraint]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending.extend(part)
            continue
        yield part
        if isinstance(part, Constraint):
            pending += vars(part.portable()).values()
