"""Habits: what models write at a place of a constraint.

Owns what was drawn the last time that any line stood there, and how often it was the same again.
Where nothing was drawn yet, it is what the grammar forces there, as the tokenizer splits it. Rows
of one schema write much alike, most of all what stands between their values.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from grammars import Matcher
from grammars.expr import Expr
from runtime.odds import Rate
from runtime.tokenizer import Tokenizer

MAX_HABITS = 4096
"""Places that are remembered; a schema has some dozens."""


@dataclass(slots=True)
class Habit:
    """The token, and how often it came true."""

    token: int
    rate: Rate


class Habits:
    """What was drawn at places of grammars, and how often it was the same again."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._by_state: OrderedDict[Expr, Habit] = OrderedDict()

    def at(self, matcher: Matcher) -> Habit | None:
        found = self._by_state.get(matcher.state)
        if found is not None:
            return found
        forced = matcher.forced_bytes()
        try:
            tokens = self._tokenizer.encode_within(forced.decode()) if forced else []
        except UnicodeDecodeError:  # it ends inside of a character
            return None
        if not tokens:
            return None
        return self._remember(matcher.state, tokens[0], Rate(0.9, 4.0))

    def learn(self, state: Expr, token: int) -> None:
        """The token was drawn there."""
        found = self._by_state.get(state)
        if found is None:
            self._remember(state, token, Rate(0.4, 2.0))
        else:
            found.token = token
            self._by_state.move_to_end(state)

    def _remember(self, state: Expr, token: int, rate: Rate) -> Habit:
        habit = self._by_state[state] = Habit(token, rate)
        if len(self._by_state) > MAX_HABITS:
            self._by_state.popitem(last=False)
        return habit
