"""Context-free grammars against an independent Earley recogniser, and against `json`."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import assume, given, settings, strategies as st

from grammars import (
    Cfg,
    CompileBudgetError,
    Compiler,
    EmptyLanguageError,
    Grammar,
    GrammarError,
    Matcher,
    UnsupportedError,
    Vocabulary,
    accepts,
)
from grammars.algebra import Algebra
from grammars.derive import matches
from tests.grammars import earley
from tests.grammars.vocabularies import allowed_tokens, budgets, small_vocabulary, walk

VOCABULARY = small_vocabulary()
LETTERS = Vocabulary([b"a", b"b", b"ab", b"ba", b"bb", b"aab", b"abba", None], eos_token_ids=[7])
LACKING = Vocabulary([b"a", b"ab", b"ba", b"aab", None], eos_token_ids=[4])
"""Here "b" is written by longer tokens only."""

TEXTS = ["".join(text) for length in range(6) for text in product("ab", repeat=length)]

ARITHMETIC = r"""
start: sum
sum: sum ("+" | "-") product | product          // left-recursive, as people write it
product: product "*" atom | atom
atom: NUMBER | NAME "(" [sum ("," sum)*] ")" | "(" sum ")" | "-" atom -> negated
NUMBER: DIGIT+ ("." DIGIT~1..3)?
NAME: "a".."z"~1..8
DIGIT: /[0-9]/
%ignore / ?/
"""

JSON = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: "\"" (/[^"\\\x00-\x1f]/ | "\\" ESCAPE)* "\""
ESCAPE: /["\\\/bfnrt]/ | "u" HEX~4
HEX: "0".."9" | "a".."f" | "A".."F"  # either case
NUMBER: "-"? ("0" | /[1-9][0-9]*/) ("." /[0-9]+/)? ("e"i ("+" | "-")? /[0-9]+/)?
%ignore /[ \n]?/
"""


def accepted(text: str, tried: str, start: str = "start") -> bool:
    return accepts(Cfg(text, start), tried)


# -- the language ----------------------------------------------------------------------------------


@given(earley.random_rules)
@settings(max_examples=250, deadline=None)
def test_a_random_grammar_has_exactly_the_texts_of_its_productions(
    rules: dict[str, earley.Term],
) -> None:
    expected = earley.language(earley.productions_of(rules), "r", "ab", 5)
    algebra = Algebra()
    try:
        node = Cfg(earley.written(rules), "r").lower(algebra)
    except EmptyLanguageError:
        assert not expected
        return
    assert {text for text in TEXTS if matches(algebra, node, text.encode())} == expected


@pytest.mark.parametrize(
    "rules",
    [
        {"start": ["start x", "b"], "x": ["a"]},  # direct left recursion
        {"start": ["x a", "b"], "x": ["start b", "a"]},  # indirect
        {"start": ["n start a", "b"], "n": ["", "b"]},  # hidden behind what may be empty
        {"start": ["start start", "a", ""]},  # endlessly ambiguous
        {"start": ["x", "a"], "x": ["y"], "y": ["start", "x b", "b"]},  # a cycle of unit rules
        {"start": ["start a start", "start b start", "a"]},  # ambiguous operators
        {"start": ["x a", "y b"], "x": ["y a", "x b", "a"], "y": ["x b", "start a", "b"]},
        {"start": ["x", "y"], "x": ["x"], "y": ["a y b", "a b"]},  # one rule derives nothing
        {"start": ["a start b", ""]},  # a^n b^n
        {"start": ["a start a", "b start b", "a", "b", ""]},  # palindromes
        {"start": ["n n a"], "n": ["m n", ""], "m": ["n", "b"]},  # cycles of empty rules
    ],
)
def test_recursion_of_every_kind_is_exact(rules: dict[str, list[str]]) -> None:
    productions = {name: [tuple(b.split()) for b in bodies] for name, bodies in rules.items()}
    text = "\n".join(
        f"{name}: " + " | ".join(" ".join(s if s in rules else f'"{s}"' for s in b) for b in bodies)
        for name, bodies in productions.items()
    )
    grammar = Compiler(LETTERS).compile(Cfg(text))
    expected = earley.language(productions, "start", "ab", 5)
    assert {tried for tried in TEXTS if grammar.contains(tried)} == expected


