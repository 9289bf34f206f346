"""The errors a caller of `grammars` can meet. Owns their types; knows nothing of what raises them.

All of them are the caller's fault and say so in one sentence. Faults of this package are `assert`s.
"""

from __future__ import annotations


class GrammarError(ValueError):
    """A constraint is malformed or cannot be used as asked.

    `position` says where: a column (0-based) of a pattern, a JSON pointer of a schema, or None.
    """

    def __init__(self, message: str, position: int | str | None = None) -> None:
        super().__init__(message)
        self.position = position


class UnsupportedError(GrammarError):
    """The constraint is valid, but asks for something that is not enforced yet."""


class EmptyLanguageError(GrammarError):
    """No text satisfies the constraint (or none that the vocabulary can spell)."""


class CompileBudgetError(GrammarError):
    """The constraint needs more expressions, states or seconds than its budget allows."""
