"""A generation's end: what its text is, which tokens stand, and what it may not write."""

from __future__ import annotations

import codecs
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from grammars import Compiler, Matcher, Regex, fill_bitmasks
from runtime.generation import Generation
from runtime.tokenizer import Tokenizer
from sgdsl.errors import UsageError
from sgdsl.graph import DEFAULT_SAMPLING, Sampling
from tests.reference import num_begun

EOS = 2


def generation(
    tokenizer: Tokenizer, *, limit: int = 100, prefix: bytes = b"", **said: Any
) -> Generation:
    sampling = Sampling(**said).over(DEFAULT_SAMPLING)
    return Generation(sampling, tokenizer, limit=limit, matcher=None, prefix=prefix)


def feed(running: Generation, tokens: list[int]) -> Generation:
    for token in tokens:
        if running.ending is not None:
            break
        running.accept(token)
    return running


def allowed(running: Generation, tokenizer: Tokenizer) -> set[int]:
    """What its mask lets through, wherever it holds."""
    row = np.full(tokenizer.vocabulary.num_words, -1, dtype=np.int32)
    fill_bitmasks([running.matcher], row[np.newaxis])
    running.narrow(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(tokenizer.token_bytes)]
    return set(np.flatnonzero(bits).tolist())


plain_tokens = st.lists(st.integers(3, 700), min_size=1, max_size=30)
stops = st.lists(st.text("abe nt", min_size=1, max_size=3), max_size=3)


@settings(max_examples=300, deadline=None)
@given(tokens=plain_tokens, stops=stops, prefix_len=st.integers(0, 3), limit=st.integers(1, 30))
def test_text_ends_before_the_first_stop_string(
    tokenizer: Tokenizer, tokens: list[int], stops: list[str], prefix_len: int, limit: int
) -> None:
    prefix = tokenizer.decode(tokens)[:prefix_len]
    running = feed(
        generation(tokenizer, limit=limit, stop=tuple(stops), prefix=prefix), [*tokens, EOS]
    )
    ending = running.ending
    if ending is None:  # the limit counts what goes beyond the prefix
        assert running.text == tokenizer.decode(tokens)[len(prefix) :].decode("utf-8", "replace")
        return
    written = tokenizer.decode(running.tokens)
    whole = written[len(prefix) :].decode("utf-8", "surrogateescape")
    found = [at for stop in stops if (at := whole.find(stop)) >= 0]
    expected = whole[: min(found)] if found else whole
    assert ending.text == expected.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if found:
        assert ending.reason["type"] == "stop"
        assert ending.reason["matched"] in stops
    kept = tokenizer.decode(running.tokens[: ending.kept])
    assert kept + ending.residue.encode() == prefix + expected.encode(
        "utf-8", "surrogateescape"
    ) or ("\ufffd" in ending.residue)
    assert ending.truncated == (ending.reason["type"] == "length")


patterns = st.sampled_from(
    ["[aeiou][nt]", "t.*h", "\\be", "(?m)^[a-z]", "e{2}|o", "[ a-z]{9}n", "[^\x00-\x7f]"]
)


@settings(max_examples=200, deadline=None)
@given(
    tokens=plain_tokens,
    stops=stops,
    stop_regex=st.lists(patterns, min_size=1, max_size=2),
    min_tokens=st.integers(0, 3),
)
def test_text_ends_before_what_a_pattern_first_matches(
    tokenizer: Tokenizer,
    tokens: list[int],
    stops: list[str],
    stop_regex: list[str],
    min_tokens: int,
) -> None:
    said: dict[str, Any] = {
        "stop": tuple(stops),
        "stop_regex": tuple(stop_regex),
        "min_tokens": min_tokens,
    }
    running, shown = generation(tokenizer, **said), ""
    for count in range(1, len(tokens) + 1):
        running.accept(tokens[count - 1])
        assert running.text.startswith(shown) or running.ending is not None
        text = incremental(tokenizer, tokens[:count])
        written = undecoded(tokenizer, tokens[:count])
        start = num_begun(written, len(tokenizer.decode(tokens[:min_tokens])))
        found = [(at, stop) for stop in stops if (at := text.find(stop, start)) >= 0]
        for pattern in stop_regex:
            for end in range(start + 1, len(text) + 1):
                if match := re.search(pattern, text[start:end]):
                    found.append((start + match.start(), pattern))
                    break
        if found:
            at, stop = min(found)
            assert running.ending is not None
            assert running.ending.reason == {"type": "stop", "matched": stop}
            raw = written[:at].encode("utf-8", "surrogateescape")
            assert running.ending.text == raw.decode("utf-8", "replace")
            assert shown == running.ending.text[: len(shown)]
            return
        assert running.ending is None
        shown = running.text