def test_arithmetic_with_calls() -> None:
    for text in ("1", "1+2*3", "f(1, 2.5*g())", "-(1 + -x(2))*3", " 1 ", "f(f(f()))-0.125"):
        assert accepted(ARITHMETIC, text), text
    for text in ("", "1+", "f(1", "(1))", "1  +2", "1.", "1.2345", "f(,1)", "F()", "1 2"):
        assert not accepted(ARITHMETIC, text), text


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
        .filter(lambda value: value not in (float("inf"), float("-inf"))),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=6,
    ),
    st.integers(0, 2**32),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_json_as_a_grammar_is_what_json_reads(value: object, seed: int) -> None:
    rng = random.Random(seed)
    for ascii_only in (False, True):
        text = json.dumps(value, ensure_ascii=ascii_only)
        assert accepted(JSON, text)
        at = rng.randrange(len(text))
        broken = text[:at] + rng.choice(['"', "{", "]", ",", "\\", "0", "e", ""]) + text[at + 1 :]
        try:
            json.loads(broken)
        except json.JSONDecodeError:
            assert not accepted(JSON, broken)
        else:
            assert accepted(JSON, broken)


def test_the_notation() -> None:
    assert accepted('start: "a"~3 "b"~1..2', "aaab") and not accepted('start: "a"~3', "aa")
    assert accepted('start: "straße"i', "STRAßE") and not accepted('start: "a"', "A")
    assert accepted('start: "\\x41\\u00e9\\U0001F600\\n\\"\\\\"', 'Aé😀\n"\\')
    assert accepted('start: "а".."я"+', "привет")
    assert accepted("start: /a . b/xs", "a\nb")
    assert accepted("start: /[k]+/ia", "kK") and not accepted("start: /[k]+/ia", "\u212a")
    assert accepted('!start: ["a"\n  "b"] ( |\n "c" ) // comment\n  | "x"', "abc")
    assert accepted('start:\n  | "a"  # empty, or\n  | "b" -> named\n', "")
    assert accepted('?start: _x X1\n_x: ""\nX1: /\\/#/', "/#")
    assert accepted('s: "1"', "1", start="s")


def test_ignored_terminals_stand_between_terminals_and_not_inside() -> None:
    text = 'start: WORD "," WORD\nWORD: "a" "b"\n%ignore " "\n%ignore "#" /[a-z]{0,3}/ "x"?'
    with pytest.raises(GrammarError, match="the line must end"):
        Cfg(text)
    text = 'start: WORD "," WORD\nWORD: "a" "b"\nC: "#" /[a-z]{0,3}/\n%ignore " "\n%ignore C'
    for tried in ("ab,ab", " ab , ab ", "ab#xyz,ab", "#ab,#ab"):
        assert accepted(text, tried), tried
    for tried in ("a b,ab", "ab  ,ab", "ab# ,ab"):
        assert not accepted(text, tried), tried


def test_characters_are_whole() -> None:
    algebra = Algebra()
    node = Cfg('start: /./ | "é" "€"').lower(algebra)
    for data, expected in (("é€".encode(), True), ("é".encode()[:1], False), (b"\xff", False)):
        assert matches(algebra, node, data) is expected


# -- long, deep, many ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tried"),
    [
        ('start: "(" start ")" | "x"', "(" * 5_000 + "x" + ")" * 5_000),
        ('start: "(" start ")" start | ', "(" * 2_500 + "()" * 2_500 + ")" * 2_500),
        ('start: start "(" start ")" | ', "()(())" * 2_000),
        ('start: "a" start "b" | ', "a" * 5_000 + "b" * 5_000),
        ('start: start "," item | item\nitem: "x" | "y"', ",".join("xy" * 10_000)),
        ('start: item "," start | item\nitem: "x" | "y"', ",".join("xy" * 10_000)),
        ('start: item ("," item)*\nitem: "x" | "y"', ",".join("xy" * 10_000)),
        (JSON, "[" * 2_000 + "]" * 2_000),
        ('start: "if" start | "if" start "else" start | "x"', "if" * 1_000 + "x" + "elsex" * 999),
    ],
)
def test_long_and_deep_texts_take_no_deep_stack(text: str, tried: str) -> None:
    grammar = Compiler(small_vocabulary()).compile(Cfg(text))
    assert grammar.contains(tried)
    assert not grammar.contains(tried + ")")


@pytest.mark.parametrize(
    ("body", "tried"),
    [
        ("r{next}", "x"),
        ('"(" r{next} ")"', "(" * 2_000 + "x" + ")" * 2_000),
        ('r{next} | "{number}"', "1999"),
        ("[r{next}] | r{next}", "x"),
        ('r{next} "y"?', "xyy"),
    ],
)
def test_a_chain_of_thousands_of_rules_takes_no_deep_stack(body: str, tried: str) -> None:
    rules = [f"r{n}: {body.format(next=n + 1, number=n)}" for n in range(2_000)]
    grammar = Cfg("\n".join([*rules, 'r2000: "x"']), "r0")
    compiled = Compiler(VOCABULARY, max_lazy_seconds=60).compile(grammar)
    assert compiled.contains(tried) and not compiled.contains(tried + "(")
    matcher = Matcher(compiled, max_tokens=compiled.min_tokens)
    assert allowed_tokens(matcher)


