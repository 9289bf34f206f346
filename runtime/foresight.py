"""Foresight: how much sequences will still need, and when.

Owns the arithmetic of what is known ahead of a sequence (literals and budgets), of how much of the
budgets is used, and of the pages that several sequences will need together. Knows no queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdsl.graph import Collect, Fork, Gen, Join, Node, Sampling, Select, Text

BYTES_PER_TOKEN = 4
"""Of text that is not tokenised yet; English prose has a little more."""

MEMORY = 64
"""Generations that the used share of budgets is a mean over, roughly: long enough not to follow a
few rows, short enough to follow a job that changes.
"""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Before a sequence parks it will know `end` tokens at most. Of those that come, `literals` are
    the program's; the others are drawn.
    """

    end: int = 0
    literals: int = 0


def foresee(
    nodes: Iterable[Node], defaults: Sampling, *, until_parked: bool = False
) -> tuple[int, int]:
    """Tokens of the literals, and budgets, of nodes that are still to be carried out.
    `until_parked`: up to the first one that makes the branch give its pages back. What a role or a
    variable will write is not known, and counts nothing.
    """
    num_bytes = budget = 0
    for node in nodes:
        match node:
            case Text(text=text):
                num_bytes += len(text.encode())
            case Gen():
                sampling = node.sampling.over(defaults)
                if until_parked and sampling.n not in (None, 1):
                    break
                budget += (sampling.max_tokens or 0) * (sampling.n or 1)
            case Select() | Fork() | Join() | Collect():
                if until_parked:
                    break
                if isinstance(node, Select):
                    num_bytes += sum(len(choice.encode()) for choice in node.choices)
    return -(-num_bytes // BYTES_PER_TOKEN), budget


class Usage:
    """The share of their budgets that generations use: 1 until something else is seen, and again
    after pages have run out.
    """

    def __init__(self) -> None:
        self._used = self._budget = 0.0
        self.share = 1.0

    def saw(self, used: int, budget: int) -> None:
        """A generation has ended that drew `used` of `budget` tokens; later ones weigh more."""
        if not self._budget:
            self._used = self._budget = float(MEMORY * budget)
        keep = 1 - 1 / MEMORY
        self._used = keep * self._used + min(used, budget)
        self._budget = keep * self._budget + budget
        self.share = self._used / self._budget if self._budget else 1.0

    def was_too_low(self) -> None:
        self._used, self.share = self._budget, 1.0

    def expected(self, ahead: Ahead, num_known: int) -> tuple[int, int]:
        """Of a sequence that knows `num_known` tokens: how many literal ones will come, and how
        many will be drawn, before it parks.
        """
        left = ahead.end - num_known
        if left <= ahead.literals:
            return max(0, left), 0
        return ahead.literals, math.ceil(self.share * (left - ahead.literals))


class Holder(NamedTuple):
    """A sequence as it holds pages: `num_tokens` that it needs them for already, `num_steps` in
    each of which it may need one for another token, until it gives all of them back. `num_own`: of
    its pages, those that nobody else holds.
    """

    num_tokens: int
    num_steps: int
    num_pages: int
    num_own: int


def peak_pages(holders: Sequence[Holder], page_size: int) -> int:
    """The most pages, beyond those that they hold now, that these need at any time: when one of
    them is at its end, those that end later have grown as much, and those that ended have left.
    """
    if not holders:
        return 0
    num_tokens, num_steps, num_pages, num_own = np.array(holders).T
    at_end_of = num_steps[:, None]
    stays = num_steps >= at_end_of  # [whose end, who]
    grown = -(-(num_tokens + at_end_of) // page_size) - num_pages
    return max(0, int(np.where(stays, grown, -num_own).sum(axis=1).max()))
