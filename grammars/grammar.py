"""A compiled constraint in one vocabulary. Owns what its matchers share.

It must not know what the constraint was written in.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from grammars.budget import Limits
from grammars.errors import EmptyLanguageError, GrammarError
from grammars.expr import Expr
from grammars.json_values import is_text
from grammars.language import Language
from grammars.spelling import UNREACHABLE, Spelling
from grammars.vocabulary import Vocabulary

MAX_KEPT_EXPRESSIONS = 50_000
"""About 30 MB. When a language has derived more, new matchers begin with a fresh one."""


class Grammar:
    """What matchers of one constraint share.

    `start` is the expression of the whole language, `min_tokens` the tokens of the cheapest text
    that is known: a budget must be at least that. `is_costly`: lowering takes longer than a step of
    decoding may, so that only `renew` does it again. Raises EmptyLanguageError when there is no
    text.
    """

    def __init__(
        self,
        lower: Callable[[], Language],
        vocabulary: Vocabulary,
        *,
        is_costly: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self._lower = lower
        self._is_costly = is_costly
        self._language = lower()
        self._lock = Lock()
        if self._language.is_empty():
            raise EmptyLanguageError("no text satisfies the constraint")
        _, plan = self._language.begin()
        self.min_tokens = plan.cost
        if self.min_tokens >= UNREACHABLE:
            raise EmptyLanguageError(
                "no text that this vocabulary can write satisfies the constraint"
            )
        self._max_kept = max(MAX_KEPT_EXPRESSIONS, 4 * len(self._language))

    @property
    def start(self) -> Expr:
        """The expression of the whole language."""
        return self._language.start

    def begin(self, prefix: bytes) -> tuple[Language, Expr, Spelling]:
        """The language for one matcher, the state before `prefix` and it, and the cheapest
        completion of that.

        A matcher stays with its language; one that has grown too large goes with its last matcher.
        """
        if not self._is_costly:
            self.renew()
        language = self._language
        return language, *language.begin(prefix)

    def renew(self) -> None:
        """Begin a fresh language where the last has grown too large."""
        with self._lock:
            if len(self._language) > self._max_kept:
                self._language = self._lower()

    @property
    def needed(self) -> Limits:
        """The limits that its compile has needed."""
        return self._language.needed

    @property
    def num_bytes(self) -> int:
        """What it keeps, about."""
        return self._language.num_bytes

    def contains(self, text: str) -> bool:
        """Whether `text` is in the language."""
        return is_text(text) and self._language.contains(text.encode())

    def fewest_tokens(self, data: bytes) -> list[int]:
        """The fewest tokens that write `data`; raises GrammarError when none do."""
        spelled = self._language.spell(data)
        if spelled.cost >= UNREACHABLE:
            raise GrammarError(f"{data!r:.80} cannot be written with this vocabulary's tokens")
        return list(spelled.tokens())
