"""From the log-probabilities of an answer's tokens to those of the choices it was taken from.

Owns the approximation for providers that score nothing but what they write. Pure arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """A token of an answer; `top`: the likeliest there, with their log-probabilities."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """One log-probability a choice. Of the choices `bounded` it is only an upper bound: none of
    their tokens was among those that the provider tells where they part from the answer.
    """

    logprobs: list[float]
    bounded: list[int]


def estimate(
    tokens: Sequence[WrittenToken], choices: Sequence[str], taken: int, begin: int
) -> Estimate:
    """`tokens` spell an answer that has `choices[taken]` at character `begin`.

    A choice goes along with the answer as long as the tokens spell it. Where it parts, it gets the
    probability of all tokens there that would have gone on with it, shared with the choices for
    which that is true as well; how it would have gone on behind them is left out (counted as 1).
    """
    logprobs = [0.0] * len(choices)
    bounded: list[int] = []
    along = list(range(len(choices)))
    offset = 0
    for token in tokens:
        end = offset + len(token.text)
        if end > begin and along:
            lead = token.text[: max(0, begin - offset)]
            spelled = max(0, offset - begin)
            rests = {index: lead + choices[index][spelled:] for index in along}
            parting = [i for i in along if i != taken and not _goes_with(token.text, rests[i])]
            for index in parting:
                share = _share(token, index, rests)
                if share is None:
                    bounded.append(index)
                    share = min((value for _, value in token.top), default=0.0)
                logprobs[index] += share
                along.remove(index)
            for index in along:
                logprobs[index] += token.logprob
            if end >= begin + len(choices[taken]):
                break
        offset = end
    bounded += [index for index in along if index != taken]  # they go on where the answer ends
    return Estimate(logprobs, sorted(bounded))


def _goes_with(token: str, rest: str) -> bool:
    """Whether a token can be the beginning of `rest`, or its end and what closes it."""
    if rest.startswith(token):
        return bool(rest)
    behind = token[len(rest) :]
    return bool(rest) and token.startswith(rest) and not behind[:1].isalnum()


def _share(token: WrittenToken, index: int, rests: dict[int, str]) -> float | None:
    shares = []
    for text, logprob in token.top:
        if text and _goes_with(text, rests[index]):
            num_sharing = sum(_goes_with(text, rest) for rest in rests.values())
            shares.append(logprob - math.log(num_sharing))
    if not shares:
        return None
    highest = max(shares)
    if highest == -math.inf:
        return highest
    return highest + math.log(sum(math.exp(share - highest) for share in shares))
