"""One line's draft: tokens that are guessed, with what is known ahead about each.

Owns the comparison of what was guessed with what was drawn. It lives for one step; it must not know
where guesses come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.frontier import Frontier
from runtime.odds import Rate


@dataclass(slots=True)
class Guess:
    """`told`: what is to hear whether it was right, and what each of them would have guessed."""

    token: int
    chance: float
    told: list[tuple[Rate, int]]


@dataclass(slots=True)
class Draft:
    """`tokens`, and the frontier behind each of them. `guesses` has all of them and may have one
    more, which did not pay.
    """

    tokens: list[int] = field(default_factory=list)
    frontiers: list[Frontier] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)

    def num_verified(self, drawn: Iterable[int]) -> int:
        """How many first tokens were drawn, too. `drawn`: in front of the draft, then behind each
        of its tokens. One whose mask could not be made stands for none: nothing was drawn there.
        """
        count = 0
        for token, guessed, behind in zip(drawn, self.tokens, self.frontiers, strict=False):
            if token != guessed or behind.is_void:
                break
            count += 1
        return count
