"""The grammars of this runtime: each constraint compiled once for its tokenizer.

Owns the store of compiled grammars, its failures included (a refused schema is refused once, not
once a row). Callers' threads compile ahead while the engine's thread reads, so it is locked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from grammars import Compiler, Constraint, Grammar, GrammarError, Matcher, Vocabulary
from sgdsl.errors import UsageError

MAX_GRAMMARS = 1024
"""Constraints of one process are few; an attacker's may be many."""


class GrammarStore:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = Compiler(vocabulary)
        self._known: OrderedDict[Constraint, Grammar | GrammarError] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self, constraint: Constraint) -> Grammar | GrammarError:
        """Compile ahead; a refusal is kept, and raised by `get`, where the constraint is used."""
        with self._lock:
            known = self._known.get(constraint)
            if known is not None:
                self._known.move_to_end(constraint)
                return known
        try:
            known = self._compiler.compile(constraint)
        except GrammarError as refusal:
            known = refusal
        with self._lock:
            self._known[constraint] = known
            while len(self._known) > MAX_GRAMMARS:
                self._known.popitem(last=False)
        return known

    def get(self, constraint: Constraint) -> Grammar:
        known = self.prepare(constraint)
        if isinstance(known, GrammarError):
            raise known
        return known

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
                f"{constraint!r} takes {grammar.min_tokens}; raise max_tokens or allow less"
            )
        return Matcher(grammar, max_tokens=max_tokens + num_taken, prefix=prefix)
