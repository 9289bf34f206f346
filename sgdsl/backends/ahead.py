"""Text that a model wrote of a branch before the program has come to it.

Owns the match between one completion of the whole rest and the program's literals and gens. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Ahead:
    """`ended`: the model came to its own end there; else it was cut by a limit. `num_pieces`: how
    many the branch has before this text, at least; one that has fewer was set back.
    """

    text: str
    ended: bool
    num_pieces: int = 0
    stopped: str = ""
    """The stop string at which the last gen was cut; the text begins with it."""

    def follow(self, literal: str) -> bool:
        """Whether the model has written what the program writes now. The stop string that ended
        the last gen may stand before it.
        """
        for skipped in dict.fromkeys(("", self.stopped)):
            if self.text.startswith(skipped + literal):
                self.text = self.text[len(skipped) + len(literal) :]
                if literal:
                    self.stopped = ""
                return True
        return False

    def cut(self, stops: Sequence[str], following: str) -> str | None:
        """The value of a gen: up to the first of its `stops`, or up to the program's literal that
        is `following` (if that is known), or up to the model's own end. None: it is not all there.
        """
        found = [(at, stop) for stop in stops if (at := self.text.find(stop)) >= 0]
        if following and (at := self.text.find(following)) >= 0:
            found.append((at, ""))
        if found:
            at, self.stopped = min(found, key=lambda each: each[0])
        elif self.ended:
            at, self.stopped = len(self.text), ""
        else:
            return None
        value, self.text = self.text[:at], self.text[at:]
        return value