def test_a_chain_of_thousands_of_terminals_takes_no_deep_stack() -> None:
    terminals = [f'T{n}: "(" T{n + 1} ")" | "{n}"' for n in range(2_000)]
    grammar = Cfg("\n".join([*terminals, 'T2000: "x"']), "T0")
    assert accepts(grammar, "((2))") and not accepts(grammar, "((1))")
    assert accepts(grammar, "(" * 2_000 + "x" + ")" * 2_000)


def test_a_large_group_of_left_recursive_rules_does_not_grow() -> None:
    rules = [f'r{n}: r{(n + 1) % 150} "{chr(97 + n % 26)}" | "{n}"' for n in range(150)]
    algebra = Algebra()
    node = Cfg("\n".join(rules), "r0").lower(algebra)
    assert matches(algebra, node, b"2ba") and not matches(algebra, node, b"2ab")
    assert len(algebra) < 5_000


def test_counters_are_no_copies() -> None:
    algebra = Algebra()
    Cfg('start: item~0..1000000\nitem: "a" item~0..100000 "b"').lower(algebra)
    assert len(algebra) < 50


# -- masks and budgets -----------------------------------------------------------------------------


def random_grammar(rules: dict[str, earley.Term], vocabulary: Vocabulary) -> Grammar:
    """Compiled with little room, for some of these are ambiguous beyond any."""
    try:
        compiler = Compiler(vocabulary, max_lazy_steps=1_000, max_lazy_seconds=0.5)
        return compiler.compile(Cfg(earley.written(rules), "r"))
    except EmptyLanguageError:
        assume(False)
        raise


