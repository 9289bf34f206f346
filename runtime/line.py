"""A line: one branch of a run, as the engine carries it.

Owns a branch's sequence, the text that waits to become tokens, and the generation or scoring that
is under way. The programs decide; a line only keeps its own things straight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.draft import Draft
from runtime.frontier import Frontier
from runtime.generation import Ending, Generation
from runtime.lookup import Lookup
from runtime.odds import Rate
from runtime.prompt_logprobs import PromptLogprobs, told
from runtime.sampling.random import stream_key, uniform
from runtime.sampling.request import SampleRow, Top
from runtime.scoring import Scoring, Splitting
from runtime.sequence import Sequence
from runtime.tokenizer import BORDER_TOKENS, Tokenizer
from sgdsl.graph import ROOT, Sampling
from sgdsl.machine import Piece, Replay, Spelling
from sgdsl.run import Run


@dataclass(frozen=True, slots=True)
class Mark:
    """A line just before a gen. Its border may be split anew, so the last tokens are kept: no more
    than `BORDER_TOKENS` change.
    """

    keep: int
    tail: list[int]
    pending: list[Piece]


class Line:
    """`pending`: text behind the known tokens. It becomes tokens only when the model is to go on
    from it, so that text that is written in several pieces is tokenised as one.
    """

    def __init__(self, branch_id: int, run: Run, *, parent_id: int = ROOT) -> None:
        self.branch_id = branch_id
        self.parent_id = parent_id
        self.run = run
        self.sequence = Sequence()
        self.pending: list[Piece] = []
        self.activity: Generation | Scoring | PromptLogprobs | Splitting | None = None
        self.prompt: PromptLogprobs | None = None  # of the gen that is under way
        self.after: Callable[[], None] | None = (
            None  # when the prompt's log-probabilities are there
        )
        self.mark: Mark | None = None
        self.sampling = Sampling()
        self.joining = False
        self.failed = False  # what it was doing is void
        self.begun_at = 0.0
        self.num_prompt_tokens = 0  # before the border, in tokens
        self.num_known = 0  # of the sequence, when the generation began
        self.limit = 0  # tokens that the generation may draw
        self.num_taken = 0  # tokens before it that it spells again
        self.logprobs: list[float] = []
        self.tops: list[Top] = []
        self.draft = Draft()  # of this step
        self.lookup = Lookup()  # of what the sequence knows, as far as it was needed
        self.luck = Rate()  # of guesses from there

    def fork(self, child_id: int) -> Line:
        """A line that goes on from the same text. Its pages come from the prefix cache."""
        child = Line(child_id, self.run, parent_id=self.branch_id)
        child.sequence = Sequence(self.sequence.tokens)
        child.pending = list(self.pending)
        return child

    def set_mark(self) -> None:
        """This is where the line goes back to if what comes is to be written again."""
        keep = max(0, len(self.sequence.tokens) - BORDER_TOKENS)
        self.mark = Mark(keep, self.sequence.tokens[keep:], list(self.pending))

    def rewind(self) -> None:
        """Back to the mark. What was computed of the tokens before it stays in the cache."""
        mark = self.mark
        assert mark is not None, "what is written again began at a mark"
        self._continue(mark.keep, mark.tail)
        self.pending = list(mark.pending)

    def adopt(self, child: Line) -> None:
        """Go on from where `child` stands, which was forked here."""
        assert self.mark is not None, "a fork leaves a mark"
        self._continue(self.mark.keep, child.sequence.tokens[self.mark.keep :])
        self.pending = list(child.pending)

    def replay(self, action: Replay, tokenizer: Tokenizer) -> None:
        """What another runtime was answered there: by its tokens, where they are ours too. So what
        follows is what would have followed there.
        """
        completion = action.completion
        if completion is not None:
            self.set_mark()
        self.flush(tokenizer)
        spelling = None if completion is None else completion.spelling
        if (
            completion is None
            or spelling is None
            or not self._fits(completion.text, spelling, tokenizer)
        ):
            self.pending += action.pieces
            return
        self.sequence.replace_tail(len(self.sequence.tokens) - spelling.taken, spelling.tokens)
        if spelling.residue:
            self.pending.append(Piece(spelling.residue, written=True))

    def _fits(self, text: str, spelling: Spelling, tokenizer: Tokenizer) -> bool:
        """Whether these tokens are that text, behind those that the line has."""
        tokens, taken = self.sequence.tokens, spelling.taken
        if not (tokenizer.knows(spelling) and taken < len(tokens)):
            return False
        before, written = (
            tokenizer.decode(each) for each in (tokens[len(tokens) - taken :], spelling.tokens)
        )
        said = written[len(before) :].decode("utf-8", "replace") + spelling.residue
        return written.startswith(before) and said == text

    def _continue(self, keep: int, following: list[int]) -> None:
        """Put `following` behind the first `keep` tokens; what stays the same stays computed."""
        tokens = self.sequence.tokens
        same = 0
        for known, token in zip(tokens[keep:], following, strict=False):
            if known != token:
                break
            same += 1
        self.sequence.replace_tail(keep + same, following[same:])

    @property
    def busy(self) -> bool:
        return self.activity is not None

    @property
    def generation(self) -> Generation:
        assert isinstance(self.activity, Generation), "this line generates"
        return self.activity

    @property
    def writes(self) -> Generation | None:
        """The generation whose next token is drawn; None when a token is only looked at."""
        return self.activity if isinstance(self.activity, Generation) else None

    @property
    def writes_unasked(self) -> bool:
        """Whether a token that is forced needs no row: nobody asks how likely it was."""
        sampling = self.sampling
        return not sampling.wants_logprobs and not sampling.top_logprobs_num

    @property
    def scoring(self) -> Scoring:
        assert isinstance(self.activity, Scoring), "this line scores"
        return self.activity

    @property
    def sequences(self) -> list[Sequence]:
        if isinstance(self.activity, PromptLogprobs):
            return [self.sequence, self.activity.sequence]
        scored = self.activity.sequences if isinstance(self.activity, Scoring) else []
        return [self.sequence, *scored]

    @property
    def num_undrawn(self) -> int:
        """Tokens that may still be drawn."""
        drawn = len(self.sequence.tokens) - self.num_known
        return 0 if self.writes is None else max(0, self.limit - drawn)

    @property
    def num_literal_bytes(self) -> int:
        """How much of the text before the border is the program's own, and no one else's."""
        count = 0
        for piece in reversed(self.pending):
            if piece.text and (piece.special or piece.written):
                break
            count += len(piece.text.encode())
        return count

    # Text becomes tokens, and the other way round.

    def flush(self, tokenizer: Tokenizer) -> None:
        """Turn the pending text into known tokens, re-splitting the border canonically."""
        pieces, self.pending = [piece for piece in self.pending if piece.text], []
        tokens = self.sequence.tokens
        if pieces or not tokens:
            self._continue(*tokenizer.continue_with(tokens, pieces))
        if not tokens:
            self.sequence.append([tokenizer.start_token_id])

    def take_back(self, num_tokens: int, tokenizer: Tokenizer) -> bytes:
        """Drop the last tokens; returns what they spelled, for the model to spell again."""
        keep = len(self.sequence.tokens) - num_tokens
        data = tokenizer.decode(self.sequence.tokens[keep:])
        self.sequence.replace_tail(keep, ())
        return data

    # A generation begins, samples and ends.

    def begin(
        self, activity: Generation | Scoring | PromptLogprobs, sampling: Sampling, *, now: float
    ) -> None:
        self.activity = activity
        self.sampling = sampling
        self.begun_at = now
        self.num_known = len(self.sequence.tokens)
        self.logprobs, self.tops = [], []
        self.draft, self.lookup, self.luck = Draft(), Lookup(), Rate()

    def go_on(self) -> None:
        """What comes after the prompt's log-probabilities."""
        after, self.after = self.after, None
        assert after is not None, "a gen goes on once"
        after()

    def draw(self, ahead: int = 0) -> float:
        """The random number of the position `ahead` tokens behind the known ones; the same whenever
        it is asked for.
        """
        seed = self.run.seed if self.sampling.seed is None else self.sampling.seed
        return uniform(stream_key(seed, self.branch_id), len(self.sequence.tokens) + ahead)

    def frontiers(self, num_drafted: int) -> list[Frontier]:
        """Where its rows of this step stand: in front of the draft, and behind each token of it."""
        assert num_drafted <= len(self.draft.frontiers), "a draft is cut, never lengthened"
        return [self.generation.frontier, *self.draft.frontiers[:num_drafted]]

    def sample_row(self, frontier: Frontier, ahead: int) -> SampleRow:
        """What the token behind `ahead` others is drawn by; `sampling` is complete."""
        sampling = self.sampling
        return SampleRow(
            temperature=sampling.temperature or 0.0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            top_k=-1 if sampling.top_k is None else sampling.top_k,
            min_p=sampling.min_p or 0.0,
            draw=self.draw(ahead),
            frequency_penalty=sampling.frequency_penalty or 0.0,
            presence_penalty=sampling.presence_penalty or 0.0,
            counts=frontier.counts,
            wants_logprob=sampling.wants_logprobs,
            num_top=sampling.top_logprobs_num or 0,
        )

    def peek_row(self) -> SampleRow:
        """What is asked for where a token is only looked at."""
        return SampleRow(num_top=self.sampling.top_logprobs_num or 0)

    def end_generation(self, ending: Ending) -> None:
        """Known tokens are those that stand; what a stop string cut off inside a token is text
        again.
        """
        self.sequence.replace_tail(self.num_known + ending.kept, ())
        self.sequence.wants_sample = False
        if ending.residue:
            self.pending.append(Piece(ending.residue, written=True))
        self.activity = None

    def logprobs_meta(self, generation: Generation, tokenizer: Tokenizer) -> dict[str, Any]:
        """What was asked for of the log-probabilities of the prompt and of the output. Tokens that
        only spell the literal again belong to neither.
        """
        tokens, healed = generation.tokens, generation.num_healed
        sampling, found = self.sampling, dict[str, Any]()

        def text(token: int) -> str | None:
            shown = tokenizer.decode([token]).decode("utf-8", "replace")
            return shown if sampling.return_text_in_logprobs else None

        if sampling.wants_logprobs:
            found["input_token_logprobs"] = []
            found["output_token_logprobs"] = [
                (logprob, token, text(token))
                for logprob, token in zip(self.logprobs, tokens, strict=False)  # the end is none
            ][healed:]
        if sampling.top_logprobs_num:
            found["input_top_logprobs"] = []
            found["output_top_logprobs"] = [
                told(top, text) for top in self.tops[healed : len(tokens)]
            ]
        if (prompt := self.prompt) is not None:
            if prompt.start is not None:
                found["input_token_logprobs"] = prompt.token_logprobs(text)
            if prompt.start is not None and sampling.top_logprobs_num:
                found["input_top_logprobs"] = prompt.top_logprobs(text)
            if prompt.next_top is not None:
                found["output_top_logprobs"] = [told(prompt.next_top, text)]
        return found

    def meta(self, *, now: float) -> dict[str, Any]:
        """`meta_info` of the node that ends now; latencies in seconds."""
        if isinstance(self.activity, Scoring):
            cached = self.activity.num_cached
        else:
            cached = (self.sequence if self.prompt is None else self.prompt.sequence).cached
        return {
            "id": f"{self.run.id}-{self.branch_id}",
            "prompt_tokens": self.num_prompt_tokens,
            "cached_tokens": min(cached, self.num_prompt_tokens),
            "e2e_latency": now - self.begun_at,
        }