def incremental(tokenizer: Tokenizer, tokens: list[int]) -> str:
    """What is whole of the tokens' text, each byte that is no character's replaced."""
    return re.sub("[\udc80-\udcff]", "\ufffd", undecoded(tokenizer, tokens))


def undecoded(tokenizer: Tokenizer, tokens: list[int]) -> str:
    """The same with a lone surrogate for such a byte; shown, several of them may become one."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return decoder.decode(tokenizer.decode(tokens))


def test_no_stop_pattern_cuts_a_constrained_output(tokenizer: Tokenizer) -> None:
    running = constrained(tokenizer, "a{3}", 9, stop_regex=("a",))
    feed(running, [tokenizer.encode("a")[0]] * 3)
    assert running.ending is not None
    assert running.ending.text == "aaa"


@settings(deadline=None)
@given(tokens=plain_tokens)
def test_what_is_shown_while_it_is_written_is_never_taken_back(
    tokenizer: Tokenizer, tokens: list[int]
) -> None:
    running = generation(tokenizer, stop=("the", "tion"))
    shown = ""
    for token in [*tokens, EOS]:
        if running.ending is None:
            running.accept(token)
            assert running.text.startswith(shown)
            shown = running.text
    assert running.ending is not None
    assert running.ending.text.startswith(shown)


def test_an_end_token_ends_and_does_not_stand(tokenizer: Tokenizer) -> None:
    running = feed(generation(tokenizer), [*tokenizer.encode("hi"), EOS])
    assert running.ending is not None
    assert running.ending.reason == {"type": "stop", "matched": EOS}
    assert (running.ending.text, running.ending.truncated) == ("hi", False)


def test_ignored_end_tokens_and_own_stop_tokens(tokenizer: Tokenizer) -> None:
    word = tokenizer.encode("x")[0]
    running = feed(generation(tokenizer, ignore_eos=True, stop_token_ids=(word,)), [EOS, word])
    assert running.ending is not None
    assert running.ending.reason == {"type": "stop", "matched": word}
    assert running.ending.kept == 1


def test_the_limit_truncates(tokenizer: Tokenizer) -> None:
    running = feed(generation(tokenizer, limit=2), tokenizer.encode("one two three four"))
    assert running.ending is not None
    assert running.ending.truncated
    assert running.ending.reason == {"type": "length", "length": 2}


def test_no_end_before_min_tokens(tokenizer: Tokenizer) -> None:
    running = generation(tokenizer, min_tokens=2)
    assert running.is_masked
    assert allowed(running, tokenizer).isdisjoint({0, EOS})
    feed(running, tokenizer.encode("ab")[:1] * 2)
    assert not running.is_masked


def test_healing_spells_what_was_taken_back(tokenizer: Tokenizer) -> None:
    """ "lic" was taken back: "license" may come, "l" and then "ic" may, the end may not."""
    running = generation(tokenizer, prefix=b"lic")
    for token in allowed(running, tokenizer):
        own = tokenizer.token_bytes[token]
        assert own
        assert own.startswith(b"lic") or b"lic".startswith(own)
    [single] = tokenizer.encode("l")
    running.accept(single)
    assert all((tokenizer.token_bytes[t] or b"")[:1] == b"i" for t in allowed(running, tokenizer))
    feed(running, tokenizer.encode("ic"))
    feed(running, tokenizer.encode("e!"))
    assert running.text == "e!"
    assert not running.is_masked


def test_a_constrained_generation_is_complete_at_any_limit(tokenizer: Tokenizer) -> None:
    grammar = Compiler(tokenizer.vocabulary).compile(Regex(r"(ab)+c?"))
    for limit in range(grammar.min_tokens, grammar.min_tokens + 6):
        matcher = Matcher(grammar, max_tokens=limit)
        running = Generation(DEFAULT_SAMPLING, tokenizer, limit=limit, matcher=matcher, prefix=b"")
        while running.ending is None:
            running.accept(max(allowed(running, tokenizer)))
        assert Regex(r"(ab)+c?").parse(running.ending.text) == running.ending.text
        assert not running.ending.truncated
        assert running.ending.text.replace("ab", "") in ("", "c")


def test_a_token_s_part_of_a_character_is_not_shown(tokenizer: Tokenizer) -> None:
    first, *rest = [
        next(i for i, own in enumerate(tokenizer.token_bytes) if own == bytes([b]))
        for b in "🐢".encode()
    ]
    running = feed(generation(tokenizer), [first])
    assert running.text == ""
    feed(running, [*rest, EOS])
    assert running.ending is not None
    assert running.ending.text == "🐢"


def constrained(tokenizer: Tokenizer, pattern: str, limit: int, **said: Any) -> Generation:
    matcher = Matcher(Compiler(tokenizer.vocabulary).compile(Regex(pattern)), max_tokens=limit)
    sampling = Sampling(**said).over(DEFAULT_SAMPLING)
    return Generation(sampling, tokenizer, limit=limit, matcher=matcher, prefix=b"")


def test_a_stop_string_ends_a_constrained_output_where_that_is_complete(
    tokenizer: Tokenizer,
) -> None:
    letter, blank = tokenizer.encode("a")[0], tokenizer.encode(" ")[0]
    said: dict[str, Any] = {"stop": (" ",), "stop_token_ids": (letter,)}
    running = constrained(tokenizer, "a a+ *", 9, **said)
    feed(running, [letter, blank, letter, letter])
    assert running.text == "a aa"  # "a" alone is not complete: the first blank is a part of it
    feed(running, [blank])
    assert running.ending is not None
    assert (running.ending.text, running.ending.truncated) == ("a aa", False)
    assert running.ending.reason == {"type": "stop", "matched": " "}
    assert (running.ending.kept, running.ending.residue) == (4, "")
    whole = feed(constrained(tokenizer, "a{3}", 9, stop=("a",)), [letter] * 3)
    assert whole.ending is not None
    assert whole.ending.text == "aaa"


@pytest.mark.parametrize("said", [{"min_tokens": 5}, {"ignore_eos": True}])
def test_a_constrained_output_goes_on_as_long_as_it_may(
    tokenizer: Tokenizer, said: dict[str, Any]
) -> None:
    running = constrained(tokenizer, "[b-d]*", 9, **said)
    assert running.is_masked
    assert allowed(running, tokenizer).isdisjoint(tokenizer.eos_token_ids)
    finite = constrained(tokenizer, "b?", 9, **said)
    feed(finite, tokenizer.encode("b"))
    assert finite.ending is not None
    assert finite.ending.text == "b"


def test_what_is_spelled_again_is_no_stop(tokenizer: Tokenizer) -> None:
    """The literal before ended in this very token: the model's own one comes later."""
    [word] = tokenizer.encode("x")
    running = generation(tokenizer, prefix=b"x", stop_token_ids=(word,), min_tokens=1)
    assert word in allowed(running, tokenizer)
    running.accept(word)
    assert word not in allowed(running, tokenizer)
    feed(running, [*tokenizer.encode("b")[:1], word])
    assert running.ending is not None
    assert running.ending.text == "b"
    assert running.ending.kept == 2


