"""A prompt's log-probabilities, before a gen goes on from it or instead of that.

Owns the sequence that is scored for them and the collection of what comes back. What the prefix
cache holds has no logits any more, so the rows that are asked for are computed again; those before
them come from the cache. Knows no queue: the programs hand its sequence to the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence as List

from runtime.sampling.request import Top
from runtime.sequence import Sequence

TokenLogprob = tuple[float | None, int, str | None]
"""SGLang's format: the log-probability (None: nothing stands before the token), id and text."""


class PromptLogprobs:
    """`tokens`: the prompt. `start`: the first whose log-probability is wanted; None: of no token.
    `num_top`: so many likeliest tokens a position. `peeks`: those of the next position too.
    """

    def __init__(self, tokens: List[int], start: int | None, *, num_top: int, peeks: bool) -> None:
        first = len(tokens) if start is None else max(1, start)
        self.start = start
        self.peeks = peeks
        self.sequence = Sequence(
            tokens, score_from=first if first < len(tokens) else None, num_top=num_top
        )
        self.sequence.wants_sample = peeks
        self._num_scored = max(0, len(tokens) - first)
        self._scores: list[float] = []
        self._tops: list[Top] = []
        self.next_top: Top | None = None

    def accept(self, first: int, scores: List[float], tops: List[Top]) -> None:
        """What stands at index `first` and after it. After a preemption it comes again."""
        assert self.sequence.score_from is not None, "a scored sequence says from where on"
        self._scores[first - self.sequence.score_from :] = scores
        self._tops[first - self.sequence.score_from :] = tops

    @property
    def done(self) -> bool:
        """Whether all is there that was asked for: at once, if that is nothing."""
        return len(self._scores) == self._num_scored and (
            not self.peeks or self.next_top is not None
        )

    def token_logprobs(self, text: Callable[[int], str | None]) -> list[TokenLogprob]:
        """From `start` on: a token's log-probability, its id and what `text` says of it."""
        assert self.start is not None, "somebody asked for them"
        tokens = self.sequence.tokens[self.start :]
        scores = [None, *self._scores] if self.start == 0 else self._scores
        return [(score, each, text(each)) for score, each in zip(scores, tokens, strict=True)]

    def top_logprobs(self, text: Callable[[int], str | None]) -> list[list[TokenLogprob] | None]:
        """The same of the likeliest tokens; None for the first token of all."""
        assert self.start is not None, "somebody asked for them"
        found: list[list[TokenLogprob] | None] = [None] if self.start == 0 else []
        return [*found, *(told(top, text) for top in self._tops)]


def told(top: Top, text: Callable[[int], str | None]) -> list[TokenLogprob]:
    """Likeliest tokens in SGLang's format."""
    return [(logprob, token, text(token)) for logprob, token in top]
