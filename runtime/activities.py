"""The activities: how a line begins to generate, or to score.

Owns what is done when a program comes to a `gen` or a `select`: text becomes tokens, the border is
healed, limits are set, and the sequences that the line needs for it are computed. What is drawn or
scored then is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from runtime.arrivals import Arrivals
from runtime.aside import Beside, at_once
from runtime.errors import ContextLengthError
from runtime.foresight import Ahead, foresee
from runtime.generation import Generation
from runtime.grammar_store import GrammarStore, Prepared
from runtime.line import Line
from runtime.prompt_logprobs import PromptLogprobs
from runtime.roster import Roster
from runtime.sampling.request import Draw
from runtime.scoring import Scoring, Splitting, are_many
from runtime.sharing import key_of
from runtime.tokenizer import Tokenizer
from sgdsl.graph import Sampling
from sgdsl.machine import Choose, Generate

Resume = Callable[[Line, Splitting, Callable[[], Scoring]], None]


class Activities:
    """`max_tokens` of a sequence: by the context and by the pool, of which pins take a part.
    `beside`: where many options are tokenised, while other lines go on. `resume`: has the line
    score them then.
    """

    def __init__(
        self,
        roster: Roster,
        arrivals: Arrivals,
        tokenizer: Tokenizer,
        grammars: GrammarStore,
        *,
        max_tokens: int,
        clock: Callable[[], float],
        resume: Resume,
    ) -> None:
        self._roster = roster
        self._arrivals = arrivals
        self._tokenizer = tokenizer
        self._grammars = grammars
        self._max_tokens = max_tokens
        self._clock = clock
        self.beside: Beside = at_once
        self.resume = resume

    def generate(self, line: Line, action: Generate, prepared: Prepared) -> None:
        """Text becomes tokens; then the prompt is scored, if that is asked for, then written on.
        `prepared`: the constraints of the run.
        """
        sampling = action.sampling
        line.set_mark()
        literal_bytes = line.num_literal_bytes if sampling.healing and sampling.max_tokens else 0
        line.flush(self._tokenizer)
        line.num_prompt_tokens = len(line.sequence.tokens)
        self._promise_pin(line)
        limit = self._limit(sampling.max_tokens or 0, line.num_prompt_tokens)
        line.prompt = _prompt_logprobs(line, sampling)
        line.after = partial(
            self._write_on,
            line,
            action,
            prepared=prepared,
            limit=limit,
            literal_bytes=literal_bytes,
        )
        line.begun_at = self._clock()
        if line.prompt is None or line.prompt.done:
            line.go_on()
            return
        self._roster.leave(line)
        line.begin(line.prompt, sampling, now=line.begun_at)
        self._roster.compute(line, [line.prompt.sequence])

    def score(self, line: Line, action: Choose) -> None:
        node = action.node
        line.flush(self._tokenizer)
        line.num_prompt_tokens = len(line.sequence.tokens)
        self._roster.leave(line)
        prepare = partial(
            Scoring,
            self._tokenizer,
            list(line.sequence.tokens),
            node.choices,
            unconditional=node.method.needs_unconditional,
        )
        if not are_many(node.choices):
            self.begin_scoring(line, prepare())
            return
        line.activity = splitting = Splitting()
        self.beside(prepare, partial(self.resume, line, splitting))

    def begin_scoring(self, line: Line, scoring: Scoring) -> None:
        self._limit(1, scoring.num_tokens - 1)
        line.begin(scoring, Sampling(), now=self._clock())
        self._roster.compute(line, scoring.sequences)

    def _promise_pin(self, line: Line) -> None:
        run = line.run
        if run.pins:
            self._roster.scheduler.pins.promise(
                run.id,
                line.sequence.tokens,
                salt=run.cache_salt or "",
                longest=self._roster.longest_beside(run),
            )

    def _write_on(
        self, line: Line, action: Generate, *, prepared: Prepared, limit: int, literal_bytes: int
    ) -> None:
        """Begin to draw tokens, or end at once where none are wanted."""
        sampling = action.sampling
        taken = self._tokenizer.healable(line.sequence.tokens, literal_bytes)
        prefix = line.take_back(taken, self._tokenizer)
        line.num_taken = taken
        matcher = None
        if (constraint := action.node.constraint) is not None:
            matcher = self._grammars.matcher(
                constraint, prepared=prepared, max_tokens=limit, num_taken=taken, prefix=prefix
            )
        generation = Generation(
            sampling, self._tokenizer, limit=limit, matcher=matcher, prefix=prefix
        )
        line.begin(generation, sampling, now=line.begun_at)
        line.limit = limit + taken
        line.sequence.ahead = self._ahead(line)
        if limit == 0:
            generation.end_unwritten()
            self._arrivals.end_generation(line)
            return
        key = key_of(
            line.sequence.tokens,
            sampling,
            constraint,
            prefix=prefix,
            limit=limit,
            salt=line.run.cache_salt or "",
        )
        begun = self._begun(action, taken)
        if line.run.pins or begun:
            key = None  # what it computes is what is asked for
        written = self._roster.shared.join(key, line)
        if written is None:
            if not self._arrivals.take_begun(line, begun):
                return
            line.sequence.cached = line.sequence.valid
            if not list(self._arrivals.take_forced(line)):
                self._roster.draw(line)
            return
        line.sequence.cached = len(line.sequence.tokens)
        for token, is_forced in written:
            if self._arrivals.accept_token(line, Draw(token, is_forced=is_forced)):
                return
        self._roster.leave(line)  # it waits for what another one draws

    def _begun(self, action: Generate, taken: int) -> Sequence[int]:
        """The tokens that another runtime has written of it; none, if they are not ours."""
        begun = action.begun
        if begun is None or begun.taken != taken or not self._tokenizer.knows(begun):
            return ()
        return begun.tokens

    def _ahead(self, line: Line) -> Ahead:
        """What the line may write before it parks."""
        nodes = line.run.nodes_ahead(line.branch_id)
        literals, budget = foresee(nodes, line.run.defaults, until_parked=True)
        num_known = len(line.sequence.tokens)
        literals = min(literals, self._room - num_known)
        end = num_known + literals + line.limit + budget
        return Ahead(min(end, self._room), literals)

    @property
    def _room(self) -> int:
        """Tokens of a sequence, at most."""
        return min(self._max_tokens, self._roster.scheduler.pins.max_tokens)

    def _limit(self, max_tokens: int, num_prompt_tokens: int) -> int:
        room = self._room - num_prompt_tokens
        if room < min(max_tokens, 1):
            pins = ", beside what is pinned" if self._room < self._max_tokens else ""
            raise ContextLengthError(
                f"the prompt has {num_prompt_tokens} tokens, but prompt and output together may "
                f"have {self._room}{pins}; shorten the prompt, or raise context_len or kv_bytes "
                "as far as the model allows"
            )
        return min(max_tokens, room)


def _prompt_logprobs(line: Line, sampling: Sampling) -> PromptLogprobs | None:
    """What is asked for of the prompt's log-probabilities; None if nothing is."""
    num_top = sampling.top_logprobs_num or 0
    peeks = sampling.max_tokens == 0 and num_top > 0
    if sampling.prompt_from is None and not peeks:
        return None
    tokens = line.sequence.tokens
    return PromptLogprobs(tokens, sampling.prompt_from, num_top=num_top, peeks=peeks)
