"""outlines-core behind a matcher's verbs, for comparison. Owns the translation of its interface.

It is no engine of ours: release 0.2.14 builds incomplete automata. After an accepting state it
drops the tokens that lead to one that is not accepting, so that `[0-9]+(\\.[0-9]+)?` can write "1"
and never "1.5". It has no budget either, and builds the whole automaton ahead, which takes seconds
for a string of bounded length. The benchmarks and the tests of our masks ask it; nothing else does.

The package `outlines-core` is imported when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from grammars.constraint import Constraint, JsonSchema, Regex
from grammars.errors import GrammarError, UnsupportedError
from grammars.trie import Int32
from grammars.vocabulary import Vocabulary


class OutlinesCompiler:
    """Compiles `Regex` and `JsonSchema` (which it turns into a pattern by its own rules)."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import outlines_core

        self.vocabulary = vocabulary
        self._stop = vocabulary.eos_token_ids[0]  # it knows one
        ids_of: dict[bytes, list[int]] = {}
        for token_id in range(vocabulary.size):
            data = vocabulary.token_bytes(token_id)
            if data is not None:
                ids_of.setdefault(data, []).append(token_id)
        self._tokens = outlines_core.Vocabulary(self._stop, ids_of)

    def pattern(self, constraint: Constraint) -> str:
        """The pattern that it makes of a constraint. Raises UnsupportedError when it makes none."""
        from outlines_core import json_schema

        if isinstance(constraint, Regex):
            return constraint.pattern
        if not isinstance(constraint, JsonSchema):
            raise UnsupportedError(f"outlines-core has no {type(constraint).__name__}")
        try:
            found: str = json_schema.build_regex_from_schema(constraint.text, "")
        except Exception as error:
            raise UnsupportedError(f"outlines-core refuses the schema: {error}") from error
        return found

    def compile(self, constraint: Constraint) -> Any:
        """Its index of a constraint. Raises GrammarError when it makes none."""
        import outlines_core

        pattern = self.pattern(constraint)
        try:
            return outlines_core.Index(pattern, self._tokens)
        except Exception as error:
            raise GrammarError(f"outlines-core refuses the pattern: {error!s:.200}") from error


class OutlinesMatcher:
    """One sequence's cursor in an index of `OutlinesCompiler.compile`."""

    def __init__(self, index: Any, vocabulary: Vocabulary) -> None:
        import outlines_core

        self._vocabulary = vocabulary
        self._guide = outlines_core.Guide(index)
        self._is_stopped = False

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is in the language, as it sees it."""
        return bool(self._guide.is_finished())

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self._is_stopped

    def fill_bitmask(self, row: Int32) -> None:
        """Sets bit i of `row` for exactly the tokens i that it allows next. # int32 [num_words]"""
        self._guide.write_mask_into(row.ctypes.data, row.size, row.itemsize)

    def accept_token(self, token_id: int) -> None:
        """Moves on by a token that the last mask allowed."""
        if token_id in self._vocabulary.eos_token_ids:
            self._is_stopped = True
        else:
            self._guide.advance(token_id, return_tokens=False)
