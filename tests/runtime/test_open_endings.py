"""Where a constrained output is complete, the model ends it by what is not allowed there."""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer as Core, decoders, models, pre_tokenizers

from grammars import (
    Compiler,
    Constraint,
    GrammarError,
    JsonSchema,
    Matcher,
    Regex,
    StructuralTags,
    Tag,
    fill_bitmasks,
)
from runtime.generation import Generation
from runtime.tokenizer import Tokenizer
from sgdsl.graph import DEFAULT_SAMPLING, Sampling
from tests.grammars.strategies import patterns, schemas
from tests.runtime.small_tokenizers import engine_tokenizer, wrapped

STOPPED = {"type": "stop", "matched": None}
ROOM = 10_000


@cache
def compiler(tokenizer: Tokenizer) -> Compiler:
    return Compiler(tokenizer.vocabulary)


def begin(
    tokenizer: Tokenizer,
    constraint: Constraint | str,
    limit: int,
    *,
    prefix: bytes = b"",
    **said: Any,
) -> Generation:
    """`limit`: of the matcher; what spells the prefix again is counted in it."""
    asked = Regex(constraint) if isinstance(constraint, str) else constraint
    grammar = compiler(tokenizer).compile(asked)
    matcher = Matcher(grammar, max_tokens=limit, prefix=prefix)
    sampling = Sampling(**said).over(DEFAULT_SAMPLING)
    return Generation(sampling, tokenizer, limit=limit, matcher=matcher, prefix=prefix)


def possible(running: Generation, tokenizer: Tokenizer) -> list[int]:
    """The tokens that may be drawn, as the engine asks for them."""
    size = len(tokenizer.token_bytes)
    if not running.is_masked:
        return list(range(size))
    row = np.empty((1, tokenizer.vocabulary.num_words), dtype=np.int32)
    fill_bitmasks([running.matcher], row)
    running.narrow(row[0])
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")[:size]
    return np.flatnonzero(bits).tolist()


def write(running: Generation, tokenizer: Tokenizer, *texts: str) -> Generation:
    """Accept the tokens that stand for these texts."""
    for text in texts:
        token = tokenizer.token_bytes.index(text.encode())
        assert token in possible(running, tokenizer)
        running.accept(token)
    return running


# -- the end -------------------------------------------------------------------------------------


def test_a_token_that_leaves_the_language_ends_the_output_and_is_no_part_of_it(
    tokenizer: Tokenizer,
) -> None:
    running = write(begin(tokenizer, "[0-9]+", 9), tokenizer, "4", "2", " the")
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason) == ("42", STOPPED)
    assert (running.ending.kept, running.ending.residue) == (2, "")
    assert not running.ending.truncated
    assert len(running.tokens) == 2


def test_a_token_that_stays_in_it_is_taken_and_so_is_the_end_token(tokenizer: Tokenizer) -> None:
    running = write(begin(tokenizer, "[0-9]+", 9), tokenizer, "4", "2")
    assert (running.ending, running.text) == (None, "42")
    end = min(tokenizer.eos_token_ids)
    running.accept(end)
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason["matched"]) == ("42", end)


def test_what_is_complete_of_the_token_s_own_text_stands(tokenizer: Tokenizer) -> None:
    """Of " the" the language has " t", " th", and the text is complete behind the blank alone."""
    running = write(begin(tokenizer, "[0-9]+( |  th)?", 9), tokenizer, "4", " the")
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason) == ("4 ", STOPPED)
    assert (running.ending.kept, running.ending.residue) == (1, " ")
    assert len(running.tokens) == 2, "whose log-probability is told"


def test_a_stop_in_what_stands_of_the_token_cuts_it(tokenizer: Tokenizer) -> None:
    running = write(begin(tokenizer, "[0-9t ]+", 9, stop=(" t",)), tokenizer, "4", " the")
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason["matched"]) == ("4", " t")
    assert (running.ending.kept, running.ending.residue) == (1, "")


def test_a_token_without_text_ends_the_output(tokenizer: Tokenizer) -> None:
    running = write(begin(tokenizer, "(?s).*", 9), tokenizer, "4")
    special = tokenizer.token_bytes.index(None, max(tokenizer.eos_token_ids - {2}) + 1)
    assert special not in tokenizer.eos_token_ids
    running.accept(special)
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason) == ("4", STOPPED)


def test_a_token_that_only_the_budget_refuses_ends_the_output_by_its_limit(
    tokenizer: Tokenizer,
) -> None:
    """Drawn again among the digits, 42 would become a number that the model did not mean."""
    running = write(begin(tokenizer, r"[0-9]+(\.[0-9]{4})?", 7), tokenizer, "4", "2", ".")
    assert running.ending is None
    running = write(begin(tokenizer, r"[0-9]+(\.[0-9]{4})?", 7), tokenizer, "4", "2", "0", ".")
    assert running.ending is not None
    assert running.ending.text == "420"
    assert running.ending.reason == {"type": "length", "length": 3}
    assert not running.ending.truncated


