"""How `select` chooses: pure arithmetic on token log-probabilities.

Owns the three choice methods and their probabilities. Knows nothing of tokens or models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sgdsl.errors import BackendError

Token = tuple[int, str]
"""A token's id and its text."""

TokenLogprob = tuple[float, int | None, str | None]
"""SGLang's format: the log-probability, id and text; None where the backend does not tell."""


@dataclass(frozen=True, slots=True)
class ChoiceScores:
    """`conditional[i][t]` = log p(token t of choice i | prompt, tokens before); `unconditional`
    the same without the prompt, given only when the method asks for it. `tokens` and
    `unconditional_tokens`: the ids and texts of those tokens, from backends that know them.
    """

    conditional: Sequence[Sequence[float]]
    unconditional: Sequence[Sequence[float]] | None = None
    tokens: Sequence[Sequence[Token]] | None = None
    unconditional_tokens: Sequence[Sequence[Token]] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """`probabilities` are in the order of the choices and sum to 1."""

    index: int
    probabilities: tuple[float, ...]

    def meta(
        self, choices: Sequence[str], scores: ChoiceScores, *, method: ChoicesMethod | None = None
    ) -> dict[str, Any]:
        """What `get_meta_info` tells of a select under `method`, with SGLang's keys; every list is
        in the order of `choices`.
        """
        conditional = _means(scores.conditional)
        meta: dict[str, Any] = {
            "choices": list(choices),
            "probabilities": list(self.probabilities),
            "normalized_prompt_logprobs": conditional,
            "input_token_logprobs": _told(scores.conditional, scores.tokens),
            "output_token_logprobs": [[] for _ in choices],
        }
        if scores.unconditional is not None:
            told = _told(scores.unconditional, scores.unconditional_tokens)
            meta["unconditional_token_logprobs"] = told
            meta["normalized_unconditional_prompt_logprobs"] = [
                c - u for c, u in zip(conditional, _means(scores.unconditional), strict=True)
            ]
        if isinstance(method, GreedyTokenSelection):
            meta["greedy_logprob_matrix"] = _padded(scores.conditional)
        return meta


class ChoicesMethod(Protocol):
    """`needs_unconditional` asks the backend for a second pass, without the prompt."""

    @property
    def needs_unconditional(self) -> bool: ...

    def best(self, scores: ChoiceScores) -> int:
        """The index of the choice to take."""
        ...

    def log_weights(self, scores: ChoiceScores) -> Sequence[float]:
        """One number a choice, whose softmax is the choices' probabilities."""
        ...


@dataclass(frozen=True, slots=True)
class TokenLengthNormalized:
    """The highest mean log-probability of its tokens."""

    needs_unconditional: bool = False

    def best(self, scores: ChoiceScores) -> int:
        return _argmax(self.log_weights(scores))

    def log_weights(self, scores: ChoiceScores) -> Sequence[float]:
        return _means(scores.conditional)


@dataclass(frozen=True, slots=True)
class GreedyTokenSelection:
    """Token by token, only the choices with the likeliest token stay.

    Shorter choices are padded with their own mean. The probabilities are those of sampling along
    the choices' common prefixes (equal log-probabilities mark equal tokens); the greedy path need
    not be the most probable one.
    """

    needs_unconditional: bool = False

    def best(self, scores: ChoiceScores) -> int:
        matrix = _padded(scores.conditional)
        kept = list(range(len(matrix)))
        for column in range(len(matrix[0])):
            highest = max(matrix[i][column] for i in kept)
            kept = [i for i in kept if matrix[i][column] == highest]
        return kept[0]

    def log_weights(self, scores: ChoiceScores) -> Sequence[float]:
        matrix = _padded(scores.conditional)
        weights = [0.0] * len(matrix)
        groups = [list(range(len(matrix)))]
        for column in range(len(matrix[0])):
            split: list[list[int]] = []
            for group in groups:
                by_token: dict[float, list[int]] = {}
                for i in group:
                    by_token.setdefault(matrix[i][column], []).append(i)
                total = _log_sum_exp(list(by_token))
                for logprob, members in by_token.items():
                    for i in members:
                        weights[i] += logprob - total if total > -math.inf else 0.0
                    split.append(members)
            groups = split
        return weights


