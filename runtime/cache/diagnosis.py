"""Why a workload that looks shared misses the prefix cache: the likely cause, in words.

Owns the causes and how each is recognised. Pure: from what was seen of some prompts to a sentence,
or to none where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence as List
from dataclasses import dataclass, field

LOOKS_SHARED = 0.5
"""Of the prompts' tokens: where less could have been shared, nothing is missing."""

MISSES = 0.5
"""Of what could have been shared: who finds more has no problem."""

RUN = 8
"""Tokens in a row that stand in both of two prompts: fewer may be alike by chance."""

SHOWN = 8
"""Tokens of a prompt that are shown."""


@dataclass(slots=True)
class Window:
    """What was seen of `num_prompts` prompts, in tokens. `reusable`: what a cache without bounds
    had found of the same salt; `elsewhere`: under any. `recent`: beginnings of the last ones, with
    their salts.
    """

    num_prompts: int = 0
    prompt_tokens: int = 0
    cached: int = 0
    reusable: int = 0
    elsewhere: int = 0
    evicted_pages: int = 0
    recent: List[tuple[str, List[int]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Setup:
    """Of the cache. `decode`: from tokens to text."""

    page_size: int
    num_pages: int
    reuse: bool
    decode: Callable[[List[int]], str]


@dataclass(frozen=True, slots=True)
class Cause:
    name: str
    message: str


def likely_cause(window: Window, setup: Setup) -> Cause | None:
    """None where nothing is wrong, or nothing known is."""
    could = window.reusable
    if could >= LOOKS_SHARED * window.prompt_tokens:
        if window.cached >= MISSES * could:
            return None
        return _of_what_was_there(window, setup)
    if window.elsewhere >= LOOKS_SHARED * window.prompt_tokens:
        salts = len({salt for salt, _ in window.recent})
        return Cause(
            "salts",
            f"{_share(window.elsewhere, window)} of the prompts' tokens came before, but under "
            f"another cache_salt ({salts} among the last {len(window.recent)} prompts), where they "
            "are not looked for; give runs that may share the same one",
        )
    if window.cached >= MISSES * window.prompt_tokens or not setup.reuse:
        return None
    return _of_the_prompts(window, setup)


def _of_what_was_there(window: Window, setup: Setup) -> Cause | None:
    """The pages had been computed before."""
    said = f"{_share(window.reusable, window)} of the prompts' tokens came before"
    if not setup.reuse:
        return Cause(
            "off",
            f"{said}, and all of them are computed again, since prefix_cache=False; leave it on",
        )
    if not window.evicted_pages:
        return None  # it was flushed
    return Cause(
        "pool",
        f"{said}, but only {_share(window.cached, window)} were still cached: the pool of "
        f"{setup.num_pages:,} pages of {setup.page_size} tokens is too small, and pages were "
        f"evicted {window.evicted_pages:,} times; raise kv_bytes, lower max_running, or keep what "
        "is shared with f.cache(backend)",
    )


def _of_the_prompts(window: Window, setup: Setup) -> Cause | None:
    """Most of pairs of them have something in common that no prefix cache can share."""
    pairs = [
        (first, second)
        for (salt, first), (other, second) in zip(window.recent, window.recent[1:], strict=False)
        if salt == other
    ]
    late = [pair for pair in pairs if _shares_late(*pair)]
    if late and 2 * len(late) > len(pairs):
        first, second = min(late, key=lambda pair: _common_length(*pair))
        at = _common_length(first, second)
        texts = " and ".join(repr(setup.decode(each[at : at + SHOWN])) for each in (first, second))
        before = repr(setup.decode(first[max(0, at - SHOWN) : at])) if at else "the beginning"
        return Cause(
            "difference",
            f"prompts that are mostly the same differ at token {at}, behind {before}: {texts}; "
            "what follows cannot be shared, so put what differs (a date, an id) behind what does "
            "not",
        )
    return None


def _shares_late(first: List[int], second: List[int]) -> bool:
    """Most of the first prompt stands in the second one too, behind a difference."""
    at = _common_length(first, second)
    runs = {tuple(second[start : start + RUN]) for start in range(at, len(second) - RUN + 1)}
    num_shared, covered = 0, at
    for start in range(at, len(first) - RUN + 1):
        if tuple(first[start : start + RUN]) in runs:
            num_shared += start + RUN - max(covered, start)
            covered = start + RUN
    return num_shared >= LOOKS_SHARED * len(first)


def _common_length(first: List[int], second: List[int]) -> int:
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def _share(num_tokens: int, window: Window) -> str:
    return f"{num_tokens / window.prompt_tokens:.0%}"
