"""One `select` being scored: all options in one pass, from one common border on.

Owns the token ids of the options and the collection of their log-probabilities. Knows no queue: the
programs hand its sequences to the scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence as List

from runtime.sequence import Sequence
from runtime.token_tree import TokenTree
from runtime.tokenizer import Tokenizer
from sgdsl.choices import ChoiceScores, Token
from sgdsl.machine import Piece

MANY, MANY_CHARS = 64, 16_384
"""Options, and their characters: fewer are tokenised in the time of a step."""


def are_many(choices: List[str]) -> bool:
    """Whether it takes so long to tokenise them that other lines should not wait for it."""
    return len(choices) > MANY or sum(map(len, choices)) > MANY_CHARS


class Splitting:
    """What a line does whose options are being tokenised: it waits."""


class Scoring:
    """`tokens`: the prompt. All options are tokenised together with the end of the prompt, and
    scored from the first token on in which any of them departs from it: the same prompt for all of
    them, and behind it the tree of what they share.
    """

    def __init__(
        self, tokenizer: Tokenizer, tokens: List[int], choices: List[str], *, unconditional: bool
    ) -> None:
        joined = [tokenizer.continue_with(tokens, [Piece(choice)]) for choice in choices]
        kept = min(keep for keep, _ in joined)
        ends = [[*tokens[kept:keep], *following] for keep, following in joined]
        width = _common_length(tokens[kept:], ends)
        start = [tokenizer.start_token_id]  # a token that is scored needs one before it
        before = tokens[: kept + width] or start
        self._conditional = _Options(tokenizer, before, [end[width:] for end in ends])
        self._unconditional = None
        if unconditional:
            alone = [tokenizer.encode(choice) for choice in choices]
            self._unconditional = _Options(tokenizer, start, alone)

    @property
    def _parts(self) -> list[_Options]:
        return [each for each in (self._conditional, self._unconditional) if each is not None]

    @property
    def sequences(self) -> list[Sequence]:
        return [part.sequence for part in self._parts if not part.is_scored]

    @property
    def num_cached(self) -> int:
        """Tokens of the prompt that the prefix cache gave."""
        return self._conditional.sequence.cached

    @property
    def num_tokens(self) -> int:
        """The longest option's length, with what stands before it."""
        return max(part.num_tokens for part in self._parts)

    def accept(self, sequence: Sequence, place: int, scores: List[float]) -> bool:
        """Log-probabilities of what follows from this place of the sequence on. After a preemption
        they come again. True if the sequence is scored.
        """
        part = next(part for part in self._parts if part.sequence is sequence)
        part.accept(place, scores)
        return part.is_scored

    @property
    def done(self) -> bool:
        return all(part.is_scored for part in self._parts)

    def result(self) -> ChoiceScores:
        alone = self._unconditional
        return ChoiceScores(
            conditional=self._conditional.scores(),
            unconditional=None if alone is None else alone.scores(),
            tokens=self._conditional.texts(),
            unconditional_tokens=None if alone is None else alone.texts(),
        )


class _Options:
    """The options' tokens behind `before`."""

    def __init__(self, tokenizer: Tokenizer, before: List[int], options: List[List[int]]) -> None:
        self._tokenizer = tokenizer
        self._tree = tree = TokenTree(options)
        self._scores: list[float] = []  # of the tree's edges
        self.sequence = Sequence(before, tree=tree)
        self.num_tokens = len(before) + max(map(len, tree.paths))

    def accept(self, place: int, scores: List[float]) -> None:
        self._scores[self._tree.first_edge(place - len(self.sequence.tokens)) :] = scores

    @property
    def is_scored(self) -> bool:
        return len(self._scores) == len(self._tree.edges)

    def scores(self) -> list[list[float]]:
        return [[self._scores[edge] for edge in path] for path in self._tree.paths]

    def texts(self) -> list[list[Token]]:
        """The tokens that were scored."""
        edges = [
            (token, self._tokenizer.decode([token]).decode("utf-8", "replace"))
            for token in self._tree.edges
        ]
        return [[edges[edge] for edge in path] for path in self._tree.paths]


def _common_length(tokens: List[int], ends: List[list[int]]) -> int:
    """How many first tokens all of these share; every end keeps one behind them."""
    longest = min(len(tokens), *(len(end) - 1 for end in ends))
    for index in range(longest):
        if any(end[index] != tokens[index] for end in ends):
            return index
    return longest
