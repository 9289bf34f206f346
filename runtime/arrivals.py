"""The arrivals: what a step gives to the lines that it was for.

Owns what the rows of a step ask the sampler for, and what tokens and scores mean when they come:
which end an output, make a choice, or complete a prompt's log-probabilities. Knows no tensor, and
no machine: it says which lines can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence as List
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grammars import CompileBudgetError, fill_bitmasks
from runtime.batch import Batch, Grant
from runtime.frontier import Frontier
from runtime.generation import Generation
from runtime.line import Line
from runtime.prompt_logprobs import PromptLogprobs
from runtime.roster import Roster
from runtime.sampling.request import (
    NO_TOKEN,
    NOBODY,
    Draw,
    Sampled,
    SampleRequest,
    SampleRow,
    Top,
)
from runtime.scoring import Scoring
from runtime.sharing import Drawn
from runtime.speculation import Speculation
from runtime.tokenizer import Tokenizer
from sgdsl.errors import BackendError
from sgdsl.machine import Completion, Piece, Spelling

NOTHING_TO_DRAW = (
    "there was no token to draw: the model's logits are not numbers, or all tokens are forbidden"
)


class _Place(NamedTuple):
    """A row that draws: for whom, and where that stands. None: where nobody wants it any more, and
    where a token is only looked at.
    """

    line: Line | None
    frontier: Frontier | None


class Arrivals:
    """`clock` gives seconds, for the latencies in `meta_info` only."""

    def __init__(
        self,
        roster: Roster,
        tokenizer: Tokenizer,
        speculation: Speculation,
        clock: Callable[[], float],
    ) -> None:
        self.num_completion_tokens = 0
        self.speculation = speculation
        self._roster = roster
        self._tokenizer = tokenizer
        self._clock = clock

    def draft(self, grants: List[Grant]) -> dict[int, tuple[int, ...]]:
        """What is to be tried behind the tokens of those grants that draw, by sequence id."""
        lines = [self._roster.owner(grant.sequence) for grant in grants if grant.samples]
        return self.speculation.propose(lines, num_tokens=sum(each.num_tokens for each in grants))

    def request(self, batch: Batch) -> SampleRequest:
        """What the rows that draw a token ask for. Nothing, where the sequence has come to another
        end since the batch was made.
        """
        rows, places = list[SampleRow](), list[_Place]()
        for grant in batch.sampled:
            if not grant.draws_next:
                rows.append(NOBODY)
                places.append(_Place(None, None))
                continue
            grant.sequence.awaits = True
            line = self._roster.owner(grant.sequence)
            if line.writes is None:
                rows.append(line.peek_row())
                places.append(_Place(line, None))
                continue
            for ahead, frontier in enumerate(line.frontiers(len(grant.draft))):
                rows.append(line.sample_row(frontier, ahead))
                places.append(_Place(line, frontier))
        score_tops = [g.sequence.num_top for g in batch.grants for _ in g.scored_at]
        return SampleRequest(rows, self._bitmask(places), score_tops if any(score_tops) else ())

    def _bitmask(self, places: List[_Place]) -> NDArray[np.int32] | None:
        """A row for each place, all masks of constraints in one gather; None when all is allowed.
        Where a mask cannot be made the line fails; behind a guess, the draft ends in front of it.
        """
        masked = [
            place.frontier if place.frontier is not None and place.frontier.is_masked else None
            for place in places
        ]
        if all(each is None for each in masked):
            return None
        bitmask = np.empty((len(places), self._tokenizer.vocabulary.num_words), dtype=np.int32)

        def fail(index: int, cause: Exception) -> None:
            line, frontier = places[index]
            assert line is not None and frontier is not None, "only what is masked has a matcher"
            frontier.is_void = True
            if frontier is line.generation.frontier:
                self._roster.fail(line, cause)

        matchers = [None if each is None else each.matcher for each in masked]
        fill_bitmasks(matchers, bitmask, on_error=fail)
        for (line, _), frontier, row in zip(places, masked, bitmask, strict=True):
            if line is None or frontier is None or frontier.is_void:
                continue
            if line.run.outcome is None and not line.failed:
                self._roster.guard(line, partial(frontier.narrow, row))
        return bitmask

    def foretell(self, batch: Batch) -> None:
        """Whoever draws on behind what this batch draws can be computed that far, before the token
        is known. Behind a last token nothing is drawn, nor behind one that is only looked at.
        """
        for grant, here in batch.draws():
            if not grant.sequence.awaits:
                continue
            line = self._roster.owner(grant.sequence)
            generation = None if line.failed else line.writes
            if generation is not None and generation.frontier.num_left > 1:
                grant.sequence.next_row = here.start

    def verify(self, batch: Batch, sampled: Sampled) -> int:
        """Drafts were drawn behind: what was guessed right is known now. Returns how much was."""
        total = 0
        for grant, here in batch.draws():
            if grant.draft:
                draft = self._roster.owner(grant.sequence).draft
                num_verified = draft.num_verified(sampled.tokens[here][: len(grant.draft)])
                grant.sequence.append(grant.draft[:num_verified])
                total += num_verified
        return total

    def take(self, batch: Batch, sampled: Sampled) -> list[Line]:
        """The step's tokens and scores arrive; returns the lines that can go on."""
        return [*self._take_tokens(batch, sampled), *self._take_scores(batch, sampled)]

    def _take_tokens(self, batch: Batch, sampled: Sampled) -> Iterator[Line]:
        for grant, here in batch.draws():
            if not grant.sequence.arrived():
                continue
            line = self._roster.owner(grant.sequence)
            if line.writes is None:
                if self._peek(line, sampled.tops[here.start] if sampled.tops else ()):
                    yield line
            else:
                yield from self._take_drawn(line, grant, sampled.drawn(here))

    def _take_drawn(self, leader: Line, grant: Grant, drawn: List[Draw]) -> Iterator[Line]:
        """What was drawn in front of a draft, and behind what of it was right."""
        generation = leader.generation
        num_verified = len(leader.sequence.tokens) - grant.end + len(grant.draft)
        for index, draw in enumerate(drawn[: num_verified + 1]):
            if draw.token != NO_TOKEN:
                self.speculation.learn(leader, index, draw.token)
            known = draw._replace(is_forced=_is_forced(generation))
            yield from self._share(leader, known, is_known=index < num_verified)
            if leader.activity is not generation or leader.failed:
                return
        yield from self.take_forced(leader)

    def take_forced(self, leader: Line) -> Iterator[Line]:
        """Write what the constraint leaves no choice about: that needs no draw."""
        generation = leader.generation
        while leader.writes_unasked:
            if not self._roster.guard(leader, lambda: generation.forced_token):
                yield leader
                return
            token = generation.forced_token
            if token is None:
                return
            yield from self._share(leader, Draw(token, is_forced=True))
            if leader.activity is not generation or leader.failed:
                return

    def take_begun(self, line: Line, tokens: List[int]) -> bool:
        """Write what another runtime has written of it. True when the line goes on from there."""
        for token in tokens:
            draw = Draw(token, is_forced=_is_forced(line.generation))
            if self.accept_token(line, draw):
                return False
        return True

    def _share(self, leader: Line, draw: Draw, *, is_known: bool = False) -> Iterator[Line]:
        """A token for the line that is computed, and for those that write the same."""
        followers: List[Line] = []
        if leader.run.outcome is None and not leader.failed:
            shared = self._roster.shared
            followers = shared.followers(leader)
            shared.wrote(leader, Drawn(draw.token, draw.is_forced))  # they have it, whoever fails
        for line in (*followers, leader):
            if self.accept_token(line, draw, is_known=is_known and line is leader):
                yield line

    def _take_scores(self, batch: Batch, sampled: Sampled) -> Iterator[Line]:
        tops = sampled.score_tops or [()] * len(batch.score_at)
        begin = 0
        for grant in batch.grants:
            if num_places := len(grant.scored_at):
                end = begin + num_places
                if not self._roster.is_computed(grant.sequence):
                    begin = end
                    continue
                here = slice(batch.score_indptr[begin], batch.score_indptr[end])
                line = self._roster.owner(grant.sequence)
                if self._accept_scores(line, grant, sampled.scores[here], tops[begin:end]):
                    yield line
                begin = end

    # Tokens.

    def accept_token(self, line: Line, draw: Draw, *, is_known: bool = False) -> bool:
        """True when the generation has ended and the line can go on. `is_known`: the sequence has
        the token already.
        """
        roster, generation, token = self._roster, line.generation, draw.token
        if line.run.outcome is not None or line.failed:  # its mask could not be made, say
            roster.unshare(line)
            return True
        if token == NO_TOKEN:
            roster.fail(line, BackendError(NOTHING_TO_DRAW))
            return True
        if not roster.guard(line, partial(generation.accept, token)):  # beyond a grammar's limits
            return True
        generation.num_forced += draw.is_forced
        self.num_completion_tokens += 1
        line.logprobs.append(draw.logprob)
        line.tops.append(draw.top)
        if not is_known:
            line.sequence.append([token])
        if generation.ending is not None:
            roster.shared.finish(line)
            self.end_generation(line)
            return True
        if line.run.streaming:
            return not roster.guard(line, partial(self._show, line))
        return False

    def _peek(self, line: Line, top: Top) -> bool:
        """The token behind a prompt is not wanted, but the likeliest ones are."""
        assert isinstance(line.activity, PromptLogprobs), "whoever writes nothing looks at a token"
        line.activity.next_top = top
        return self._end_prompt(line, line.activity)

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
        if line.run.pins:
            self._roster.scheduler.pins.hold(line.run.id, line.sequence.nodes)
        spelling = self._spelling(line, ending.kept, residue=ending.residue)
        line.end_generation(ending)
        completion = Completion(ending.text, meta, ending.truncated, spelling)
        self._roster.guard(line, partial(line.run.complete, line.branch_id, completion))

    def _show(self, line: Line) -> None:
        generation, asks = line.generation, line.sampling
        spelling = None
        # What is asked of a token is not known elsewhere.
        if line.run.spells and not (asks.wants_logprobs or asks.top_logprobs_num):
            spelling = self._spelling(line, len(generation.tokens))
        line.run.stream(line.branch_id, generation.text, spelling)

    def _spelling(self, line: Line, num_tokens: int, *, residue: str = "") -> Spelling:
        """Of what the line has written."""
        tokens = tuple(line.generation.tokens[:num_tokens])
        return Spelling(self._tokenizer.fingerprint, line.num_taken, tokens, residue)

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


def _is_forced(generation: Generation) -> bool:
    """Whether what was drawn was all that could be: not said where its mask was thrown out since,
    and costs too much again.
    """
    with suppress(CompileBudgetError):
        return generation.forced_token is not None
    return False