def test_no_stop_string_begins_before_min_tokens(tokenizer: Tokenizer) -> None:
    [letter, other] = [tokenizer.encode(char)[0] for char in "nb"]
    running = feed(
        generation(tokenizer, stop=("n",), min_tokens=3), [other, letter, letter, other, letter]
    )
    assert running.ending is not None
    assert running.ending.text == "bnnb"


@pytest.mark.parametrize(
    ("written", "min_tokens", "stops", "ending"),
    [
        (b"b\xc3\xa9n", 2, {"stop": ("\xe9", "n")}, "b\xe9"),
        (b"b\xc3\xa9n", 2, {"stop_regex": ("\xe9|n",)}, "b\xe9"),
        (b"b\xc3\xa9n", 1, {"stop": ("\xe9", "n")}, "b"),
        (b"\xe6\x97\xa5n", 2, {"stop_regex": ("(?m)^[a-z]",)}, "\u65e5"),
        (b"\xe6\x97\xa5n", 1, {"stop_regex": ("(?m)^[a-z]",)}, "\u65e5"),
        (b"\xe6\x97t", 2, {"stop_regex": ("(?m)^[a-z]",)}, "\ufffd"),
        (b"\xe6\x97tn", 1, {"stop_regex": ("(?m)^[a-z]", "n")}, "\ufffdt"),
    ],
)
def test_a_character_that_begins_in_min_tokens_begins_no_stop(
    tokenizer: Tokenizer, written: bytes, min_tokens: int, stops: dict[str, Any], ending: str
) -> None:
    """It belongs to them, whole or broken. Each token is a byte."""
    single = {data: token for token, data in enumerate(tokenizer.token_bytes)}
    tokens = [single[bytes([byte])] for byte in written]
    running = feed(generation(tokenizer, min_tokens=min_tokens, **stops), tokens)
    assert running.ending is not None
    assert running.ending.text == ending
    assert running.ending.kept >= min_tokens


def test_a_stop_token_beyond_the_vocabulary_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="stop_token_ids has 999999"):
        generation(tokenizer, stop_token_ids=(999_999,))
