"""From constraints to grammars. Owns the caches and the limits of one vocabulary.

It must not know how a constraint is written: each kind lowers itself to an expression.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from itertools import chain, count
from threading import Lock

from grammars.algebra import Algebra
from grammars.budget import Budget, Limits, too_deep_is_over_budget
from grammars.constraint import Constraint
from grammars.content import is_portable, num_bytes
from grammars.errors import CompileBudgetError
from grammars.grammar import Grammar
from grammars.language import Language
from grammars.mask_store import MaskStore
from grammars.matcher import Matcher
from grammars.prelude import prelude
from grammars.probe import Probe
from grammars.vocabulary import Vocabulary

ON_THE_SPOT = Limits(20_000, 0.25, 32 << 20)
"""What a compile may cost in this process before another has tried it: nearly all cost less."""

MAX_TEXT_ON_THE_SPOT = 256 << 10
"""Bytes of a constraint that is compiled without a trial: to read it takes long enough."""

AGAIN = 4
"""Times what a trial has needed that the compile behind it may need, and what is compiled on the
spot more: it makes the same expressions, but this process may have to wait for its memory.
"""

TRIM_EVERY = 64
"""Constraints asked for between two looks at what all of them keep."""


class Compiler:
    """Compiles constraints for `vocabulary`, each once; any number of threads may ask.

    `max_steps` (expressions, states) and `max_seconds` bound each compile, `max_lazy_steps` and
    `max_lazy_seconds` each later step, `max_bytes` what one constraint keeps; `max_grammars`,
    `max_grammar_bytes` and `max_mask_bytes` bound what is kept of all of them.

    `isolate`: a constraint that cannot be compiled on the spot is first tried in a process of its
    own (see `probe`), which can be killed. Of a Python type that is its schema. What passes there
    is compiled here within what it has needed.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        max_steps: int = Limits().max_steps,
        max_seconds: float = Limits().max_seconds,
        max_bytes: int = Limits().max_bytes,
        max_lazy_steps: int = 100_000,
        max_lazy_seconds: float = 2.0,
        max_grammars: int = 256,
        max_grammar_bytes: int = 256 << 20,
        max_mask_bytes: int = 64 << 20,
        isolate: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self._limits = Limits(max_steps, max_seconds, max_bytes)
        self._lazy_limits = Limits(max_lazy_steps, max_lazy_seconds, max_bytes)
        self._max_grammars = max_grammars
        self._max_grammar_bytes = max_grammar_bytes
        self._masks = MaskStore(vocabulary, max_bytes=max_mask_bytes)
        self._grammars: OrderedDict[Constraint, Future[Grammar]] = OrderedDict()
        self._sizes: dict[Constraint, int] = {}
        self._num_asked = 0
        self._lock = Lock()
        self._running: set[Budget] = set()
        self.probe = Probe(vocabulary, self._limits) if isolate else None

    def compile(self, constraint: Constraint) -> Grammar:
        """The grammar of `constraint`.

        Raises UnsupportedError, EmptyLanguageError or CompileBudgetError; see `errors`.
        """
        with self._lock:
            known = self._grammars.get(constraint)
            if known is not None:
                self._grammars.move_to_end(constraint)
            else:
                mine: Future[Grammar] = Future()
                self._grammars[constraint] = mine
                self._sizes[constraint] = num_bytes(constraint)
            self._num_asked += 1
            if self._num_asked % TRIM_EVERY == 0:
                self._trim()  # what is here grows as it is used
        if known is not None:
            return known.result()  # another thread's compile of the same constraint is waited for
        try:
            mine.set_result(self._compile(constraint))
        except BaseException as error:
            with self._lock:
                self._drop(constraint)
            mine.set_exception(error)
            raise
        with self._lock:
            self._trim()
        return mine.result()

    def close(self) -> None:
        """End the compiles that are under way, each with CompileBudgetError, and the process."""
        for budget in list(self._running):
            budget.cancel()
        if self.probe is not None:
            self.probe.close()

    # -- what is kept ------------------------------------------------------------------------

    def _drop(self, constraint: Constraint) -> None:
        self._grammars.pop(constraint, None)
        self._sizes.pop(constraint, None)

    def _trim(self) -> None:
        """Drops what was used least recently, down to the bounds; never the last."""
        sizes = {each: self._size_of(each) for each in self._grammars}
        total = sum(sizes.values())
        for constraint, size in sizes.items():
            if len(self._grammars) <= self._max_grammars and total <= self._max_grammar_bytes:
                break
            if len(self._grammars) == 1 or not self._grammars[constraint].done():
                continue
            self._drop(constraint)
            total -= size

    def _size_of(self, constraint: Constraint) -> int:
        compiled = self._grammars[constraint]
        is_here = compiled.done() and compiled.exception() is None
        return self._sizes[constraint] + (compiled.result().num_bytes if is_here else 0)

    # -- compiling ---------------------------------------------------------------------------

    def _compile(self, constraint: Constraint) -> Grammar:
        if self.probe is None or not is_portable(constraint):
            return self._grammar(constraint, self._limits)
        limits = ON_THE_SPOT.within(self._limits)
        if num_bytes(constraint) <= MAX_TEXT_ON_THE_SPOT:
            budget = Budget(*limits)
            try:
                return self._grammar(constraint, self._limits, first=budget)
            except CompileBudgetError:
                if not budget.is_spent or limits == self._limits:
                    raise  # more of the budget would not help, or there is no more
        needed = self.probe.check(constraint)
        limits = self._limits
        if needed is not None:
            limits = needed.widened(AGAIN, ON_THE_SPOT).within(limits)
        return self._grammar(constraint, limits, is_costly=True)

    def _grammar(
        self,
        constraint: Constraint,
        limits: Limits,
        *,
        first: Budget | None = None,
        is_costly: bool = False,
    ) -> Grammar:
        """The grammar of `constraint`, lowered within `limits`; the first time within a budget of
        its own, if one is given.
        """
        budgets = chain([first or Budget(*limits)], (Budget(*limits) for _ in count()))
        return Grammar(
            lambda: self._lower(constraint, next(budgets)), self.vocabulary, is_costly=is_costly
        )

    def _lower(self, constraint: Constraint, budget: Budget) -> Language:
        """The language of `constraint`, lowered within `budget`, and ready for lazy steps."""
        alphabet = self.vocabulary.alphabet
        algebra = Algebra(alphabet, budget=budget, prelude=prelude(alphabet))
        self._running.add(budget)
        try:
            with too_deep_is_over_budget(budget):
                start = constraint.lower(algebra)
            language = Language(start, algebra=algebra, masks=self._masks)
            language.settle(self._lazy_limits)
        finally:
            self._running.discard(budget)
        return language


