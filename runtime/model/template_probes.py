"""The conversations that a chat template is read by.

Owns their roles, and contents that are recognised in what becomes of them. All are asked for at
once: they cost a process, not one each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from runtime.model.template_rendering import Conversation

Roles = tuple[str, ...]
Probe = tuple[Conversation, bool]
"""A conversation, and whether the generation prompt follows it."""

EDGE = " \n"
"""White space around a content."""

_MARK = re.compile("\x02Aa([0-9]+)<&'\"\x03")
_LONGEST = 4  # user and assistant messages in what is read; longer conversations confirm


def _mark(index: int) -> str:
    """Whoever changes letters, quotes or markup in a content shows."""
    return f"\x02Aa{index}<&'\"\x03"


def edged(roles: Sequence[str], *indices: int) -> Conversation:
    """Marked contents, with white space at the edges of these ones."""
    return tuple(
        (role, EDGE + _mark(i) + EDGE if i in indices else _mark(i)) for i, role in enumerate(roles)
    )


def emptied(roles: Sequence[str], index: int) -> Conversation:
    """Marked contents, but for this one: there is nothing."""
    return tuple((role, "" if i == index else _mark(i)) for i, role in enumerate(roles))


def split(text: str, num_messages: int, *, without: int | None = None) -> list[str] | None:
    """The text before, between and behind the marked contents; None unless each stands there once,
    in order. `without`: this one is not marked.
    """
    parts = _MARK.split(text)
    marked = [str(i) for i in range(num_messages) if i != without]
    return parts[::2] if parts[1::2] == marked else None


def _histories() -> Iterator[Roles]:
    for size in range(1, _LONGEST + 1):
        for roles in product(("user", "assistant"), repeat=size):
            if roles[-1] == "user":
                yield roles
                yield ("system", *roles)


ALONE: Roles = ("system",)

HISTORIES: tuple[Roles, ...] = (ALONE, *sorted(_histories(), key=len))
"""What a model continues: conversations that end with a user's message; shorter ones first. And a
system message alone, which many templates do not take.
"""

LATE: tuple[Roles, ...] = tuple(
    (*before, "system", "user")
    for before in (
        ("user",),
        ("user", "assistant"),
        ("system",),
        ("system", "user"),
        ("system", "user", "assistant"),
    )
)
"""Those with a system message that does not come first."""


BEGINNINGS: tuple[Roles, ...] = tuple(
    dict.fromkeys(
        roles[:size] for roles in (*HISTORIES, *LATE) for size in range(1, len(roles) + 1)
    )
)
"""All of these conversations, as far as they have come at any time."""


def _words(roles: Roles) -> Conversation:
    said = {"system": "Be brief, and <b>kind</b>.", "user": "Is 2 + 2 = 4?", "assistant": "It's 4."}
    return tuple((role, said[role]) for role in roles)


def _probes() -> Iterator[Probe]:
    yield from ((edged(roles), True) for roles in (*HISTORIES, *LATE))
    yield from ((edged(roles), False) for roles in BEGINNINGS)
    for roles in HISTORIES:
        if len(roles) - roles.count("system") < _LONGEST:
            yield from ((edged(roles, at), True) for at in range(len(roles)))
            yield from ((emptied(roles, at), True) for at in range(len(roles)))
    for roles in LATE:
        yield edged(roles, len(roles) - 2), True
    for start in (("user",), ("system", "user")):
        for rounds in range(5):
            roles = (*start, *("assistant", "user") * rounds)
            yield _words(roles), True
            yield edged(roles, *range(len(roles))), True


PROBES: tuple[Probe, ...] = tuple(dict.fromkeys(_probes()))