@pytest.mark.parametrize(
    ("pattern", "reason"), [("[0-9]{2}", STOPPED), ("[0-9]+", {"type": "length", "length": 2})]
)
def test_at_the_limit_the_reason_is_the_length_unless_nothing_could_follow(
    tokenizer: Tokenizer, pattern: str, reason: dict[str, Any]
) -> None:
    running = write(begin(tokenizer, pattern, 2), tokenizer, "4", "2")
    assert running.ending is not None
    assert running.ending.reason == reason


# -- where it may not end ------------------------------------------------------------------------


def test_the_empty_text_does_not_end_by_what_is_not_allowed(tokenizer: Tokenizer) -> None:
    running = begin(tokenizer, "[a-z]*", 9)
    assert running.is_masked
    ends = tokenizer.eos_token_ids
    for token in possible(running, tokenizer):
        assert token in ends or re.fullmatch(b"[a-z]+", tokenizer.token_bytes[token] or b"")
    assert ends <= set(possible(running, tokenizer))


def test_what_spells_the_literal_again_is_nothing_written(tokenizer: Tokenizer) -> None:
    running = write(begin(tokenizer, "[a-z]*", 9, prefix=b"lic"), tokenizer, "l", "ic")
    masked = [running.is_masked]
    masked.append(write(running, tokenizer, "e").is_masked)
    assert masked == [True, False]
    assert write(running, tokenizer, " ").ending is not None


@pytest.mark.parametrize("said", [{"min_tokens": 3}, {"ignore_eos": True}])
def test_what_may_not_end_yet_is_masked(tokenizer: Tokenizer, said: dict[str, Any]) -> None:
    running = write(begin(tokenizer, "[b-d]*", 9, **said), tokenizer, "b", "c")
    assert {tokenizer.token_bytes[each] for each in possible(running, tokenizer)} >= {b"b", b"d"}
    assert all(
        re.fullmatch(b"[b-d]+", tokenizer.token_bytes[each] or b"")
        for each in possible(running, tokenizer)
    )
    write(running, tokenizer, "d")
    assert running.is_masked == ("ignore_eos" in said)


def test_where_nothing_can_follow_nothing_is_drawn(tokenizer: Tokenizer) -> None:
    running = write(begin(tokenizer, JsonSchema({"type": "object"}), 9), tokenizer, "{", "}")
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason) == ("{}", STOPPED)


def test_in_free_text_a_tag_is_masked_and_a_call_too_many_ends_it(tokenizer: Tokenizer) -> None:
    tag = Tag(begin="<a>", content=Regex("[0-9]"), end="</a>")
    running = begin(tokenizer, StructuralTags([tag], max_calls=1), 40)
    masked = []
    for char in "x <a>7</a> <a":
        masked.append(running.is_masked)
        write(running, tokenizer, char)
    #                 x     <a>7</a> <a
    assert masked == [True, *[False] * 4, *[True] * 5, *[False] * 3]
    assert write(running, tokenizer, ">").ending is not None
    assert running.ending is not None
    assert (running.ending.text, running.ending.reason) == ("x <a>7</a> <a", STOPPED)


# -- any constraint, any model -------------------------------------------------------------------


def check(tokenizer: Tokenizer, constraint: Constraint, rng: random.Random) -> None:
    """Draw any tokens; judge each step by a matcher without bounds, and the texts as a whole."""
    grammar = compiler(tokenizer).compile(constraint)
    limit = grammar.min_tokens + rng.randint(1, 8)
    min_tokens = rng.choice([0, 0, 2])
    running = begin(tokenizer, constraint, limit, min_tokens=min_tokens)
    judge, text, shown, count = Matcher(grammar, max_tokens=ROOM), b"", "", 0
    ending = running.ending
    while ending is None:
        is_open = bool(text) and count >= min_tokens and grammar.contains(_decoded(text))
        assert running.is_masked == (not is_open)
        assert running.matcher is not None
        drawn = possible(running, tokenizer)
        if is_open and rng.random() < 0.7:
            drawn = running.matcher.allowed_token_ids().tolist()
        token = rng.choice(drawn)
        own = tokenizer.token_bytes[token] or b""
        affordable = running.matcher.allows(token)
        running.accept(token)
        ending = running.ending
        if token in tokenizer.eos_token_ids:
            assert ending is not None
        elif affordable:
            judge.accept_token(token)
            text, count = text + own, count + 1
            if ending is None:
                assert running.text.startswith(shown)
                shown = running.text
            else:
                assert judge.is_final or count == limit
                assert ending.reason["type"] == ("stop" if judge.is_final else "length")
        else:
            assert is_open
            assert ending is not None
            assert ending.reason["type"] == ("length" if judge.allows(token) else "stop")
            parts = [own[:size] for size in range(len(own), 0, -1)]
            whole = (part for part in parts if grammar.contains(_decoded(text + part)))
            text += next(whole, b"")
    assert ending.text.encode() == text
    assert ending.text.startswith(shown)
    assert grammar.contains(ending.text)
    assert not ending.truncated
    kept = tokenizer.decode(running.tokens[: ending.kept])
    assert kept + ending.residue.encode() == text


