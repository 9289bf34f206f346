"""Both encodings of code points, against Python's codec and json module."""

from __future__ import annotations

import json
import re

from hypothesis import example, given, settings, strategies as st

from grammars.algebra import Algebra
from grammars.charset import ANY, Ranges, fold, invert, json_text, normalized, unicode_class, utf8
from grammars.derive import matches

codes = st.one_of(st.characters(exclude_categories=["Cs"]).map(ord), st.integers(0, 0x2FF))
ranges = st.lists(st.tuples(codes, codes).map(lambda p: (min(p), max(p))), max_size=4).map(
    normalized
)


def _has(members: Ranges, code: int) -> bool:
    return any(first <= code <= last for first, last in members)


@given(ranges, st.lists(codes, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_utf8_writes_exactly_the_members(members: Ranges, probes: list[int]) -> None:
    algebra = Algebra()
    node = utf8(algebra, members)
    for code in [*probes, *(edge for pair in members for edge in pair)]:
        assert matches(algebra, node, chr(code).encode()) == _has(members, code)


@given(ranges, st.lists(codes, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_json_text_takes_both_spellings_of_exactly_the_members(
    members: Ranges, probes: list[int]
) -> None:
    algebra = Algebra()
    node = json_text(algebra, members)
    for code in [*probes, *(edge for pair in members for edge in pair)]:
        for ascii_only in (False, True):
            spelled = json.dumps(chr(code), ensure_ascii=ascii_only)[1:-1]
            assert matches(algebra, node, spelled.encode()) == _has(members, code)
            if "\\u" in spelled:
                upper = spelled.upper().replace("\\U", "\\u")
                assert matches(algebra, node, upper.encode()) == _has(members, code)


@given(st.binary(max_size=12))
@example(b"\\ud83d")
@example(b"\\udc22\\ud83d")
@example(b"\\u0041")
@example(b"\xed\xa0\x80")
@example(b'"')
@example(b"\x1f")
@settings(max_examples=300, deadline=None)
def test_what_json_text_writes_is_one_character_of_json(data: bytes) -> None:
    algebra = Algebra()
    if matches(algebra, json_text(algebra, ANY), data):
        text = json.loads(b'"' + data + b'"')
        assert len(text) == 1
        text.encode()  # no lone surrogate


@given(ranges, codes)
@settings(deadline=None)
def test_invert_is_the_complement(members: Ranges, code: int) -> None:
    assert _has(invert(members), code) != _has(members, code)


@given(st.sampled_from("dsw"), codes)
@settings(deadline=None)
def test_the_classes_are_those_of_re(name: str, code: int) -> None:
    assert _has(unicode_class(name), code) == bool(re.fullmatch(f"\\{name}", chr(code)))


@given(ranges, codes)
@example(((ord("k"), ord("k")),), 0x212A)
@example(((0x130, 0x130),), ord("i"))
@settings(max_examples=100, deadline=None)
def test_folding_is_that_of_re(members: Ranges, code: int) -> None:
    written = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in members)
    if written:
        expected = bool(re.fullmatch(f"[{written}]", chr(code), re.IGNORECASE))
        assert _has(fold(members), code) == expected
