"""The arrivals: what a step gives to the lines that it was for.

Owns what the rows of a step ask the sampler for, and what tokens and scores mean when they come:
which end an output, make a choice, or complete a prompt's log-probabilities. Knows no tensor, and
no machine: it says which lines can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence as List
from functools import partial

import numpy as np
from numpy.typing import NDArray

from grammars import fill_bitmasks
from runtime.batch import Batch, Grant
from runtime.line import Line
from runtime.prompt_logprobs import PromptLogprobs
from runtime.roster import Roster
from runtime.sampling.request import NO_TOKEN, Sampled, SampleRequest, Top
from runtime.scoring import Scoring
from runtime.sharing import Drawn
from runtime.tokenizer import Tokenizer
from sgdsl.errors import BackendError
from sgdsl.machine import Completion, Piece

NOTHING_TO_DRAW = (
    "there was no token to draw: the model's logits are not numbers, or all tokens are forbidden"
)


class Arrivals:
    """`clock` gives seconds, for the latencies in `meta_info` only."""

    def __init__(self, roster: Roster, tokenizer: Tokenizer, clock: Callable[[], float]) -> None:
        self.num_completion_tokens = 0
        self._roster = roster
        self._tokenizer = tokenizer
        self._clock = clock

    def request(self, batch: Batch) -> SampleRequest:
        """What the rows that draw a token ask for."""
        lines = [self._roster.owner(grant.sequence) for grant in batch.sampled]
        rows = [line.sample_row() for line in lines]
        score_tops = [g.sequence.num_top for g in batch.grants for _ in g.scored_at]
        return SampleRequest(rows, self._bitmask(lines), score_tops if any(score_tops) else ())

    def _bitmask(self, lines: list[Line]) -> NDArray[np.int32] | None:
        """A row for each line, all masks of constraints in one gather; None when all is allowed."""
        written = [line.writes for line in lines]
        masked = [each if each is not None and each.is_masked else None for each in written]
        if all(each is None for each in masked):
            return None
        bitmask = np.empty((len(lines), self._tokenizer.vocabulary.num_words), dtype=np.int32)

        def fail(index: int, cause: Exception) -> None:
            self._roster.fail(lines[index], cause)

        matchers = [None if each is None else each.matcher for each in masked]
        fill_bitmasks(matchers, bitmask, on_error=fail)
        for line, each, row in zip(lines, masked, bitmask, strict=True):
            if each is not None and line.run.outcome is None and not line.failed:
                self._roster.guard(line, partial(each.narrow, row))
        return bitmask

    def take(self, batch: Batch, sampled: Sampled) -> list[Line]:
        """The step's tokens and scores arrive; returns the lines that can go on."""
        return [*self._take_tokens(batch, sampled), *self._take_scores(batch, sampled)]

    def _take_tokens(self, batch: Batch, sampled: Sampled) -> Iterator[Line]:
        tops = sampled.tops or [()] * len(batch.sampled)
        for grant, token, logprob, top in zip(
            batch.sampled, sampled.tokens, sampled.logprobs, tops, strict=True
        ):
            leader = self._roster.owner(grant.sequence)
            followers: List[Line] = []
            if leader.run.outcome is None and not leader.failed:
                shared = self._roster.shared
                followers = shared.followers(leader)
                shared.wrote(leader, Drawn(token, logprob))  # they have it, whoever fails
            for line in (*followers, leader):
                if self.accept_token(line, token, logprob, top):
                    yield line

    def _take_scores(self, batch: Batch, sampled: Sampled) -> Iterator[Line]:
        tops = sampled.score_tops or [()] * len(batch.score_at)
        begin = 0
        for grant in batch.grants:
            if num_places := len(grant.scored_at):
                end = begin + num_places
                here = slice(batch.score_indptr[begin], batch.score_indptr[end])
                line = self._roster.owner(grant.sequence)
                if self._accept_scores(line, grant, sampled.scores[here], tops[begin:end]):
                    yield line
                begin = end

    # Tokens.

    def accept_token(self, line: Line, token: int, logprob: float, top: Top) -> bool:
        """True when the generation has ended and the line can go on."""
        if isinstance(line.activity, PromptLogprobs):  # the token is not wanted
            line.activity.next_top = top
            return self._end_prompt(line, line.activity)
        roster, generation = self._roster, line.generation
        if line.run.outcome is not None or line.failed:  # its mask could not be made, say
            roster.unshare(line)
            return True
        if token == NO_TOKEN:
            roster.fail(line, BackendError(NOTHING_TO_DRAW))
            return True
        if not roster.guard(line, partial(generation.accept, token)):  # beyond a grammar's limits
            return True
        self.num_completion_tokens += 1
        line.logprobs.append(logprob)
        line.tops.append(top)
        line.sequence.append([token])
        if generation.ending is not None:
            roster.shared.finish(line)
            self.end_generation(line)
            return True
        if line.run.streaming:
            return not roster.guard(line, partial(_show, line))
        return False

    def end_generation(self, line: Line) -> None:
        generation = line.generation
        ending = generation.ending
        assert ending is not None, "only what has ended is completed"
        meta = {
            **line.meta(now=self._clock()),
            "completion_tokens": len(line.logprobs),
            "finish_reason": ending.reason,
            **line.logprobs_meta(generation, self._tokenizer),
        }
        if generation.matcher is not None:
            meta["forced_tokens"] = generation.num_forced
        if self._roster.is_computed(line.sequence):  # not shared
            self._roster.scheduler.usage.saw(len(generation.tokens), line.limit)
        line.end_generation(ending)
        completion = Completion(ending.text, meta=meta, truncated=ending.truncated)
        self._roster.guard(line, partial(line.run.complete, line.branch_id, completion))

    # Scores.

    def _accept_scores(
        self, line: Line, grant: Grant, scores: List[float], tops: List[Top]
    ) -> bool:
        """True when all is scored, a choice is made of it, and the line can go on."""
        sequence, place = grant.sequence, grant.scored_at.start
        if isinstance(line.activity, PromptLogprobs):
            line.activity.accept(place + 1, scores, tops)
            return self._end_prompt(line, line.activity)
        scoring = line.scoring
        if scoring.accept(sequence, place, scores):
            self._roster.release(sequence)
        if scoring.done:
            self._roster.guard(line, partial(self._choose, line, scoring))
        return scoring.done

    def _end_prompt(self, line: Line, prompt: PromptLogprobs) -> bool:
        """Go on to write, once all of the prompt's log-probabilities are there. True when that is
        at its end already.
        """
        if not prompt.done:
            return False
        self._roster.release(prompt.sequence)
        line.activity = None
        self._roster.guard(line, line.go_on)
        return not line.busy

    def _choose(self, line: Line, scoring: Scoring) -> None:
        meta = {**line.meta(now=self._clock()), "completion_tokens": 0}
        line.activity = None
        text = line.run.choose(line.branch_id, scoring.result(), draw=line.draw(), meta=meta)
        line.pending.append(Piece(text, written=True))


def _show(line: Line) -> None:
    line.run.stream(line.branch_id, line.generation.text)