@dataclass(frozen=True, slots=True)
class UnconditionalLikelihoodNormalized:
    """The highest mean gain in log-probability that the prompt gives to its tokens."""

    needs_unconditional: bool = True

    def best(self, scores: ChoiceScores) -> int:
        return _argmax(self.log_weights(scores))

    def log_weights(self, scores: ChoiceScores) -> Sequence[float]:
        if scores.unconditional is None:
            raise BackendError(
                "select with unconditional_likelihood_normalized needs the choices' "
                "log-probabilities without the prompt, and the backend gave none"
            )
        if -math.inf in (unconditional := _means(scores.unconditional)):
            raise BackendError("a log-probability without a prompt must be finite, got -inf")
        conditional = _means(scores.conditional)
        return [c - u for c, u in zip(conditional, unconditional, strict=True)]


token_length_normalized = TokenLengthNormalized()
greedy_token_selection = GreedyTokenSelection()
unconditional_likelihood_normalized = UnconditionalLikelihoodNormalized()


def pick(method: ChoicesMethod, scores: ChoiceScores, *, temperature: float, draw: float) -> Choice:
    """The choice under `method`; above temperature 0, `draw` in [0, 1) samples one.

    Raises `BackendError` for scores that are not one or more numbers a choice.
    """
    _check(scores)
    weights = method.log_weights(scores)
    probabilities = _softmax(weights)
    if temperature == 0:
        return Choice(method.best(scores), probabilities)
    assert 0.0 <= draw < 1.0, "a draw is in [0, 1)"
    highest = max(weights)
    tempered = (
        _softmax([(weight - highest) / temperature for weight in weights])
        if highest > -math.inf
        else probabilities
    )
    below = 0.0
    for index, probability in enumerate(tempered):
        below += probability
        if draw < below:
            return Choice(index, probabilities)
    return Choice(_argmax(tempered), probabilities)  # the sum fell short of `draw` by rounding


def _check(scores: ChoiceScores) -> None:
    tables = (scores.conditional, scores.unconditional)
    for table in tables:
        if table is None:
            continue
        if not table or not all(table):
            raise BackendError(f"a select needs at least one log-probability a choice, got {table}")
        if any(math.isnan(logprob) or logprob == math.inf for row in table for logprob in row):
            raise BackendError(f"a select needs log-probabilities that are numbers, got {table}")
    if scores.unconditional is not None and len(scores.unconditional) != len(scores.conditional):
        raise BackendError("a select needs as many unconditional scores as conditional ones")


def _told(
    table: Sequence[Sequence[float]], tokens: Sequence[Sequence[Token]] | None
) -> list[list[TokenLogprob]]:
    if tokens is None:
        return [[(logprob, None, None) for logprob in row] for row in table]
    return [
        [(logprob, *token) for logprob, token in zip(row, known, strict=True)]
        for row, known in zip(table, tokens, strict=True)
    ]


def _means(table: Sequence[Sequence[float]]) -> list[float]:
    return [sum(row) / len(row) for row in table]


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _padded(table: Sequence[Sequence[float]]) -> list[list[float]]:
    width = max(len(row) for row in table)
    means = _means(table)
    return [[*row, *[mean] * (width - len(row))] for row, mean in zip(table, means, strict=True)]


def _log_sum_exp(values: Sequence[float]) -> float:
    highest = max(values)
    if highest == -math.inf:
        return highest
    return highest + math.log(sum(math.exp(value - highest) for value in values))


def _softmax(weights: Sequence[float]) -> tuple[float, ...]:
    highest = max(weights)
    if highest == -math.inf:  # nothing is possible: nothing is likelier than the rest
        return (1.0 / len(weights),) * len(weights)
    powers = [math.exp(weight - highest) for weight in weights]
    total = sum(powers)
    return tuple(power / total for power in powers)
