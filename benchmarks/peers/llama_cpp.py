"""llama.cpp in q8_0: batched decoding, what prompts share evaluated once and copied to all.

A JSON schema becomes a GBNF grammar; one sampler with its grammar for each sequence. A select is a
greedy choice among the options, which is less than the likelihood of each.
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.gguf_writing import quantised
from benchmarks.peers.protocol import Answer, Asked, Job, serve

BATCH_TOKENS = 512
"""Tokens that are given to llama.cpp at once, at most; its own default."""

TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""`llama_token_data`."""


class LlamaCpp:
    def __init__(self, job: Job) -> None:
        import llama_cpp

        self._lib: Any = llama_cpp
        self.version = f"llama-cpp-python {llama_cpp.__version__}"
        llama_cpp.llama_backend_init()
        self._silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._silence, ctypes.c_void_p(0))
        path = quantised(Path(job.model), Path(job.folder))
        self._model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        assert self._model, "llama.cpp loads what was written for it"
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._context = self._made_context(job)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(BATCH_TOKENS, 0, 1)

    def _made_context(self, job: Job) -> Any:
        """Room for all sequences of the largest round, and for what they share."""
        rows = max(len(requests) for requests in job.rounds)
        longest = max(len(each.prompt) + each.max_tokens for r in job.rounds for each in r)
        params = self._lib.llama_context_default_params()
        params.n_ctx = (rows + 1) * (longest + 16)
        params.n_seq_max = rows + 1
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        params.n_threads = params.n_threads_batch = job.threads
        params.kv_unified = True
        return self._lib.llama_init_from_model(self._model, params)

    def answer(self, requests: list[Asked]) -> list[Answer]:
        """All at once; every step has one token of each sequence that has not ended."""
        self._lib.llama_memory_clear(self._memory, True)
        shared = _shared([each.prompt for each in requests])
        self._decode([Place(token, at, 0) for at, token in enumerate(shared)], [])
        rows = [Row(self._lib, self._vocab, each) for each in requests]
        due: list[Place] = []
        for number, row in enumerate(rows, start=1):
            self._lib.llama_memory_seq_cp(self._memory, 0, number, 0, len(shared))
            last = len(row.asked.prompt) - 1
            due += [
                Place(token, at, number, draws=at == last)
                for at, token in enumerate(row.asked.prompt)
                if at >= len(shared)
            ]
        while due:
            due = self._decode(due, rows)
        return [Answer(self._text(row.written), len(row.written)) for row in rows]

    def _decode(self, places: list[Place], rows: list[Row]) -> list[Place]:
        """Computes the tokens and draws behind those that ask for it; returns what comes next."""
        lib, batch, following = self._lib, self._batch, list[Place]()
        for start in range(0, len(places), BATCH_TOKENS):
            here = places[start : start + BATCH_TOKENS]
            batch.n_tokens = len(here)
            for index, place in enumerate(here):
                batch.token[index], batch.pos[index] = place.token, place.at
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, place.number
                batch.logits[index] = place.draws
            failed = lib.llama_decode(self._context, batch)
            assert failed == 0, "the context has room for all sequences"
            for index, place in enumerate(here):
                if place.draws:
                    row = rows[place.number - 1]
                    if row.draw(lib.llama_get_logits_ith(self._context, index)):
                        following.append(Place(row.written[-1], place.at + 1, place.number, True))
        return following

    def _text(self, tokens: list[int]) -> str:
        room = ctypes.create_string_buffer(64)
        parts = []
        for token in tokens:
            size = self._lib.llama_token_to_piece(self._vocab, token, room, len(room), 0, False)
            parts.append(room.raw[: max(size, 0)])
        return b"".join(parts).decode("utf-8", "replace")


@dataclass(frozen=True)
class Place:
    """A token of a sequence, and whether the next one is drawn behind it."""

    token: int
    at: int
    number: int
    draws: bool = False


class Row:
    """One sequence that is being written, greedily and under its grammar."""

    def __init__(self, lib: Any, vocab: Any, asked: Asked) -> None:
        self.asked = asked
        self.written: list[int] = []
        self._lib, self._vocab = lib, vocab
        self._size: int = lib.llama_vocab_n_tokens(vocab)
        self._most = asked.max_tokens or max(len(each) for each in asked.options or ()) + 1
        tokens = range(self._size) if asked.is_exact else ()
        self._ends = [token for token in tokens if lib.llama_vocab_is_eog(vocab, token)]
        self._grammar = None
        if asked.kind != "free":
            text = grammar_of(asked).encode()
            self._grammar = lib.llama_sampler_init_grammar(vocab, text, b"root")
            assert self._grammar, "llama.cpp reads what it was converted to"

    def draw(self, logits: Any) -> bool:
        """Takes the next token; False when that is the end."""
        found = np.ctypeslib.as_array(logits, shape=(self._size,)).copy()
        if self.asked.is_exact:
            found[self._ends] = -np.inf
        token = int(found.argmax())
        if self._grammar is not None:
            if not self._allows(token):  # only then are all tokens looked at, as llama.cpp does
                token = self._narrowed(found)
            self._lib.llama_sampler_accept(self._grammar, token)
        if self._lib.llama_vocab_is_eog(self._vocab, token):
            return False
        self.written.append(token)
        return len(self.written) < self._most

    def _allows(self, token: int) -> bool:
        return bool(self._applied(np.array([token]), np.zeros(1))[0] != -np.inf)

    def _narrowed(self, logits: Any) -> int:
        return int(self._applied(np.arange(self._size), logits).argmax())

    def _applied(self, tokens: Any, logits: Any) -> Any:
        """The logits, those of tokens that the grammar forbids at minus infinity."""
        candidates = np.zeros(len(tokens), dtype=TOKEN_DATA)
        candidates["id"], candidates["logit"] = tokens, logits
        pointer = candidates.ctypes.data_as(ctypes.POINTER(self._lib.llama_token_data))
        array = self._lib.llama_token_data_array(pointer, len(tokens), -1, False)
        self._lib.llama_sampler_apply(self._grammar, ctypes.byref(array))
        return candidates["logit"]


def grammar_of(asked: Asked) -> str:
    """In GBNF. A pattern is converted as that of a JSON string, which then loses its quotes."""
    if asked.kind == "choices":
        return "root ::= " + " | ".join(json.dumps(text) for text in asked.spec)
    if asked.kind == "schema":
        return _converted(asked.spec)
    head, _, rest = _converted({"type": "string", "pattern": f"^{asked.spec}$"}).partition("\n")
    body = head.removeprefix('root ::= "\\"" ').removesuffix(' "\\"" space')
    return f"root ::= {body}\n{rest}"


def _converted(schema: dict[str, Any]) -> str:
    """Compact JSON, as the others write it. A dot that is escaped in a pattern is escaped in what
    comes out, where that means nothing.
    """
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    text = str(json_schema_to_gbnf(json.dumps(schema)))
    return text.replace("\\.", ".").replace('space ::= " "?', 'space ::= ""')


def _shared(prompts: list[list[int]]) -> list[int]:
    """What all of them begin with; each has a token of its own behind it."""
    first, last = min(prompts), max(prompts)
    size = 0
    while size < min(map(len, prompts)) - 1 and first[size] == last[size]:
        size += 1
    return first[:size]


if __name__ == "__main__":
    serve(LlamaCpp)
