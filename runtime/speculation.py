"""Speculation: what lines will draw next is guessed, and computed along with their last tokens.

Owns where guesses come from and how far a draft goes. Each place of a draft is drawn at, with its
own mask and its own random number, as if the draft were known; what was drawn stands as long as it
is what was guessed. So a draft changes how many steps an output takes, and nothing else. It must
not know how a batch is computed, nor what becomes of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammars import CompileBudgetError
from runtime.draft import Draft, Guess
from runtime.frontier import Frontier
from runtime.habits import Habits
from runtime.line import Line
from runtime.lookup import LONGEST, Lookup
from runtime.odds import Rate, StepCosts
from runtime.tokenizer import Tokenizer

MAX_DRAFT = 16
"""Tokens: at the chances that are found, the next ones would seldom pay."""

BY_WIDTH = (0.1, 0.3, 0.5, 0.6)
"""Chances of look-ups by tokens of context, to begin with; a few outcomes outweigh them."""


class Speculation:
    """`mode`: the option `speculation`. "auto" drafts what pays, "on" all that there is a guess
    for, "off" nothing.
    """

    def __init__(self, tokenizer: Tokenizer, *, mode: str) -> None:
        self.mode = mode
        self.costs = StepCosts()
        self._habits = Habits(tokenizer)
        self._by_width = [Rate(chance, 4.0) for chance in BY_WIDTH]

    def propose(self, lines: Iterable[Line], *, num_tokens: int) -> dict[int, tuple[int, ...]]:
        """Tokens to be tried behind those that these lines know, by sequence id. `num_tokens`: of
        the step without them.
        """
        drawing = [line for line in lines if line.writes is not None]
        if self.mode == "off" or not drawing:
            return {}
        price = 0.0 if self.mode == "on" else self.costs.price(num_tokens, len(drawing))
        found = {}
        for line in drawing:
            line.draft = self._draft(line, price)
            found[line.sequence.id] = tuple(line.draft.tokens)
        return found

    def _draft(self, line: Line, price: float) -> Draft:
        """As many guesses as are likely enough all to be right."""
        tokens, draft = line.sequence.tokens, Draft()
        lookup = line.lookup
        lookup.extend(tokens[len(lookup) :])
        frontier, chance = line.generation.frontier, 1.0
        num_most = min(MAX_DRAFT, frontier.num_left - 1, line.num_undrawn - 1)
        try:
            while len(draft.tokens) < num_most:
                guess = self._guess(frontier, lookup, line.luck)
                if guess is None:
                    break
                draft.guesses.append(guess)
                chance *= guess.chance
                if chance <= price or not frontier.goes_on_with(guess.token):
                    break
                frontier = frontier.fork()
                frontier.advance(guess.token)
                if frontier.is_over:  # nothing is drawn behind it
                    break
                frontier.prepare()
                draft.tokens.append(guess.token)
                draft.frontiers.append(frontier)
                lookup.push(guess.token)
        except CompileBudgetError:
            pass  # one that costs too much to follow is no good guess
        lookup.cut(len(tokens))
        return draft

    def _guess(self, frontier: Frontier, lookup: Lookup, luck: Rate) -> Guess | None:
        """The likelier one of what the text and the constraint suggest."""
        best: Guess | None = None
        told: list[tuple[Rate, int]] = []
        if frontier.matcher is not None:
            habit = self._habits.at(frontier.matcher)
            if habit is not None:
                told.append((habit.rate, habit.token))
                best = Guess(habit.token, habit.rate.chance, told)
        found = lookup.next()
        if found is not None:
            token, width = found
            rate = self._by_width[min(width, LONGEST) - 1]
            told += (rate, token), (luck, token)
            chance = luck.over(rate.chance)
            if best is None or chance > best.chance:
                best = Guess(token, chance, told)
        return best

    def learn(self, line: Line, index: int, token: int) -> None:
        """The line is about to accept what was drawn behind `index` tokens of its draft."""
        if self.mode == "off":
            return
        if index < len(line.draft.guesses):
            for rate, guessed in line.draft.guesses[index].told:
                rate.saw(guessed == token)
        matcher = line.generation.matcher
        if matcher is not None:
            self._habits.learn(matcher.state, token)
