"""The grammars of this runtime: each constraint compiled once for its tokenizer.

Owns the constraints that were refused (a bad schema is refused once, not once a row); those that
were compiled are the compiler's to keep. Callers' threads compile ahead, and what they found goes
with the run: the engine's thread compiles nothing, however much is compiled meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from grammars import Compiler, Constraint, Grammar, GrammarError, Matcher, Vocabulary
from grammars.content import num_bytes
from sgdsl.errors import UsageError
from sgdsl.nodes import asked

MAX_REFUSED = 1024
MAX_REFUSED_BYTES = 16 << 20
"""Constraints of one process are few; an attacker's may be many, and long."""

Prepared = Mapping[Constraint, Grammar | Exception]
"""What was found of constraints when they were compiled ahead."""


class GrammarStore:
    """Thread-safe."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = Compiler(vocabulary, isolate=True)
        self._refused: OrderedDict[Constraint, tuple[GrammarError, int]] = OrderedDict()
        self._refused_bytes = 0
        self._lock = threading.Lock()

    def prepare(self, constraints: Iterable[Constraint]) -> Prepared:
        """Compile ahead; what is wrong with one (a constraint may be a user's own class, and raise
        anything) is raised where it is used.
        """
        found: dict[Constraint, Grammar | Exception] = {}
        for constraint in constraints:
            try:
                grammar = found[constraint] = self.get(constraint)
                grammar.renew()
            except Exception as error:  # noqa: BLE001 - it is raised where it is used
                found[constraint] = error
        return found

    def get(self, constraint: Constraint) -> Grammar:
        """Raises GrammarError, the same one for every row that asks."""
        with self._lock:
            refusal = self._refused.get(constraint)
        if refusal is not None:
            raise refusal[0].with_traceback(None)
        try:
            return self._compiler.compile(constraint)
        except GrammarError as refused:
            self._note(constraint, refused)
            raise

    def _note(self, constraint: Constraint, refused: GrammarError) -> None:
        size = num_bytes(constraint)
        with self._lock:
            if constraint in self._refused or size > MAX_REFUSED_BYTES:
                return
            self._refused[constraint] = (refused.with_traceback(None), size)
            self._refused_bytes += size
            while len(self._refused) > MAX_REFUSED or self._refused_bytes > MAX_REFUSED_BYTES:
                self._refused_bytes -= self._refused.popitem(last=False)[1][1]

    def matcher(
        self,
        constraint: Constraint,
        *,
        prepared: Prepared,
        max_tokens: int,
        num_taken: int,
        prefix: bytes,
    ) -> Matcher:
        """A fresh cursor. `prefix` spells the `num_taken` tokens that healing took back: they are
        not counted against `max_tokens`.
        """
        found = prepared.get(constraint)
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        grammar = found or self.get(constraint)
        if grammar.min_tokens > max_tokens:
            raise UsageError(
                f"max_tokens allows {max_tokens} tokens here, but the shortest known output of "
                f"{asked(constraint)} takes {grammar.min_tokens}; raise max_tokens or "
                "allow less"
            )
        return Matcher(grammar, max_tokens=max_tokens + num_taken, prefix=prefix)

    def close(self) -> None:
        """End what is being compiled."""
        self._compiler.close()
