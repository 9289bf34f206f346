"""A line: one branch of a run, as the engine carries it.

Owns a branch's sequence, the text that waits to become tokens, and the generation or scoring that
is under way. The programs decide; a line only keeps its own things straight.
"""

from __future__ import annotations

from typing import Any

from runtime.generation import Ending, Generation
from runtime.sampling.random import stream_key, uniform
from runtime.sampling.request import SampleRow
from runtime.scoring import Scoring
from runtime.sequence import Sequence
from runtime.tokenizer import Tokenizer
from sgdsl.graph import Sampling
from sgdsl.machine import Piece
from sgdsl.run import Run


class Line:
    """`pending`: text behind the known tokens. It becomes tokens only when the model is to go on
    from it, so that text that is written in several pieces is tokenised as one.
    """

    def __init__(self, branch_id: int, run: Run) -> None:
        self.branch_id = branch_id
        self.run = run
        self.sequence = Sequence()
        self.pending: list[Piece] = []
        self.activity: Generation | Scoring | None = None
        self.sampling = Sampling()
        self.joining = False
        self.failed = False  # what it was doing is void
        self.begun_at = 0.0
        self.num_prompt_tokens = 0  # before the border, in tokens
        self.num_known = 0  # of the sequence, when the generation began
        self.logprobs: list[float] = []

    def fork(self, child_id: int) -> Line:
        """A line that goes on from the same text. Its pages come from the prefix cache."""
        child = Line(child_id, self.run)
        child.sequence = Sequence(self.sequence.tokens)
        child.pending = list(self.pending)
        return child

    @property
    def busy(self) -> bool:
        return self.activity is not None

    @property
    def generation(self) -> Generation:
        assert isinstance(self.activity, Generation), "this line generates"
        return self.activity

    @property
    def scoring(self) -> Scoring:
        assert isinstance(self.activity, Scoring), "this line scores"
        return self.activity

    @property
    def sequences(self) -> list[Sequence]:
        scored = self.activity.sequences if isinstance(self.activity, Scoring) else []
        return [self.sequence, *scored]

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
            keep, following = tokenizer.continue_with(tokens, pieces)
            while following and keep < len(tokens) and tokens[keep] == following[0]:
                keep, following = keep + 1, following[1:]
            self.sequence.replace_tail(keep, following)
        if not tokens:
            self.sequence.append([tokenizer.start_token_id])

    def take_back(self, num_tokens: int, tokenizer: Tokenizer) -> bytes:
        """Drop the last tokens; returns what they spelled, for the model to spell again."""
        keep = len(self.sequence.tokens) - num_tokens
        data = tokenizer.decode(self.sequence.tokens[keep:])
        self.sequence.replace_tail(keep, ())
        return data

    # A generation begins, samples and ends.

    def begin(self, activity: Generation | Scoring, sampling: Sampling, *, now: float) -> None:
        self.activity = activity
        self.sampling = sampling
        self.begun_at = now
        self.num_known = len(self.sequence.tokens)
        self.logprobs = []

    def draw(self) -> float:
        """The random number of this position; the same whenever it is asked for."""
        seed = self.run.seed if self.sampling.seed is None else self.sampling.seed
        return uniform(stream_key(seed, self.branch_id), len(self.sequence.tokens))

    def sample_row(self) -> SampleRow:
        """What the next token is drawn by; `sampling` is complete."""
        sampling = self.sampling
        return SampleRow(
            temperature=sampling.temperature or 0.0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            top_k=-1 if sampling.top_k is None else sampling.top_k,
            min_p=sampling.min_p or 0.0,
            draw=self.draw(),
            frequency_penalty=sampling.frequency_penalty or 0.0,
            presence_penalty=sampling.presence_penalty or 0.0,
            counts=self.generation.counts,
            wants_logprob=bool(sampling.return_logprob),
        )

    def end_generation(self, ending: Ending) -> None:
        """Known tokens are those that stand; what a stop string cut off inside a token is text
        again.
        """
        self.sequence.replace_tail(self.num_known + ending.kept, ())
        self.sequence.wants_sample = False
        if ending.residue:
            self.pending.append(Piece(ending.residue, written=True))
        self.activity = None

    def meta(self, *, now: float) -> dict[str, Any]:
        """`meta_info` of the node that ends now; latencies in seconds."""
        return {
            "id": f"{self.run.id}-{self.branch_id}",
            "prompt_tokens": self.num_prompt_tokens,
            "cached_tokens": min(self.sequence.cached, self.num_prompt_tokens),
            "e2e_latency": now - self.begun_at,
        }
