"""Structural tags against a judge that reads the text from left to right, by the definition."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from grammars import (
    Cfg,
    Compiler,
    EmptyLanguageError,
    GrammarError,
    JsonSchema,
    Matcher,
    Regex,
    StructuralTags,
    Tag,
    Vocabulary,
    accepts,
)
from tests.grammars.vocabularies import allowed_tokens, budgets, small_vocabulary, walk

VOCABULARY = small_vocabulary()
LETTERS = Vocabulary(
    [b"a", b"b", b"<", b"<a", b"<b", b"a<", b"bb", b">", b"a>b", "é".encode(), b"\xc3", None],
    eos_token_ids=[11],
)


def judge(structure: StructuralTags, text: str, calls: int = 0) -> bool:
    """Whether a text is allowed; contents are patterns here."""
    ends = {t: text.index(t) + len(t) for t in structure.triggers if t in text}
    if not ends:
        return calls >= structure.min_calls and calls <= (structure.max_calls or calls)
    if calls == structure.max_calls:
        return False
    trigger = min(ends, key=ends.__getitem__)
    written = text[ends[trigger] :]
    for tag in structure.tags:
        rest = tag.begin[len(trigger) :]
        if not tag.begin.startswith(trigger) or not written.startswith(rest):
            continue
        assert isinstance(tag.content, Regex)
        after = written[len(rest) :]
        for place in range(len(after) + 1):
            left = after[place + len(tag.end) :]
            if (
                after.startswith(tag.end, place)
                and re.fullmatch(tag.content.pattern, after[:place])
                and (not left if structure.stop_after_first else judge(structure, left, calls + 1))
            ):
                return structure.min_calls <= 1 if structure.stop_after_first else True
    return False


FRAGMENTS = ["<a", "<b", ">", "<", "a", "b", "é", "bb", "aab", "<<a", "a>b"]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=7).map("".join)


@st.composite
def structures(draw: st.DrawFn) -> StructuralTags:
    """Tags over a few letters, with triggers that overlap themselves and each other."""
    begins = draw(st.lists(st.sampled_from(["<a", "<b", "<ab", "aab", "é<", "bb"]), min_size=1))
    contents = st.sampled_from(["[ab]*", "a|b<", "", "(<a)?b", "[^>]*", "é+"])
    ends = st.sampled_from([">", "b", "<", ""])
    tags = [Tag(begin, Regex(draw(contents)), draw(ends)) for begin in begins]
    triggers = draw(st.sampled_from([None, ["<", "aa", "é", "bb"]]))
    if triggers is not None:
        triggers = [t for t in triggers if any(begin.startswith(t) for begin in begins)]
    least = draw(st.integers(0, 2))
    most = draw(st.sampled_from([None, least, least + 1]))
    stops = least < 2 and most in (None, 1) and draw(st.booleans())
    try:
        return StructuralTags(
            tags, triggers, min_calls=least, max_calls=most, stop_after_first=stops
        )
    except GrammarError:  # a trigger in another one
        return StructuralTags(tags[:1], min_calls=least, max_calls=most, stop_after_first=stops)


@given(structures(), st.lists(texts, min_size=10, max_size=10))
@settings(max_examples=200, deadline=None)
def test_a_text_is_accepted_as_reading_it_says(structure: StructuralTags, tried: list[str]) -> None:
    for text in [*tried, *(a + b for a in FRAGMENTS for b in FRAGMENTS)]:
        assert accepts(structure, text) is judge(structure, text), text


@given(structures(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_random_walks_finish_within_any_budget(structure: StructuralTags, seed: int) -> None:
    rng = random.Random(seed)
    for vocabulary in (VOCABULARY, LETTERS):
        grammar = Compiler(vocabulary).compile(structure)
        for max_tokens in (*budgets(grammar), grammar.min_tokens + 12):
            text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
            assert judge(structure, text)


@given(structures(), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_mask_lets_through_what_some_text_goes_on_with(
    structure: StructuralTags, seed: int
) -> None:
    """Every text of up to a few letters is judged; what is beyond them is tried by a walk."""
    rng = random.Random(seed)
    grammar = Compiler(LETTERS).compile(structure)
    matcher, written = Matcher(grammar, max_tokens=60), b""
    for _ in range(5):
        allowed = allowed_tokens(matcher)
        assert (11 in allowed) is (_is_text(written) and judge(structure, written.decode()))
        for token_id in range(LETTERS.size - 1):
            data = written + (LETTERS.token_bytes(token_id) or b"")
            if token_id in allowed:
                following = matcher.fork()
                following.accept_token(token_id)
                assert judge(structure, (data + walk(following, rng)).decode())
            else:
                endings = ("", "a>", "b", "é>", "<", ">a>", "bb", "<a>b", "aab>")
                for first in endings:
                    for second in endings:
                        text = data + (first + second).encode()
                        assert not _is_text(text) or not judge(structure, text.decode())
        token_id = rng.choice(allowed)
        if token_id == 11:
            break
        matcher.accept_token(token_id)
        written += LETTERS.token_bytes(token_id) or b""


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


WEATHER = Tag(
    "<function=get_weather>",
    JsonSchema({"type": "object", "properties": {"city": {"enum": ["Oslo", "Lima"]}},
                "required": ["city"]}),
    "</function>",
)  # fmt: skip
SUM = Tag("<function=sum>", Cfg('start: N ("+" N)*\nN: "0".."9"'), "</function>")


def test_calls_of_functions_stand_in_free_text() -> None:
    calls = StructuralTags([WEATHER, SUM], triggers=["<function="])
    for text in (
        "",
        "No call at all: 1 < 2, <functio",
        'Let me see. <function=get_weather>{"city":"Oslo"}</function> Done.',
        "<function=sum>1+2</function><function=sum>3</function>",
        "<<function=sum>1</function>",
        "naïve 😀 <function=sum>1</function>",
    ):
        assert accepts(calls, text), text
    for text in (
        "<function=",
        "<function=other>",
        '<function=get_weather>{"city":"Rome"}</function>',
        "<function=sum>1+2",
        "<function=sum>1+2</function> <function=",
    ):
        assert not accepts(calls, text), text
    assert calls.parse("text") == "text"


def test_the_counts_of_calls_hold() -> None:
    call = "<function=sum>1</function>"
    counted = StructuralTags([SUM], min_calls=1, max_calls=2)
    assert [accepts(counted, call * n + " ok") for n in range(4)] == [False, True, True, False]
    once = StructuralTags([SUM], stop_after_first=True)
    assert [accepts(once, t) for t in ("a", "a" + call, call + "a")] == [True, True, False]
    many = StructuralTags([SUM], min_calls=30)
    grammar = Compiler(VOCABULARY).compile(many)
    text = walk(Matcher(grammar, max_tokens=grammar.min_tokens), random.Random(0)).decode()
    assert text.count("<function=sum>") >= 30 and accepts(many, text)


@pytest.mark.parametrize("seed", range(3))
def test_walks_through_calls_are_what_was_asked_for(seed: int) -> None:
    rng = random.Random(seed)
    calls = StructuralTags([WEATHER, SUM], triggers=["<function="], min_calls=2)
    grammar = Compiler(small_vocabulary(seed=seed)).compile(calls)
    for max_tokens in (*budgets(grammar), grammar.min_tokens + 40):
        text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
        found = re.findall(r"<function=(\w+)>(.*?)</function>", text)
        assert len(found) >= 2
        for name, content in found:
            assert json.loads(content)["city"] if name == "get_weather" else content[0].isdigit()


def test_what_cannot_be_finished_is_not_begun() -> None:
    lacking = Compiler(small_vocabulary(missing=[ord("q")]))
    either = StructuralTags([Tag("<q>", "q", ""), Tag("<a>", "a", "")], min_calls=1)
    assert not lacking.compile(either).contains("<q>q")
    assert lacking.compile(either).contains("<a>a")
    with pytest.raises(EmptyLanguageError):
        lacking.compile(StructuralTags([Tag("<q>", "q", "")], min_calls=1))
    free = lacking.compile(StructuralTags([Tag("<", Regex("b^a"), "")]))
    assert free.contains("a > b") and not free.contains("a <")


@pytest.mark.parametrize(
    ("tags", "options", "message"),
    [
        ([], {}, r"tags=\(\)"),
        ("ab", {}, r"tags=\('a', 'b'\)"),
        ([SUM, 3], {}, "sequence of Tag"),
        ([SUM], {"triggers": []}, "sequence of str"),
        ([SUM, WEATHER], {"triggers": ["<function=s"]}, "begins with no trigger"),
        ([SUM], {"triggers": ["<x"]}, "no tag begins with the trigger '<x'"),
        ([SUM], {"triggers": ["<", "<function"]}, "'<' stands in the trigger '<function'"),
        ([SUM], {"triggers": ["<", ""]}, "sequence of str"),
        ([SUM], {"triggers": "<"}, "sequence of str"),
        ([SUM, Tag("on=", "", "")], {}, "'on=' stands in the trigger"),
        ([SUM], {"min_calls": 2, "max_calls": 1}, "at least 2 and at most 1"),
        ([SUM], {"min_calls": -1}, "the count -1"),
        ([SUM], {"stop_after_first": True, "min_calls": 2}, "allows one call"),
        ([SUM], {"stop_after_first": True, "max_calls": 3}, "allows one call"),
    ],
)
def test_tags_and_triggers_that_do_not_go_together_are_refused(
    tags: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(GrammarError, match=message):
        StructuralTags(tags, **options)


def test_a_tag_is_checked() -> None:
    bad: Any = [3, None]
    for parts, message in (
        (("", "a", ""), "begin=''"),
        (("a", bad[0], ""), "the content of a Tag got 3"),
        (("a", "b", bad[1]), "end=None"),
    ):
        with pytest.raises(GrammarError, match=message):
            Tag(*parts)


def test_equal_tags_are_compiled_once() -> None:
    compiler = Compiler(VOCABULARY)
    first = compiler.compile(StructuralTags([SUM]))
    assert first is compiler.compile(StructuralTags([SUM], triggers=["<function=sum>"]))
