"""Where an object stands between two members. Owns the register, and sets of slots as bits.

It must not know which members may follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from grammars.member_table import Choice


class State(NamedTuple):
    """Where an object stands between two members.

    `used`: the slots (as bits) that matter for what may follow; `at`: the first slot that may
    follow (0 where the order is free); `num_members`: members so far, as far as counts matter;
    `credit`: the `some` rules that are met; `is_first`: no member was written.
    """

    used: int = 0
    at: int = 0
    num_members: int = 0
    credit: int = 0
    is_first: bool = True


class Step(NamedTuple):
    """One member: of the slot `part`, or (`of_cell`) of that cell."""

    part: int
    choice: Choice
    of_cell: bool


def sum_bits(masks: Iterable[int]) -> int:
    """The union of sets of bits."""
    found = 0
    for mask in masks:
        found |= mask
    return found


def bits(mask: int) -> Iterator[int]:
    """The bits of a set, the lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest


def index_of_bit(bit: int) -> int:
    """The number of a bit."""
    return bit.bit_length() - 1
