"""A compiled constraint in one vocabulary. Owns the lock around everything that is lazy.

Nothing is built ahead of need: a grammar is a start expression, and what matchers ask of it
(successors, masks, costs) is derived on the way and kept. Any number of threads may ask.
It must not know what the constraint was written in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from grammars.algebra import Algebra
from grammars.budget import too_deep_is_over_budget
from grammars.completion import UNREACHABLE, Completions, Spelling
from grammars.derive import matches, walk
from grammars.errors import EmptyLanguageError, GrammarError
from grammars.expr import Expr
from grammars.json_values import is_text
from grammars.mask_store import MaskStore
from grammars.masks import Mask

MAX_KEPT_EXPRESSIONS = 50_000
"""About 30 MB; a grammar that has derived more forgets what it can derive again."""


class Grammar:
    """What matchers of one constraint share.

    `start` is the expression of the whole language, `min_tokens` the tokens of the cheapest text
    that is known: a budget must be at least that. Raises EmptyLanguageError when there is no text.
    """

    def __init__(self, start: Expr, *, algebra: Algebra, masks: MaskStore) -> None:
        self.vocabulary = masks.vocabulary
        self.start = start
        self._algebra = algebra
        self._masks = masks
        self._completions = Completions(algebra, self.vocabulary)
        self._lock = RLock()
        if not self._completions.is_alive(start):
            raise EmptyLanguageError("no text satisfies the constraint")
        self.min_tokens = self._completions.cost(start)
        if self.min_tokens >= UNREACHABLE:
            raise EmptyLanguageError(
                "no text that this vocabulary can write satisfies the constraint"
            )
        self._max_kept = max(MAX_KEPT_EXPRESSIONS, 4 * len(algebra))

    def begin(self, prefix: bytes) -> tuple[Expr, Spelling]:
        """The state before `prefix` and the language, and its cheapest completion."""
        with self._step():
            node = self._algebra.concat(self._algebra.literal(prefix), self.start)
            return node, self._completions.spelling(node)

    def advance(self, node: Expr, token_id: int) -> tuple[Expr, Spelling]:
        """The state after a token, and its cheapest completion."""
        data = self.vocabulary.token_bytes(token_id)
        assert data is not None, f"token {token_id} is never allowed inside a constraint"
        with self._step():
            following = walk(self._algebra, node, data)
            assert self._completions.is_alive(following), (
                f"token {token_id} ({data!r}) is a dead end"
            )
            return following, self._completions.spelling(following)

    def mask(self, node: Expr) -> Mask:
        """The mask of a state; a few microseconds when it is known, milliseconds when it is not.

        Raises CompileBudgetError when deriving it costs more than one step may.
        """
        found = self._masks.known(node)
        if found is None:
            with self._step():
                found = self._masks.mask(node, self._completions)
        return found

    def contains(self, text: str) -> bool:
        """Whether `text` is in the language."""
        if not is_text(text):
            return False
        with self._step():
            return matches(self._algebra, self.start, text.encode())

    def fewest_tokens(self, data: bytes) -> list[int]:
        """The fewest tokens that write `data`; raises GrammarError when none do."""
        with self._step():
            spelled = self._completions.spell(data)
        if spelled.cost >= UNREACHABLE:
            raise GrammarError(f"{data!r:.80} cannot be written with this vocabulary's tokens")
        return list(spelled.tokens())

    def is_final(self, node: Expr) -> bool:
        """Whether nothing can follow a text that ends here."""
        if node is self._algebra.epsilon:
            return True
        return self.mask(node).dearest < 0

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One lazy step: alone, with an allowance of its own, and what is kept bounded."""
        with self._lock, too_deep_is_over_budget():
            self._algebra.budget.refill()
            if len(self._algebra) > self._max_kept:
                self._algebra.forget()
                self._completions.forget()
            yield
