"""Scores of choices from echoed prompts: which of the echoed tokens are the choice's.

Owns the border between prompt and choice in the provider's own tokens. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sgdsl.backends.shapes import dig, log_probability, shaped
from sgdsl.errors import ProviderError

Row = list[tuple[int, float | None]]
"""(offset in the text, log-probability) of each echoed token."""


def conditional_rows(
    label: str, data: dict[str, Any], prompt: str, choices: Sequence[str]
) -> list[list[float]]:
    """The log-probabilities from the first token on in which any choice departs from the prompt:
    the same border for all of them.
    """
    with shaped(label, "log-probabilities", data.get("choices")):
        rows = _rows(label, data, [prompt + choice for choice in choices])
        border = min(
            _border(row, len(prompt), len(prompt + choice))
            for row, choice in zip(rows, choices, strict=True)
        )
        return [_from(label, row, border) for row in rows]


def unconditional_rows(label: str, data: dict[str, Any]) -> list[list[float]]:
    """Those of all tokens but the first, which has nothing before it."""
    choices = dig(label, data, list, "choices")
    with shaped(label, "log-probabilities", choices):
        return [_from(label, row, 1) for row in _rows(label, data, [None] * len(choices))]


def _rows(label: str, data: dict[str, Any], texts: Sequence[str | None]) -> list[Row]:
    answers = dig(label, data, list, "choices")
    if len(answers) != len(texts):
        raise ProviderError(
            f"{label} was asked to echo {len(texts)} texts, and gave {len(answers)}"
        )
    indices = [answer.get("index", at) for at, answer in enumerate(answers)]
    if sorted(indices) != list(range(len(answers))):
        raise ProviderError(f"{label} gave its answers the indices {indices}")
    ordered = sorted(zip(indices, answers, strict=True), key=lambda pair: pair[0])
    return [_row(label, answer, text) for (_, answer), text in zip(ordered, texts, strict=True)]


def _row(label: str, answer: dict[str, Any], text: str | None) -> Row:
    logprobs = answer.get("logprobs")
    if not isinstance(logprobs, dict):
        raise ProviderError(
            f"{label} echoes no log-probabilities, by which a select is scored; take an endpoint "
            "that does, or is_chat_model=True, where the model is asked for its choice"
        )
    tokens = dig(label, logprobs, list, "tokens")
    values = dig(label, logprobs, list, "token_logprobs")
    if len(tokens) != len(values):
        raise ProviderError(
            f"{label} gave {len(tokens)} tokens and {len(values)} log-probabilities"
        )
    offsets = logprobs.get("text_offset")
    if not isinstance(offsets, list) or len(offsets) != len(tokens):
        offsets, at = [], 0
        for token in tokens:
            offsets.append(at)
            at += len(token)
        if text is not None and at < len(text):
            raise ProviderError(f"{label} says neither where its tokens stand nor all their texts")
    return list(zip(offsets, values, strict=True))


def _border(row: Row, prompt_length: int, length: int) -> int:
    """Where the first token begins that reaches beyond the prompt."""
    ends = [offset for offset, _ in row[1:]] + [length]
    for (offset, _), end in zip(row, ends, strict=True):
        if end > prompt_length:
            return offset
    return length


def _from(label: str, row: Row, border: int) -> list[float]:
    found = [
        log_probability(value) for offset, value in row if offset >= border and value is not None
    ]
    if not found:
        raise ProviderError(f"{label} gave a choice no log-probability")
    return found