@given(earley.random_rules, st.sampled_from([LETTERS, LACKING]), st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_a_mask_lets_through_what_the_recogniser_can_go_on_from(
    rules: dict[str, earley.Term], vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    judge = earley.Earley(earley.productions_of(rules), "r")
    with suppress(CompileBudgetError):
        matcher = Matcher(random_grammar(rules, vocabulary), max_tokens=1_000)
        for _ in range(4):
            allowed = allowed_tokens(matcher)
            viable = []
            for token_id in range(vocabulary.size - 1):
                text = (vocabulary.token_bytes(token_id) or b"").decode()
                viable += [token_id] * judge.read(text)
                judge.back(len(text))
            stop = list(vocabulary.eos_token_ids) * judge.is_complete()
            if vocabulary is LETTERS:  # every byte is a token: what bytes can finish, tokens can
                assert allowed == viable + stop
            assert set(allowed) <= set(viable + stop)
            if not allowed:  # a way that only longer tokens can go may be missed: documented
                assert vocabulary is LACKING
                break
            token_id = rng.choice(allowed)
            if token_id in stop:
                break
            judge.read((vocabulary.token_bytes(token_id) or b"").decode())
            matcher.accept_token(token_id)


@given(earley.random_rules, st.sampled_from([LETTERS, LACKING]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_random_walks_finish_within_any_budget(
    rules: dict[str, earley.Term], vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    productions = earley.productions_of(rules)
    with suppress(CompileBudgetError):
        grammar = random_grammar(rules, vocabulary)
        for max_tokens in budgets(grammar):
            if max_tokens <= 8:  # the recogniser is a slow one
                text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
                assert earley.accepts(productions, "r", text)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", [ARITHMETIC, JSON])
def test_random_walks_of_real_grammars_finish_within_any_budget(text: str, seed: int) -> None:
    rng = random.Random(seed)
    compiler = Compiler(small_vocabulary(seed=seed))
    grammar = compiler.compile(Cfg(text))
    for max_tokens in (*budgets(grammar), 40):
        written = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
        assert accepted(text, written)
        if text is JSON:
            json.loads(written)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'start: start "a"',
        'start: "a" other\nother: other',
        "start: /[^\\s\\S]/",
        'start: "a" start',
    ],
)
def test_a_grammar_that_derives_no_text_is_refused(text: str) -> None:
    with pytest.raises(EmptyLanguageError, match="'start', defined at line 1, column 1"):
        Compiler(VOCABULARY).compile(Cfg(text))


def test_what_the_vocabulary_cannot_write_is_left_out() -> None:
    lacking = Compiler(small_vocabulary(missing=[ord("q")]))
    grammar = lacking.compile(Cfg('start: other "a" | "b"\nother: other "q" | "q"'))
    assert grammar.contains("b") and not grammar.contains("qa")
    with pytest.raises(EmptyLanguageError, match="what the vocabulary cannot write"):
        lacking.compile(Cfg('start: other "a"\nother: "q"'))


def test_a_shortest_text_out_of_reach_is_refused() -> None:
    rules = [f"r{n}: r{n + 1} r{n + 1}" for n in range(5_000)]
    with pytest.raises(CompileBudgetError, match="shortest text of 'r"):
        Compiler(VOCABULARY).compile(Cfg("\n".join([*rules, 'r5000: "x"']), "r0"))


MALFORMED = [
    ("", 0, "does not define start='start'"),
    ('start: "a', 7, "line 1, column 8: a text that is not closed"),
    ("start: a\n  | /b", 13, "line 2, column 5: a pattern that is not closed"),
    ("start: a", 7, "'a' is not defined"),
    ('start: ("a"', 7, "the '\\(' is not closed"),
    ('start: "a" | ["b"\nb: "c"', 13, "the '\\[' is not closed"),
    ('start: "a")', 10, "'\\)' where the line must end"),
    ('start: "a"\n junk "b"', 17, "':' must follow the name 'junk'"),
    ('start: "a"\n"b"', 11, "where a definition must begin"),
    ('start: "a"\nstart: "b"', 11, "'start' is defined again"),
    ("start: fooBar", 7, "'fooB' is no name"),
    ("start: *", 7, "'\\*' where the line must end"),
    ('start: "a"+*', 11, "after a quantifier"),
    ('start: "a"~', 11, "a count must stand"),
    ('start: "a"~3..1', 11, "wrong order"),
    ('start: "a"~9999999999', 11, "a count must stand"),
    ('start: "b".."a"', 7, "wrong order"),
    ('start: "ab".."c"', 7, "two single characters"),
    ('start: "a"..b\nb: "c"', 7, "two single characters"),
    ('start: "\\q"', 8, "the escape"),
    ('start: "\\ud800"', 7, "lone surrogate"),
    ('start: "a"x', 10, "the only flag"),
    ("start: /a/q", 10, "the flag 'q'"),
    ("start: /a(/", 9, "is malformed"),
    ("start: 3", 7, "'3' where an item must stand"),
    ("start: a -> \na: ", 12, "an alias must stand"),
    ("start: $", 7, "'\\$' begins nothing"),
    ("%foo", 0, "'%foo' is unknown"),
    ('start: A\nA: b\nb: "x"', 12, "the terminal 'A' has the rule 'b'"),
    ('start: A\nA: "x" B\nB: A', 21, "the terminal 'A' contains itself"),
    ('start: "a"\n%ignore start', 11, "%ignore takes one terminal"),
    ('start: "a"\n%ignore WS', 19, "'WS' is not defined"),
]


@pytest.mark.parametrize(("text", "position", "message"), MALFORMED)
def test_a_malformed_grammar_is_refused_with_its_place(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(GrammarError, match=message) as caught:
        Cfg(text)
    assert not isinstance(caught.value, UnsupportedError)
    assert caught.value.position == (position if text else None)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ('start: "a"\n%import common.WS', 11, "'%import', which is not supported"),
        ('start.2: "a"', 5, "a priority"),
        ('start: x{"a"}\nx{y}: y', 8, "a template"),
        ("start: " + "(" * 31 + '"a"' + ")" * 31, 37, "more than 30 brackets"),
        ('start: "a"\n%ignore /\\s+/', 11, "more than 16 characters"),
        ('start: "a"\nWS: SP~3..9\nSP: "  "\n%ignore WS', 32, "more than 16 characters"),
        ("start: /^a/", 7, "an anchor or a look-around"),
        ("start: /a(?m)b/", 9, "flag"),
        (r'start: "x" /(a)\1/', 15, "back-reference"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_place(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(GrammarError, match=message) as caught:
        Cfg(text)
    assert caught.value.position == position


def test_arguments_of_other_types_are_refused() -> None:
    with pytest.raises(GrammarError, match="Cfg got text=3; give a str"):
        Cfg(3)  # type: ignore[arg-type]
    with pytest.raises(GrammarError, match="start='no'; define it"):
        Cfg('start: "a"', start="no")


def test_equal_grammars_are_compiled_once() -> None:
    compiler = Compiler(VOCABULARY)
    assert compiler.compile(Cfg('start: "a"')) is compiler.compile(Cfg('start: "a"'))
