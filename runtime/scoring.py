"""One `select` being scored: a sequence for each option, from one common border on.

Owns the token ids of the options and the collection of their log-probabilities. Knows no queue: the
programs hand its sequences to the scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence as List

from runtime.sequence import Sequence
from runtime.tokenizer import Tokenizer
from sgdsl.choices import ChoiceScores, Token
from sgdsl.machine import Piece


class Scoring:
    """`tokens`: the prompt. All options are tokenised together with the end of the prompt, and
    scored from the first token on in which any of them departs from it: the same prompt for all of
    them.
    """

    def __init__(
        self, tokenizer: Tokenizer, tokens: List[int], choices: List[str], *, unconditional: bool
    ) -> None:
        self._tokenizer = tokenizer
        start = tokenizer.start_token_id
        prompts = [_joined(tokenizer, tokens, choice) for choice in choices]
        border = _common_length(tokens, prompts)
        if border == 0:  # nothing is left before the options, but a token needs one before it
            prompts = [[start, *prompt] for prompt in prompts]
            border = 1
        self._conditional = [Sequence(prompt, score_from=border) for prompt in prompts]
        self._unconditional: list[Sequence] = []
        if unconditional:
            self._unconditional = [
                Sequence([start, *tokenizer.encode(choice)], score_from=1) for choice in choices
            ]
        self._scores: dict[int, list[float]] = {s.id: [] for s in self.sequences}

    @property
    def sequences(self) -> list[Sequence]:
        return self._conditional + self._unconditional

    @property
    def num_tokens(self) -> int:
        """The longest sequence's length."""
        return max(len(sequence.tokens) for sequence in self.sequences)

    def accept(self, sequence: Sequence, first: int, scores: List[float]) -> None:
        """Log-probabilities of the sequence's tokens from index `first` on. After a preemption they
        come again.
        """
        assert sequence.score_from is not None, "a scored sequence says from where on"
        self._scores[sequence.id][first - sequence.score_from :] = scores

    def is_scored(self, sequence: Sequence) -> bool:
        assert sequence.score_from is not None, "a scored sequence says from where on"
        return len(self._scores[sequence.id]) == len(sequence.tokens) - sequence.score_from

    @property
    def done(self) -> bool:
        return all(self.is_scored(sequence) for sequence in self.sequences)

    def result(self) -> ChoiceScores:
        return ChoiceScores(
            conditional=[self._scores[s.id] for s in self._conditional],
            unconditional=[self._scores[s.id] for s in self._unconditional] or None,
            tokens=[self._tokens(s) for s in self._conditional],
            unconditional_tokens=[self._tokens(s) for s in self._unconditional] or None,
        )

    def _tokens(self, sequence: Sequence) -> list[Token]:
        """Those that were scored."""
        return [
            (token, self._tokenizer.decode([token]).decode("utf-8", "replace"))
            for token in sequence.tokens[sequence.score_from :]
        ]


def _common_length(tokens: List[int], prompts: List[list[int]]) -> int:
    """How many first tokens all of these share; every prompt keeps one behind them."""
    longest = min(len(tokens), *(len(prompt) - 1 for prompt in prompts))
    for index in range(longest):
        if any(prompt[index] != tokens[index] for prompt in prompts):
            return index
    return longest


def _joined(tokenizer: Tokenizer, tokens: List[int], choice: str) -> list[int]:
    keep, following = tokenizer.continue_with(tokens, [Piece(choice)])
    return [*tokens[:keep], *following]