def _decoded(data: bytes) -> str:
    """Lone surrogates, which no constraint allows, where a character is not whole."""
    return data.decode("utf-8", "surrogateescape")


@settings(max_examples=100)
@given(pattern=patterns, rng=st.randoms(use_true_random=False))
def test_of_any_pattern_it_ends_complete_where_it_is_left(
    tokenizer: Tokenizer, pattern: str, rng: random.Random
) -> None:
    check(tokenizer, Regex(pattern), rng)


@settings(max_examples=60)
@given(schema=schemas, rng=st.randoms(use_true_random=False))
def test_of_any_schema_it_ends_complete_where_it_is_left(
    tokenizer: Tokenizer, schema: Any, rng: random.Random
) -> None:
    try:
        constraint = JsonSchema(schema)
        compiler(tokenizer).compile(constraint)
    except GrammarError:
        return
    check(tokenizer, constraint, rng)


# -- the distribution ----------------------------------------------------------------------------

TEXTS = ["a", "b", ".", "ab", "b."]
Weights = Callable[[int], NDArray[np.float64]]


@pytest.fixture(scope="module")
def tiny() -> Tokenizer:
    """Five tokens of text, the end, and a token that stands for no text."""
    vocabulary = {text: token_id for token_id, text in enumerate(TEXTS)}
    core = Core(models.BPE(vocab=vocabulary, merges=[("a", "b"), ("b", ".")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["</s>", "<s>"])
    return engine_tokenizer(wrapped(core))


def of_the_engine(
    start: Callable[[], Generation], tokenizer: Tokenizer, weights: Weights, tokens: list[int]
) -> Iterator[tuple[str, float]]:
    """Every output that begins with these tokens, and its share."""
    running = start()
    for token in tokens:
        running.accept(token)
    if running.ending is not None:
        yield running.ending.text, 1.0
        return
    allowed = possible(running, tokenizer)
    share = weights(len(tokens))[allowed]
    for token, part in zip(allowed, share / share.sum(), strict=True):
        for text, rest in of_the_engine(start, tokenizer, weights, [*tokens, token]):
            yield text, part * rest


def of_the_rule(
    pattern: str, weights: Weights, limit: int, *, text: str = "", count: int = 0
) -> Iterator[tuple[str, float]]:
    """The same from the rule as it is told, by brute force over the texts of few tokens."""
    left = limit - count
    following = {
        t: [
            text + TEXTS[t] + "".join(more)
            for size in range(left)
            for more in product(TEXTS, repeat=size)
            if re.fullmatch(pattern, text + TEXTS[t] + "".join(more))
        ]
        for t in range(len(TEXTS))
    }
    taken = [t for t in following if following[t]]
    complete = re.fullmatch(pattern, text) is not None
    if complete and (left == 0 or _is_closed(pattern, text)):
        yield text, 1.0
        return
    share = weights(count)
    if complete and text:
        for t in set(range(len(share))) - set(taken):
            own = TEXTS[t] if t < len(TEXTS) else ""
            whole = [text + own[:n] for n in range(len(own) + 1)]
            yield [w for w in whole if re.fullmatch(pattern, w)][-1], share[t] / share.sum()
        total = share.sum()
    else:
        total = share[taken].sum() + (share[len(TEXTS)] if complete else 0.0)
        if complete:
            yield text, share[len(TEXTS)] / total
    for t in taken:
        for whole_text, rest in of_the_rule(
            pattern, weights, limit, text=text + TEXTS[t], count=count + 1
        ):
            yield whole_text, share[t] / total * rest


def _is_closed(pattern: str, text: str) -> bool:
    """Whether no text of at most four tokens more is in the language."""
    more = (m for size in range(1, 5) for m in product(TEXTS, repeat=size))
    return not any(re.fullmatch(pattern, text + "".join(m)) for m in more)


@pytest.mark.parametrize("limit", [3, 4])
@pytest.mark.parametrize(
    "pattern", ["[ab]{1,2}", r"a+(\.b)?", "(ab)*", "a?b*", r"b|a(\.{3})?", r"[ab]+\.?", r"(a|\.b)+"]
)
def test_each_output_is_as_likely_as_the_rule_says(
    tiny: Tokenizer, pattern: str, limit: int
) -> None:
    table = np.random.default_rng(7).uniform(0.1, 1.0, (limit + 1, len(TEXTS) + 2))

    def weights(position: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = table[position]
        return found

    grammar = compiler(tiny).compile(Regex(pattern))

    def start() -> Generation:
        matcher = Matcher(grammar, max_tokens=limit)
        return Generation(DEFAULT_SAMPLING, tiny, limit=limit, matcher=matcher, prefix=b"")

    found, expected = defaultdict[str, float](float), defaultdict[str, float](float)
    for text, share in of_the_engine(start, tiny, weights, []):
        found[text] += share
    for text, share in of_the_rule(pattern, weights, limit):
        expected[text] += share
    assert dict(found) == pytest.approx(dict(expected), rel=1e-12)
    assert math.isclose(sum(found.values()), 1.0)
