"""Engines of constrained decoding behind one interface: ours, and those it is compared with.

Runs in the environment of the engine that is asked for, so nothing else is imported here. Each is
asked for compact JSON, on one thread, with its defaults otherwise. `engine_of` gives one by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grammars import Constraint, Vocabulary

PEERS = {"outlines-core": "outlines_core", "xgrammar": "xgrammar", "llguidance": "llguidance"}
"""The engines that ours is compared with, by the module that each is imported as."""


class Cursor(Protocol):
    """One sequence; it moves by tokens that its mask allowed."""

    def fill(self) -> None:
        """Writes the mask of what is allowed next into the row of its engine."""
        ...

    def accept(self, token_id: int) -> None: ...


class Engine(Protocol):
    """`row` is where its cursors write their masks. # int32 [num_words]"""

    row: NDArray[np.int32]

    def compile(self, kind: str, spec: Any) -> Callable[[], Cursor]:
        """What makes cursors; any exception is a refusal."""
        ...


class _RefusalError(Exception):
    """The engine takes no such constraint."""


def constraint_of(kind: str, spec: Any) -> Constraint:
    """A case of the corpus as a constraint of ours."""
    from grammars import Cfg, JsonSchema, Regex

    if kind == "schema":
        return JsonSchema(spec)
    return Regex(spec) if kind == "regex" else Cfg(spec)


# -- ours ------------------------------------------------------------------------------------------

MAX_TOKENS = 1 << 20
"""No budget matters here."""


class _Ours:
    def __init__(self, tokens: list[bytes | None], stops: list[int], _: str | None) -> None:
        from grammars import Compiler, Vocabulary

        vocabulary = Vocabulary(tokens, eos_token_ids=stops)
        self._compiler = Compiler(vocabulary)
        self.row = np.zeros(vocabulary.num_words, dtype=np.int32)

    def compile(self, kind: str, spec: Any) -> Callable[[], Cursor]:
        from grammars import Matcher

        grammar = self._compiler.compile(constraint_of(kind, spec))
        return lambda: _OurCursor(Matcher(grammar, max_tokens=MAX_TOKENS), self.row)


class _OurCursor:
    """Any matcher with our verbs."""

    def __init__(self, matcher: Any, row: NDArray[np.int32]) -> None:
        self._matcher, self._row = matcher, row
        self.accept: Callable[[int], None] = matcher.accept_token

    def fill(self) -> None:
        self._matcher.fill_bitmask(self._row)


# -- outlines-core ---------------------------------------------------------------------------------


class _Outlines:
    def __init__(self, tokens: list[bytes | None], stops: list[int], _: str | None) -> None:
        from grammars import Vocabulary
        from grammars.outlines import OutlinesCompiler

        self._vocabulary: Vocabulary = Vocabulary(tokens, eos_token_ids=stops)
        self._compiler = OutlinesCompiler(self._vocabulary)
        self.row = np.zeros(self._vocabulary.num_words, dtype=np.int32)

    def compile(self, kind: str, spec: Any) -> Callable[[], Cursor]:
        from grammars.outlines import OutlinesMatcher

        index = self._compiler.compile(constraint_of(kind, spec))
        return lambda: _OurCursor(OutlinesMatcher(index, self._vocabulary), self.row)


# -- llguidance ------------------------------------------------------------------------------------


class _Guidance:
    def __init__(self, tokens: list[bytes | None], stops: list[int], path: str | None) -> None:
        import llguidance

        self._module = llguidance
        given: Any = path or llguidance.TokenizerWrapper(_Tokens(tokens, stops[0]))
        self._tokenizer = llguidance.LLTokenizer(given, n_vocab=len(tokens), eos_token=stops)
        self.row = np.zeros(-(-len(tokens) // 32), dtype=np.int32)

    def compile(self, kind: str, spec: Any) -> Callable[[], Cursor]:
        matcher = self._module.LLMatcher
        if kind == "schema":
            options = {"whitespace_flexible": False}
            grammar = matcher.grammar_from_json_schema(json.dumps(spec), defaults=options)
        elif kind == "regex":
            grammar = matcher.grammar_from_regex(spec)
        else:
            grammar = matcher.grammar_from_lark(spec)
        first = matcher(self._tokenizer, grammar, log_level=0)
        if first.is_error():
            raise _RefusalError(first.get_error())
        return lambda: _GuidanceCursor(first.deep_copy(), self.row)


class _GuidanceCursor:
    def __init__(self, matcher: Any, row: NDArray[np.int32]) -> None:
        self._matcher = matcher
        self._place = (row.ctypes.data, row.nbytes)

    def fill(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(*self._place)

    def accept(self, token_id: int) -> None:
        self._matcher.consume_token(token_id)


class _Tokens:
    """A vocabulary as llguidance reads one that has no tokenizer file."""

    def __init__(self, tokens: list[bytes | None], stop: int) -> None:
        self.tokens = [token or b"\xff<special>" for token in tokens]
        self.special_token_ids = [i for i, token in enumerate(tokens) if not token]
        self.eos_token_id, self.bos_token_id = stop, None
        self._id_of = {token: i for i, token in enumerate(tokens) if token}

    def __call__(self, data: bytes) -> list[int]:
        return [self._id_of[data[i : i + 1]] for i in range(len(data))]


# -- xgrammar --------------------------------------------------------------------------------------


class _XGrammar:
    def __init__(self, tokens: list[bytes | None], stops: list[int], _: str | None) -> None:
        import xgrammar

        self._module = xgrammar
        self._stops = stops
        info = xgrammar.TokenizerInfo(
            [token or b"" for token in tokens],
            xgrammar.VocabType.RAW,
            vocab_size=len(tokens),
            stop_token_ids=stops,
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self._bitmask = xgrammar.allocate_token_bitmask(1, len(tokens))
        self.row = self._bitmask.numpy()[0]

    def compile(self, kind: str, spec: Any) -> Callable[[], Cursor]:
        if kind == "schema":
            compiled = self._compiler.compile_json_schema(
                json.dumps(spec), any_whitespace=False, separators=(",", ":"), strict_mode=False
            )
        elif kind == "regex":
            compiled = self._compiler.compile_regex(spec)
        else:
            compiled = self._compiler.compile_lark(spec)
        matcher = self._module.GrammarMatcher
        return lambda: _XGrammarCursor(matcher(compiled), self._bitmask)


class _XGrammarCursor:
    def __init__(self, matcher: Any, bitmask: Any) -> None:
        self._matcher, self._bitmask = matcher, bitmask

    def fill(self) -> None:
        if not self._matcher.fill_next_token_bitmask(self._bitmask):
            self._bitmask.fill_(-1)  # it says so instead of writing that all are allowed

    def accept(self, token_id: int) -> None:
        self._matcher.accept_token(token_id)


_ENGINES: dict[str, Callable[[list[bytes | None], list[int], str | None], Engine]] = {
    "ours": _Ours,
    "outlines-core": _Outlines,
    "llguidance": _Guidance,
    "xgrammar": _XGrammar,
}


def engine_of(name: str, tokens: list[bytes | None], stops: list[int], path: str | None) -> Engine:
    """The engine of that name. `tokens` and `stops`: the vocabulary, as `grammars.Vocabulary` takes
    it; `path`: the tokenizer file that it comes from, if there is one.
    """
    return _ENGINES[name](tokens, stops, path)
