"""From constraints to grammars. Owns the caches and the limits of one vocabulary.

It must not know how a constraint is written: each kind lowers itself to an expression.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from threading import Lock

from grammars.algebra import Algebra
from grammars.budget import Budget, too_deep_is_over_budget
from grammars.constraint import Constraint
from grammars.grammar import Grammar
from grammars.language import Language
from grammars.mask_store import MaskStore
from grammars.matcher import Matcher
from grammars.vocabulary import Vocabulary


class Compiler:
    """Compiles constraints for `vocabulary`, each once; any number of threads may ask.

    `max_steps` (expressions, states) and `max_seconds` bound each compile, `max_lazy_steps` and
    `max_lazy_seconds` each later step; `max_grammars` and `max_mask_bytes` bound what is kept.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        max_steps: int = 500_000,
        max_seconds: float = 10.0,
        max_lazy_steps: int = 100_000,
        max_lazy_seconds: float = 5.0,
        max_grammars: int = 256,
        max_mask_bytes: int = 64 << 20,
    ) -> None:
        self.vocabulary = vocabulary
        self._limits = (max_steps, max_seconds)
        self._lazy_limits = (max_lazy_steps, max_lazy_seconds)
        self._max_grammars = max_grammars
        self._masks = MaskStore(vocabulary, max_bytes=max_mask_bytes)
        self._grammars: OrderedDict[Constraint, Future[Grammar]] = OrderedDict()
        self._lock = Lock()

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
                while len(self._grammars) > self._max_grammars:
                    self._grammars.popitem(last=False)
        if known is not None:
            return known.result()  # another thread's compile of the same constraint is waited for
        try:
            mine.set_result(self._compile(constraint))
        except BaseException as error:
            with self._lock:
                self._grammars.pop(constraint, None)
            mine.set_exception(error)
            raise
        return mine.result()

    def _compile(self, constraint: Constraint) -> Grammar:
        def lower() -> Language:
            budget = Budget(*self._limits)
            algebra = Algebra(self.vocabulary.alphabet, budget=budget)
            with too_deep_is_over_budget():
                start = constraint.lower(algebra)
            language = Language(start, algebra=algebra, masks=self._masks)
            language.begin()  # the cheapest completion is a part of the compile
            budget.allow(*self._lazy_limits)
            return language

        return Grammar(lower, self.vocabulary)


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
