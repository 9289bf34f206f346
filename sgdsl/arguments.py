"""What may be given as a sampling argument, and how a wrong one is refused.

Owns the check of every argument that `gen`, `run` and `run_batch` share. Knows nothing of what a
backend does with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, TypedDict

from grammars import GrammarError
from grammars.json_values import is_text
from grammars.search import searched
from sgdsl.errors import UsageError
from sgdsl.expressions import Hole
from sgdsl.graph import Sampling, shorten

INHERIT = Sampling()

MAX_COMPLETIONS = 1024
"""Of one gen: each is a branch with its own copy of the prompt's tokens."""

MAX_TOP = 256
"""Most log-probabilities a position: a prompt of 8,000 tokens with so many takes some 250 MB."""

MAX_SALT_CHARS = 256
"""Of a salt: a digest has room, a text does not."""

MAX_STOP_PATTERNS = 16
"""Each of them is looked for by itself, in every token that is written."""


class RunArguments(TypedDict, total=False):
    """What `run` and `run_batch` take besides the program's arguments: what its gens inherit, and
    what the run itself goes by.
    """

    max_new_tokens: int | None
    n: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    stop_regex: str | Sequence[str] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    ignore_eos: bool | None
    return_logprob: bool | None
    logprob_start_len: int | None
    top_logprobs_num: int | None
    return_text_in_logprobs: bool | None
    seed: int | None
    priority: int | None
    cache_salt: str | None


RUN_ARGUMENTS = frozenset(RunArguments.__annotations__)


def refuse(where: str, name: str, value: object, allowed: str) -> NoReturn:
    """Raise the one-sentence error for an argument's value."""
    if isinstance(value, Hole):
        value.needed(f"the value of {name}")
    raise UsageError(f"{where}: {name}={value!r} is not allowed; {name} is {allowed}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Behind a refusal of `name`: the known name that looks most like it, if any does."""
    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def refuse_surrogates(where: str, name: str, texts: Iterable[str]) -> None:
    """Refuse a str that UTF-8 cannot write: no tokenizer takes it."""
    for text in texts:
        if not is_text(text):
            raise UsageError(
                f"{where}: {name}={text!r} is not allowed; a lone surrogate is no text: encode or "
                "replace it"
            )


def sampling_from(where: str, given: Mapping[str, Any]) -> Sampling:
    """The sampling that `given` (public argument names, None values absent) asks for."""
    if not given:
        return INHERIT
    known: dict[str, Any] = {}
    for name, value in given.items():
        allowed, check = _CHECKS[name]
        checked = check(value)
        if checked is None:
            refuse(where, name, value, allowed)
        if name == "stop":
            refuse_surrogates(where, name, checked)
        elif name == "stop_regex":
            _check_patterns(where, checked)
        known[_FIELDS.get(name, name)] = checked
    sampling = Sampling(**known)
    low, high = sampling.min_tokens, sampling.max_tokens
    if low is not None and high is not None and low > high:
        raise UsageError(
            f"{where}: min_tokens={low} is above max_tokens={high}; lower one or raise the other"
        )
    return sampling


def temperature_from(where: str, value: object) -> float:
    """A temperature on its own, which cannot be inherited."""
    allowed, check = _CHECKS["temperature"]
    checked: float | None = check(value)
    if checked is None:
        refuse(where, "temperature", value, allowed)
    return checked


def priority_from(where: str, value: object) -> int:
    """A run's priority."""
    checked = _integer(value)
    if checked is None:
        refuse(where, "priority", value, "a whole number; higher ones go first, and 0 is usual")
    return checked


def cache_salt_from(where: str, value: object) -> str:
    """Whose cached prefixes a run shares."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_SALT_CHARS or not is_text(value):
        allowed = f"a str of 1 to {MAX_SALT_CHARS} characters, or None for what all others share"
        refuse(where, "cache_salt", value, allowed)
    return value


def timeout_from(where: str, name: str, value: object) -> float | None:
    """A limit in seconds, or None."""
    if value is None:
        return None
    checked = _number(0.0, math.inf, above=True)(value)
    if checked is None:
        refuse(where, name, value, "a number of seconds above 0, or None")
    return checked


def _whole(low: int) -> Callable[[Any], int | None]:
    def check(value: Any) -> int | None:
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= low
        return int(value) if whole else None

    return check


def _number(low: float, high: float, *, above: bool = False) -> Callable[[Any], float | None]:
    def check(value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        inside = low < value <= high if above else low <= value <= high
        return float(value) if inside and math.isfinite(value) else None

    return check


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _top_k(value: Any) -> int | None:
    return -1 if value == -1 else _whole(1)(value)


def _stop(value: Any) -> tuple[str, ...] | None:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        return None
    return tuple(texts) if all(isinstance(text, str) and text for text in texts) else None


def _token_ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(value) if all(_whole(0)(item) is not None for item in value) else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _between(low: int, high: int) -> Callable[[Any], int | None]:
    whole = _whole(low)

    def check(value: Any) -> int | None:
        checked = whole(value)
        return None if checked is None or checked > high else checked

    return check


def _check_patterns(where: str, patterns: tuple[str, ...]) -> None:
    """Refuse, with the column, what cannot be looked for while it is being written."""
    if len(patterns) > MAX_STOP_PATTERNS:
        raise UsageError(
            f"{where}: stop_regex has {len(patterns)} patterns, but it may have "
            f"{MAX_STOP_PATTERNS}; join some with |"
        )
    for pattern in patterns:
        try:
            searched(pattern)
        except GrammarError as error:
            shown = shorten(repr(pattern), 200)
            raise UsageError(f"{where}: stop_regex={shown} is refused: {error}") from error


_TOKENS = "a whole number of tokens, at least 0 (0 draws nothing)"
_PENALTY = ("a number from -2 to 2", _number(-2.0, 2.0))

_CHECKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "max_tokens": (_TOKENS, _whole(0)),
    "max_new_tokens": (_TOKENS, _whole(0)),
    "n": (f"a whole number from 1 to {MAX_COMPLETIONS}", _between(1, MAX_COMPLETIONS)),
    "min_tokens": ("a whole number of tokens, at least 0", _whole(0)),
    "stop": ("a non-empty str, or a list of such", _stop),
    "stop_regex": ("a pattern (a non-empty str), or a list of such", _stop),
    "stop_token_ids": ("a list of token ids", _token_ids),
    "temperature": ("a number, at least 0 (0 is greedy)", _number(0.0, math.inf)),
    "top_p": ("a number above 0, at most 1 (off)", _number(0.0, 1.0, above=True)),
    "top_k": ("a whole number, at least 1, or -1 (off)", _top_k),
    "min_p": ("a number from 0 (off) to 1", _number(0.0, 1.0)),
    "frequency_penalty": _PENALTY,
    "presence_penalty": _PENALTY,
    "ignore_eos": ("True or False", _flag),
    "return_logprob": ("True or False", _flag),
    "logprob_start_len": ("a token's index in the prompt, or -1 (none)", _whole(-1)),
    "top_logprobs_num": (f"a whole number from 0 to {MAX_TOP}", _between(0, MAX_TOP)),
    "return_text_in_logprobs": ("True or False", _flag),
    "healing": ("True or False", _flag),
    "seed": ("a whole number", _integer),
}
_FIELDS = {"max_new_tokens": "max_tokens"}
