"""The grammars of this runtime: each constraint compiled once for its tokenizer.

Owns the constraints that were refused (a bad schema is refused once, not once a row); those that
were compiled are the compiler's to keep. Callers' threads compile ahead while the engine's thread
reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress

from grammars import Compiler, Constraint, Grammar, GrammarError, Matcher, Vocabulary
from sgdsl.errors import UsageError
from sgdsl.graph import shorten

MAX_REFUSED = 1024
"""Constraints of one process are few; an attacker's may be many."""


class GrammarStore:
    """Thread-safe."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = Compiler(vocabulary)
        self._refused: OrderedDict[Constraint, GrammarError] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self, constraint: Constraint) -> None:
        """Compile ahead; what is wrong with it (a constraint may be a user's own class, and raise
        anything) is raised by `get`, where it is used.
        """
        with suppress(Exception):
            self.get(constraint)

    def get(self, constraint: Constraint) -> Grammar:
        """Raises GrammarError, the same one for every row that asks."""
        with self._lock:
            refusal = self._refused.get(constraint)
        if refusal is not None:
            raise refusal.with_traceback(None)
        try:
            return self._compiler.compile(constraint)
        except GrammarError as refused:
            with self._lock:
                self._refused[constraint] = refused
                while len(self._refused) > MAX_REFUSED:
                    self._refused.popitem(last=False)
            raise

    def matcher(
        self, constraint: Constraint, *, max_tokens: int, num_taken: int, prefix: bytes
    ) -> Matcher:
        """A fresh cursor. `prefix` spells the `num_taken` tokens that healing took back: they are
        not counted against `max_tokens`.
        """
        grammar = self.get(constraint)
        if grammar.min_tokens > max_tokens:
            raise UsageError(
                f"max_tokens allows {max_tokens} tokens here, but the shortest output of "
                f"{shorten(repr(constraint), 200)} takes {grammar.min_tokens}; raise max_tokens or "
                "allow less"
            )
        return Matcher(grammar, max_tokens=max_tokens + num_taken, prefix=prefix)
