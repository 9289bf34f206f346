"""One gen or select as a question to a provider, and its answer as the machine wants it.

Owns what all providers share: stop strings that hold whoever enforces them, constraints checked
here with bounded retries, and the meta info that says how. The formats are the wires' business.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from time import monotonic
from typing import Any, Protocol

from grammars import Constraint
from sgdsl.backends.conversation import Prompt
from sgdsl.backends.validation import satisfying, violation
from sgdsl.choices import ChoiceScores
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.graph import DEFAULT_SAMPLING, Sampling, Select, shorten
from sgdsl.machine import Completion

OnText = Callable[[str], None]

_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Ask:
    """`refused`: earlier answers that did not satisfy the constraint, and why. `on_text` is told
    all text so far, if somebody watches.
    """

    prompt: Prompt
    sampling: Sampling
    seed: int
    constraint: Constraint | None = None
    on_text: OnText | None = None
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """`truncated`: cut by the token limit. `enforced`: the provider was told the constraint.
    `is_open`: text may go on behind what was asked for (a completion, no message). Counts that the
    provider does not tell are None. `logprobs`: (log-probability, None, text) a token.
    """

    text: str
    truncated: bool = False
    enforced: str | None = None
    is_open: bool = False
    id: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    logprobs: list[tuple[float, None, str]] | None = None
    top_logprobs: list[list[tuple[float, None, str]]] | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """`meta` says how the scores came about."""

    scores: ChoiceScores
    meta: dict[str, Any] = field(default_factory=dict)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Wire(Protocol):
    """A provider's format. Both raise `BackendError` for what fails, `UsageError` for what the
    provider does not have.
    """

    async def answer(self, ask: Ask) -> Answer: ...

    async def score(self, prompt: Prompt, node: Select, *, seed: int) -> Scored: ...

    async def close(self) -> None: ...


async def complete(wire: Wire, ask: Ask, *, retries: int) -> tuple[Completion, list[Answer]]:
    """The completion of a gen, and every answer that it took."""
    began_s = monotonic()
    if ask.sampling.max_tokens == 0:
        if ask.sampling.return_logprob or num_top_logprobs(ask.sampling):
            raise UsageError(
                "max_tokens=0 with log-probabilities asks for those of the prompt, which this "
                "provider does not give; use a Runtime or a RuntimeEndpoint"
            )
        meta = {"finish_reason": {"type": "length", "length": 0}, "completion_tokens": 0}
        return Completion("", meta), []
    answers: list[Answer] = []
    if ask.constraint is not None:  # only where it is satisfied does a stop end it: found out here
        stops = ask.sampling.stop or ()
        ask = replace(ask, sampling=replace(ask.sampling, stop=()))
    while True:
        answer = await wire.answer(ask)
        if _HALF.search(answer.text):
            raise ProviderError("the provider wrote half of a character (a lone surrogate)")
        answers.append(answer)
        if ask.constraint is None:
            text, stop = cut_at_stop(answer.text, ask.sampling.stop or ())
            truncated = answer.truncated and stop is None
            return Completion(text, _meta(answer, began_s, stop), truncated), answers
        part, stop = await asyncio.to_thread(_constrained, ask.constraint, answer, stops)
        if part is not None:
            meta = _meta(answer, began_s, stop)
            meta["constraint"] = answer.enforced or "validated"
            meta["attempts"] = len(answers)
            return Completion(part, meta), answers
        reason = await asyncio.to_thread(violation, ask.constraint, answer.text) or "it does not"
        if answer.truncated:
            reason += f" (it was cut by max_tokens={ask.sampling.max_tokens})"
        if len(answers) > retries:
            raise BackendError(
                f"none of {len(answers)} answers satisfies the constraint; the last: {reason}"
            )
        refused = (*ask.refused, (answer.text, reason))
        ask = replace(ask, refused=refused, seed=ask.seed + 1)


def _constrained(
    constraint: Constraint, answer: Answer, stops: Sequence[str]
) -> tuple[str | None, str | None]:
    """What of the answer satisfies the constraint, and the stop string that ends it, if one does.
    An output ends before a stop string where it is complete by then.
    """
    text = answer.text
    places = [(at, stop) for at in range(len(text)) for stop in stops if text.startswith(stop, at)]
    for at, stop in places:
        if (part := satisfying(constraint, text[:at], prefix=False)) is not None:
            return part, stop
    return satisfying(constraint, text, prefix=answer.is_open), None


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """`text` before the first stop string, and that."""
    found = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if not found:
        return text, None
    at, stop = min(found, key=lambda each: (each[0], -len(each[1])))
    return text[:at], stop


def num_top_logprobs(sampling: Sampling) -> int:
    return getattr(sampling, "top_logprobs_num", None) or 0


def refuse_unknown(sampling: Sampling, known: frozenset[str], extensions: frozenset[str]) -> None:
    """Nothing that was asked for is dropped in silence."""
    for each in fields(sampling):
        name, value = each.name, getattr(sampling, each.name)
        silent = value is None or value == getattr(DEFAULT_SAMPLING, name)
        if silent or name in known or name in extensions:
            continue
        raise UsageError(
            f"{name}={value!r} is not known to this provider; leave it out, or, if the provider "
            f"has it, name it: extensions={{{name!r}: {name!r}}}"
        )


def _meta(answer: Answer, began_s: float, stop: str | None) -> dict[str, Any]:
    reason: dict[str, Any] = {"type": "stop", "matched": stop}
    if answer.truncated and stop is None:
        reason = {"type": "length", "length": answer.completion_tokens}
    meta: dict[str, Any] = {
        "id": answer.id,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "cached_tokens": answer.cached_tokens,
        "finish_reason": reason,
        "e2e_latency": monotonic() - began_s,
    }
    if answer.logprobs is not None:
        meta["output_token_logprobs"] = answer.logprobs
    if answer.top_logprobs is not None:
        meta["output_top_logprobs"] = answer.top_logprobs
    return meta


def describe_refusal(reason: str) -> str:
    """What the model is told of an answer that was not allowed."""
    return (
        f"This answer is not allowed: {shorten(reason, 600)}. Answer again, and with nothing but "
        "the corrected answer."
    )


def unknown_end(label: str, reason: object) -> ProviderError:
    """Of an answer that has ended nobody knows why."""
    return ProviderError(
        f"{label} ended the answer for the reason {shorten(repr(reason), 80)}, which says neither "
        "that it is whole nor that it was cut"
    )
