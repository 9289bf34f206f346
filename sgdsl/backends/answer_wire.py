"""How what a run has so far travels: finished answers, and what of an unfinished gen is written.

Owns the form of these on the native door's wire. Nodes and scores have theirs in `protocol`.
"""

from __future__ import annotations

from typing import Any

from sgdsl.backends.replica import Answered, Begun, Chosen, Failed
from sgdsl.errors import UsageError
from sgdsl.machine import Completion, Spelling
from sgdsl.protocol import (
    decode_error,
    decode_numbers,
    decode_scores,
    encode_error,
    encode_scores,
    field_of,
)

Json = dict[str, Any]


def encode_answer(branch_id: int, answer: Answered) -> Json:
    """The meta info stays here: nothing that comes later depends on it."""
    made: Json = {"branch": branch_id}
    if isinstance(answer, Failed):
        return {**made, "error": encode_error(answer.cause)}
    if isinstance(answer, Completion):
        made |= {"text": answer.text, "truncated": answer.truncated}
        return made | encode_spelling(answer.spelling)
    return {**made, "scores": encode_scores(answer.scores), "draw": answer.draw}


def decode_answer(data: Any) -> tuple[int, Answered]:
    branch = field_of(data, "branch", int)
    if "text" in data:
        text, meta = field_of(data, "text", str), decode_numbers(data.get("meta", {}))
        spelling = decode_spelling(data.get("spelling"))
        return branch, Completion(text, meta, bool(data.get("truncated")), spelling)
    if "error" in data:
        return branch, Failed(decode_error(data["error"]))
    return branch, Chosen(decode_scores(data.get("scores")), field_of(data, "draw", float), {})


def encode_begun(branch_id: int, begun: Begun) -> Json:
    return {"branch": branch_id, "text": begun.text, **encode_spelling(begun.spelling)}


def decode_begun(data: Any) -> tuple[int, Begun]:
    branch, text = field_of(data, "branch", int), field_of(data, "text", str)
    return branch, Begun(text, decode_spelling(data.get("spelling")))


def encode_spelling(spelling: Spelling | None) -> Json:
    """A field for it, if there is one."""
    if spelling is None:
        return {}
    made: Json = {"tokenizer": spelling.tokenizer, "taken": spelling.taken}
    made |= {"tokens": list(spelling.tokens), "residue": spelling.residue}
    return {"spelling": made}


def decode_spelling(data: Any) -> Spelling | None:
    """Whether these are tokens of its text, and of which tokenizer, is for others to say."""
    if data is None:
        return None
    tokens = field_of(data, "tokens", list)
    if not all(type(token) is int for token in tokens):
        raise UsageError(f"tokens={tokens!r:.80} is not allowed; they are whole numbers")
    return Spelling(
        field_of(data, "tokenizer", str),
        field_of(data, "taken", int),
        tuple(tokens),
        field_of(data, "residue", str),
    )
