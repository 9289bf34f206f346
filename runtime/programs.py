"""The programs: runs' graphs, carried out on sequences.

Owns the lines (one per branch of each run): their known tokens, what they are generating or
scoring, and when they run, wait or end. It asks each run's machine what to do and writes tokens;
the scheduler is told which sequences want to be computed. Knows no tensor and no thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence as List
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from grammars import CompileBudgetError, Constraint, Grammar, fill_bitmasks
from runtime.batch import Batch, Grant
from runtime.errors import ContextLengthError, OverloadedError
from runtime.foresight import Ahead, foresee
from runtime.generation import Generation
from runtime.grammar_store import GrammarStore, Prepared
from runtime.line import Line
from runtime.prompt_logprobs import PromptLogprobs
from runtime.sampling.request import NO_TOKEN, Sampled, SampleRequest, Top
from runtime.scheduler import Scheduler
from runtime.scoring import Scoring
from runtime.sequence import Sequence
from runtime.sharing import Drawn, SharedOutputs, key_of
from runtime.tokenizer import Tokenizer
from sgdsl.errors import BackendError
from sgdsl.graph import ROOT, Sampling
from sgdsl.machine import (
    Adopt,
    Append,
    Choose,
    Completion,
    Generate,
    Idle,
    Piece,
    Rewind,
    Spawn,
)
from sgdsl.run import Run

NOTHING_TO_DRAW = (
    "there was no token to draw: the model's logits are not numbers, or all tokens are forbidden"
)


class Programs:
    """`clock` gives seconds, for the latencies in `meta_info` only."""

    def __init__(
        self,
        scheduler: Scheduler,
        tokenizer: Tokenizer,
        grammars: GrammarStore,
        *,
        max_tokens: int,
        clock: Callable[[], float],
        share_outputs: bool = True,
        max_waiting: int | None = None,
        max_waiting_tokens: int | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._tokenizer = tokenizer
        self._grammars = grammars
        self._max_tokens = max_tokens  # of a sequence: by the context and by the pool
        self._max_waiting = max_waiting
        self._max_waiting_tokens = max_waiting_tokens
        self._clock = clock
        self._lines: dict[int, dict[int, Line]] = {}  # by run id, by branch id
        self._runs: dict[int, Run] = {}
        self._prepared: dict[int, dict[Constraint, Grammar | Exception]] = {}  # by run id
        self._owners: dict[int, Line] = {}  # by sequence id
        self.shared = SharedOutputs(enabled=share_outputs)
        self.num_completion_tokens = 0

    @property
    def num_runs(self) -> int:
        return len(self._runs)

    # Runs come, change and go.

    def start(self, run: Run, prepared: Prepared) -> None:
        """Take a run on; drive it as far as it goes without the model. One too many fails: what is
        under way goes on, whatever it has to wait for.
        """
        if (overload := self._overload()) is not None:
            run.fail(overload)
            return
        self._runs[run.id] = run
        self._prepared[run.id] = {}
        self._lines[run.id] = {ROOT: Line(ROOT, run)}
        self.wake(run, prepared)

    def _overload(self) -> OverloadedError | None:
        scheduler = self._scheduler
        for name, limit, waiting, unit in (
            ("max_waiting", self._max_waiting, scheduler.num_waiting, "sequences"),
            (
                "max_waiting_tokens",
                self._max_waiting_tokens,
                scheduler.num_waiting_tokens,
                "tokens",
            ),
        ):
            if limit is not None and waiting >= limit:
                return OverloadedError(
                    f"{waiting} {unit} wait already, and {name}={limit}; submit this run later, "
                    "fewer at once, or raise the limit"
                )
        return None

    def wake(self, run: Run, prepared: Prepared) -> None:
        """The run has new nodes, or was closed or cancelled. `prepared`: their constraints."""
        if run.id not in self._runs:
            return
        self._prepared[run.id].update(prepared)
        if run.cancelled:
            self._drop(run)
            run.finish_cancelled("the run was cancelled")
            return
        self._advance(run, [line for line in self._lines[run.id].values() if not line.busy])

    def fail_all(self, cause: BaseException) -> None:
        """The engine does not go on, whatever state it is in: every run ends with the cause."""
        for run in list(self._runs.values()):
            with suppress(BaseException):  # of whoever watches this run; the others come first
                run.fail(cause)
        self._runs.clear()
        self._prepared.clear()

    def _drop(self, run: Run) -> None:
        """The run is over: nothing of it stays."""
        del self._runs[run.id]
        del self._prepared[run.id]
        for line in self._lines.pop(run.id).values():
            _tell_partial(line)
            self._stop(line)
            self._unshare(line)

    def _advance(self, run: Run, lines: Iterable[Line]) -> None:
        """Drive these lines, and all that can go on because they went on."""
        due = deque(lines)
        while due and run.outcome is None:
            line = due.popleft()
            if line.failed:
                self._give_up(line)
            if line.busy or self._lines[run.id].get(line.branch_id) is not line:
                continue  # it was due twice, and went on the first time
            try:
                self._drive(line, due)
            except BaseException as cause:  # noqa: BLE001 - whatever it is, it is this row's alone
                self._fail(line, cause)
            if line.failed:
                due.append(line)
        if run.outcome is None and run.settled:
            run.finish()
        if run.outcome is not None:
            self._drop(run)

    def _fail(self, line: Line, cause: BaseException) -> None:
        """`cause` is the end of the run, or of this line alone, if a join may collect it."""
        _tell_partial(line)
        line.run.fail(cause, branch_id=line.branch_id)
        line.failed = True
        self._unshare(line)

    def _unshare(self, line: Line) -> None:
        """The line takes no more tokens of its equals, and gives them none."""
        if (heir := self.shared.leave(line)) is not None:
            self._draw(heir)

    def _give_up(self, line: Line) -> None:
        """Drop what a line that has failed was doing."""
        self._stop(line)
        line.activity = None
        line.failed = False

    def _stop(self, line: Line) -> None:
        for sequence in line.sequences:
            if self._owners.pop(sequence.id, None) is not None:
                self._scheduler.remove(sequence)

    def _drive(self, line: Line, due: deque[Line]) -> None:
        """Do what the machine says until the line needs the model, a value, or nothing any more."""
        lines = self._lines[line.run.id]
        while line.run.outcome is None:
            match line.run.next(line.branch_id):
                case Adopt(child=child):
                    line.adopt(lines[child])
                case Rewind():
                    line.rewind()
                case Append(pieces=pieces):
                    line.pending += pieces
                case Generate() as action:
                    self._begin_generation(line, action)
                    if line.busy:
                        return
                case Choose() as action:
                    self._begin_scoring(line, action)
                    return
                case Spawn(children=children):
                    line.set_mark()
                    for child_id in children:
                        lines[child_id] = line.fork(child_id)
                        due.append(lines[child_id])
                case Idle() as idle:
                    self._leave(line)
                    line.joining = idle is Idle.JOINING
                    parent = lines.get(line.parent_id)
                    if not line.joining and parent is not None and parent.joining:
                        parent.joining = False  # it may be waiting for this, and is asked once
                        due.append(parent)
                    if idle is Idle.FINISHED:
                        del lines[line.branch_id]
                    return

    def _leave(self, line: Line) -> None:
        """A line that waits or is done holds no pages: the tree keeps what it computed."""
        if self._owners.pop(line.sequence.id, None) is not None:
            self._scheduler.remove(line.sequence)
        line.sequence.wants_sample = False

    # A line begins to generate or to score.

    def _begin_generation(self, line: Line, action: Generate) -> None:
        """Text becomes tokens; then the prompt is scored, if that is asked for, then written on."""
        sampling = action.sampling
        line.set_mark()
        literal_bytes = line.num_literal_bytes if sampling.healing and sampling.max_tokens else 0
        line.flush(self._tokenizer)
        line.num_prompt_tokens = len(line.sequence.tokens)
        limit = self._limit(sampling.max_tokens or 0, line.num_prompt_tokens)
        line.prompt = self._prompt_logprobs(line, sampling)
        line.after = partial(self._write_on, line, action, limit=limit, literal_bytes=literal_bytes)
        line.begun_at = self._clock()
        if line.prompt is None or line.prompt.done:
            line.go_on()
            return
        self._leave(line)
        line.begin(line.prompt, sampling, now=line.begun_at)
        self._compute(line, [line.prompt.sequence])

    @staticmethod
    def _prompt_logprobs(line: Line, sampling: Sampling) -> PromptLogprobs | None:
        num_top = sampling.top_logprobs_num or 0
        peeks = sampling.max_tokens == 0 and num_top > 0
        if sampling.prompt_from is None and not peeks:
            return None
        tokens = line.sequence.tokens
        return PromptLogprobs(tokens, sampling.prompt_from, num_top=num_top, peeks=peeks)

    def _write_on(self, line: Line, action: Generate, *, limit: int, literal_bytes: int) -> None:
        """Begin to draw tokens, or end at once where none are wanted."""
        sampling = action.sampling
        taken = self._tokenizer.healable(line.sequence.tokens, literal_bytes)
        prefix = line.take_back(taken, self._tokenizer)
        matcher = None
        if (constraint := action.node.constraint) is not None:
            matcher = self._grammars.matcher(
                constraint,
                prepared=self._prepared[line.run.id],
                max_tokens=limit,
                num_taken=taken,
                prefix=prefix,
            )
        generation = Generation(
            sampling, self._tokenizer, limit=limit, matcher=matcher, prefix=prefix
        )
        line.begin(generation, sampling, now=line.begun_at)
        line.limit = limit + taken
        line.sequence.ahead = self._ahead(line)
        if limit == 0:
            generation.end_unwritten()
            self._end_generation(line)
            return
        key = key_of(
            line.sequence.tokens,
            sampling,
            constraint,
            prefix=prefix,
            limit=limit,
            salt=line.run.cache_salt or "",
        )
        written = self.shared.join(key, line)
        if written is None:
            line.sequence.cached = line.sequence.valid
            self._draw(line)
            return
        line.sequence.cached = len(line.sequence.tokens)
        for token, logprob in written:
            if self._accept_token(line, token, logprob, ()):
                break

    def _draw(self, line: Line) -> None:
        line.sequence.want_sample()
        self._compute(line, [line.sequence])

    def _ahead(self, line: Line) -> Ahead:
        """What the line may write before it parks."""
        nodes = line.run.nodes_ahead(line.branch_id)
        literals, budget = foresee(nodes, line.run.defaults, until_parked=True)
        num_known = len(line.sequence.tokens)
        literals = min(literals, self._max_tokens - num_known)
        end = num_known + literals + line.limit + budget
        return Ahead(min(end, self._max_tokens), literals)

    def _limit(self, max_tokens: int, num_prompt_tokens: int) -> int:
        room = self._max_tokens - num_prompt_tokens
        if room < min(max_tokens, 1):
            raise ContextLengthError(
                f"the prompt has {num_prompt_tokens} tokens, but prompt and output together may "
                f"have {self._max_tokens}; shorten the prompt, or raise context_len or kv_bytes "
                "as far as the model allows"
            )
        return min(max_tokens, room)

    def _begin_scoring(self, line: Line, action: Choose) -> None:
        node = action.node
        line.flush(self._tokenizer)
        line.num_prompt_tokens = len(line.sequence.tokens)
        self._leave(line)
        scoring = Scoring(
            self._tokenizer,
            line.sequence.tokens,
            node.choices,
            unconditional=node.method.needs_unconditional,
        )
        self._limit(1, scoring.num_tokens - 1)
        line.begin(scoring, Sampling(), now=self._clock())
        self._compute(line, scoring.sequences)

    def _compute(self, line: Line, sequences: List[Sequence]) -> None:
        new = [sequence for sequence in sequences if sequence.id not in self._owners]
        work = self._work(line.run) if new and self._scheduler.policy.by_work else 0
        for sequence in new:
            self._owners[sequence.id] = line
            sequence.group, sequence.priority = line.run.id, line.run.priority
            sequence.salt = line.run.cache_salt or ""
            sequence.work = work + len(sequence.tokens)
            self._scheduler.add(sequence)

    def _work(self, run: Run) -> int:
        """Tokens that the run may still write or draw, as far as its graph is known."""
        drawing = sum(line.num_undrawn for line in self._lines[run.id].values())
        return drawing + sum(foresee(run.nodes_ahead(), run.defaults))

    # A step of the engine.

    def request(self, batch: Batch) -> SampleRequest:
        """What the rows that draw a token ask for."""
        lines = [self._owners[grant.sequence.id] for grant in batch.sampled]
        rows = [line.sample_row() for line in lines]
        score_tops = [g.sequence.num_top for g in batch.grants for _ in g.scored]
        return SampleRequest(rows, self._bitmask(lines), score_tops if any(score_tops) else ())

    def _bitmask(self, lines: list[Line]) -> NDArray[np.int32] | None:
        """A row for each line, all masks of constraints in one gather; None when all is allowed."""
        written = [line.writes for line in lines]
        masked = [each if each is not None and each.is_masked else None for each in written]
        if all(each is None for each in masked):
            return None
        bitmask = np.empty((len(lines), self._tokenizer.vocabulary.num_words), dtype=np.int32)

        def fail(index: int, cause: Exception) -> None:
            self._fail(lines[index], cause)

        matchers = [None if each is None else each.matcher for each in masked]
        fill_bitmasks(matchers, bitmask, on_error=fail)
        for line, each, row in zip(lines, masked, bitmask, strict=True):
            if each is not None and line.run.outcome is None and not line.failed:
                self._guard(line, partial(each.narrow, row))
        return bitmask

    def commit(self, batch: Batch, sampled: Sampled) -> None:
        """The step's tokens and scores arrive; every line that got one goes on."""
        moved: dict[int, list[Line]] = {}
        tops = sampled.tops or [()] * len(batch.sampled)
        score_tops = sampled.score_tops or [()] * len(sampled.scores)
        for grant, token, logprob, top in zip(
            batch.sampled, sampled.tokens, sampled.logprobs, tops, strict=True
        ):
            leader = self._owners[grant.sequence.id]
            followers: List[Line] = []
            if leader.run.outcome is None and not leader.failed:
                followers = self.shared.followers(leader)
                self.shared.wrote(leader, Drawn(token, logprob))  # they have it, whoever fails
            for line in (*followers, leader):
                if self._accept_token(line, token, logprob, top):
                    moved.setdefault(line.run.id, []).append(line)
        offset = 0
        for grant in batch.grants:
            if num_scores := len(grant.scored):
                here = slice(offset, offset + num_scores)
                offset += num_scores
                line = self._owners[grant.sequence.id]
                if self._accept_scores(line, grant, sampled.scores[here], score_tops[here]):
                    moved.setdefault(line.run.id, []).append(line)
        for run_id, lines in moved.items():
            self._advance(self._runs[run_id], lines)

    def _accept_token(self, line: Line, token: int, logprob: float, top: Top) -> bool:
        """True when the generation has ended and the line can go on."""
        if isinstance(line.activity, PromptLogprobs):  # the token is not wanted
            line.activity.next_top = top
            return self._end_prompt(line, line.activity)
        generation = line.generation
        if line.run.outcome is not None or line.failed:  # its mask could not be made, say
            self._unshare(line)
            return True
        if token == NO_TOKEN:
            self._fail(line, BackendError(NOTHING_TO_DRAW))
            return True
        if not self._guard(line, partial(generation.accept, token)):  # beyond a grammar's limits
            return True
        self.num_completion_tokens += 1
        line.logprobs.append(logprob)
        line.tops.append(top)
        line.sequence.append([token])
        if generation.ending is not None:
            self.shared.finish(line)
            self._end_generation(line)
            return True
        if line.run.streaming:
            return not self._guard(line, partial(self._show, line))
        return False

    def _show(self, line: Line) -> None:
        line.run.stream(line.branch_id, line.generation.text)

    def _end_generation(self, line: Line) -> None:
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
        if line.sequence.id in self._owners:  # it was computed, not shared
            self._scheduler.usage.saw(len(generation.tokens), line.limit)
        line.end_generation(ending)
        completion = Completion(ending.text, meta=meta, truncated=ending.truncated)
        self._guard(line, partial(line.run.complete, line.branch_id, completion))

    def _accept_scores(
        self, line: Line, grant: Grant, scores: List[float], tops: List[Top]
    ) -> bool:
        """True when all is scored, a choice is made of it, and the line can go on."""
        sequence, first = grant.sequence, grant.scored.start
        if isinstance(line.activity, PromptLogprobs):
            line.activity.accept(first, scores, tops)
            return self._end_prompt(line, line.activity)
        scoring = line.scoring
        scoring.accept(sequence, first, scores)
        if scoring.is_scored(sequence):
            del self._owners[sequence.id]
            self._scheduler.remove(sequence)
        if scoring.done:
            self._guard(line, partial(self._choose, line, scoring))
        return scoring.done

    def _end_prompt(self, line: Line, prompt: PromptLogprobs) -> bool:
        """Go on to write, once all of the prompt's log-probabilities are there. True when that is
        at its end already.
        """
        if not prompt.done:
            return False
        del self._owners[prompt.sequence.id]
        self._scheduler.remove(prompt.sequence)
        line.activity = None
        self._guard(line, line.go_on)
        return not line.busy

    def _choose(self, line: Line, scoring: Scoring) -> None:
        meta = {**line.meta(now=self._clock()), "completion_tokens": 0}
        line.activity = None
        text = line.run.choose(line.branch_id, scoring.result(), draw=line.draw(), meta=meta)
        line.pending.append(Piece(text, written=True))

    def _guard(self, line: Line, call: Callable[[], object]) -> bool:
        """Call what may raise for reasons of this row alone: then its run fails. True if fine."""
        try:
            call()
        except BaseException as cause:  # noqa: BLE001 - users' code may raise anything, SystemExit too
            self._fail(line, cause)
            return False
        return True


def _tell_partial(line: Line) -> None:
    """What it has written, for who asks what a run came to that ends early. Nobody goes on with it,
    so that only the run is told, not those who watch one that stands for another.
    """
    if isinstance(line.activity, Generation):
        with suppress(CompileBudgetError):  # a stop pattern that costs too much hides what is shown
            Run.stream(line.run, line.branch_id, line.activity.text)
