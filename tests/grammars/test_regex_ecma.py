"""The ECMA-262 dialect: against the official JSON Schema suite, and by its own rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grammars import GrammarError, UnsupportedError
from grammars.algebra import Algebra
from grammars.charset import utf8
from grammars.derive import matches
from grammars.regex import parse
from grammars.regex_lowering import lower_search
from grammars.regex_tree import ECMA

SUITE = Path(__file__).parents[3] / "shared" / "data" / "json-schema-test-suite"
FILES = [
    SUITE / "tests" / "draft2020-12" / name
    for name in (
        "pattern.json",
        "patternProperties.json",
        "optional/ecmascript-regex.json",
        "optional/non-bmp-regex.json",
    )
]


def found_in(pattern: str, text: str) -> bool:
    algebra = Algebra()
    return matches(algebra, lower_search(algebra, parse(pattern, ECMA), utf8), text.encode())


def judged(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Patterns, texts, and whether the suite says that the one is found in the other."""
    groups: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    for group in groups:
        schema, tests = group["schema"], group["tests"]
        if not isinstance(schema, dict):
            continue
        if "pattern" in schema:
            for test in tests:
                if isinstance(test["data"], str):
                    yield schema["pattern"], test["data"], test["valid"]
        elif schema.get("additionalProperties") is False and "patternProperties" in schema:
            (pattern,) = schema["patternProperties"]
            for test in tests:
                if len(test["data"]) == 1:
                    yield pattern, *test["data"], test["valid"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_pattern_of_the_official_suite_is_found_where_it_says(path: Path) -> None:
    if not path.exists():
        pytest.skip("the official suite is not beside the repository")
    for pattern, text, is_found in judged(path):
        assert found_in(pattern, text) == is_found, (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("abcd", ["xabcdx"], ["abc"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("^a$", ["a"], ["a\n", "ba"]),
        (r"^\d$", ["1"], ["٣"]),
        (r"^\w\s$", ["a\u00a0", "a\ufeff"], ["é ", "a\x1c"]),
        ("^.$", ["a", "🐢"], ["\n", "\r", "\u2028"]),
        (r"^\/\-\cA\cz\u{1F422}$", ["/-\x01\x1a🐢"], ["/-A\x1a🐢"]),
        (r"^\ud83d\udc22[^]$", ["🐢\n"], ["🐢"]),
        ("^[]$", [], ["", "]"]),
        ("^(?<name>a{2})(?<$2>b)$", ["aab"], ["a"]),
        ("", ["", "x"], []),
        ("^{$|^x{,2}$", ["{", "x{,2}"], ["xx"]),
        (r"^[\w-.]+$", ["a-.b"], ["a,b"]),
        (r"^[\w-\.]\_\#$", ["-_#", "._#"], ["/_#"]),
        (r"^\p{L}\P{Lu}\p{gc=Nd}$", ["éa٣", "A1٣"], ["1a1", "aA1"]),
        (r"^\p{Letter}+\p{digit}[\p{P}\p{Zs}]$", ["é1 ", "é1!"], ["é1a"]),
        (r"\bfoo\b", ["a foo", "éfoo"], ["afoo"]),
        (r"^\B$", [""], ["a"]),
        (r"(?<=a*)b(?!c)", ["b", "aab"], ["bc"]),
        (r"(?<=^[ab]+)c", ["abc"], ["c", "xc"]),
        (r"(?<!\d{2,})x", ["1x", "x"], ["12x"]),
        ("^(?!.*foo)(?=.*bar).{3,8}$", ["abar", "barbar"], ["foobar", "ba"]),
        (r"^(?!\s)(?:(?!\s\s)[\w ])+(?<!\s)$", ["a b", "a"], ["a  b", " a", "a "]),
    ],
)
def test_a_pattern_is_searched(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [found_in(pattern, text) for text in yes] == [True] * len(yes)
    assert [found_in(pattern, text) for text in no] == [False] * len(no)


@pytest.mark.parametrize(
    ("pattern", "column"),
    [
        (r"^\a$", 1),
        (r"\u12", 0),
        (r"\u{110000}", 0),
        (r"\c1", 0),
        (r"\01", 0),
        ("[b-a]", 1),
        ("a{2}{3}", 4),
        ("{2}", 0),
        ("(?P<n>a)", 0),
        ("(?i)a", 0),
        ("a++", 2),
        ("(?>a)", 0),
        ("(a", 0),
    ],
)
def test_what_is_malformed_is_refused_with_its_column(pattern: str, column: int) -> None:
    with pytest.raises(GrammarError, match="malformed") as caught:
        parse(pattern, ECMA)
    assert not isinstance(caught.value, UnsupportedError)
    assert caught.value.position == column


@pytest.mark.parametrize(
    ("pattern", "column"),
    [(r"(a)\1", 3), (r"(?<n>a)\k<n>", 7), (r"a\p{Script=Greek}", 1), (r"\Afoo\Z", 0)],
)
def test_what_is_not_supported_is_refused_with_its_column(pattern: str, column: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(pattern, ECMA)
    assert caught.value.position == column