@lru_cache(maxsize=1)
def _byte_compiler() -> Compiler:
    """A compiler for the vocabulary in which every byte is a token."""
    tokens = [bytes([byte]) for byte in range(256)]
    return Compiler(Vocabulary([*tokens, None], eos_token_ids=[256]), max_grammars=64)


def accepts(constraint: Constraint, text: str) -> bool:
    """Whether `text` satisfies `constraint`: by the same derivatives that decoding follows.

    Raises as `Compiler.compile` does.
    """
    return _byte_compiler().compile(constraint).contains(text)


def token_accepts(
    constraint: Constraint,
    text: str,
    vocabulary: Vocabulary,
    tokenize: Callable[[str], Iterable[int]] | None = None,
) -> bool:
    """Whether the masks let the tokens of `text`, and then a stop token, through.

    `tokenize` gives the tokens; by default they are the fewest that write the text.
    """
    grammar = _compiler_of(vocabulary).compile(constraint)
    token_ids = list(tokenize(text) if tokenize else grammar.fewest_tokens(text.encode()))
    budget = max(len(token_ids), grammar.min_tokens) + 1_000  # slack: only the language decides
    matcher = Matcher(grammar, max_tokens=budget)
    for token_id in token_ids:
        if not matcher.allows(token_id):
            return False
        matcher.accept_token(token_id)
    return matcher.is_complete


@lru_cache(maxsize=4)
def _compiler_of(vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary)
