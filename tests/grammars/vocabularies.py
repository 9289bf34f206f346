"""Small vocabularies for tests, and what tests read off a bitmask."""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np

from grammars import Grammar, Matcher, Vocabulary

FRAGMENTS = (
    [b'"', b'":', b'","', b'{"', b'"}', b"},", b"[", b"],", b"true", b"null", b"12", b"0.", b"-1"]
    + [b"\\u", b'\\"', b"\xc3\xa9", b"ab", b"aa", b"abc", b"\xf0\x9f", b'":"', b'":[{"', b"00"]
    + [b"e1", b"  ", b": ", b", ", b"a}", b"bb", b"ba", b"a\n", b"caab"]
)
LETTERS = [b"a", b"b", b'"', b",", b"1", b"0", b"{", b"}"]


def small_vocabulary(*, missing: Collection[int] = (), seed: int = 0) -> Vocabulary:
    """Every byte but the `missing` ones, fragments of text, random compounds of them; a special
    token, and a stop token at the end."""
    rng = random.Random(seed)
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256) if byte not in missing]
    tokens += FRAGMENTS
    tokens += [
        b"".join(rng.choice(FRAGMENTS + LETTERS) for _ in range(rng.randrange(2, 5)))
        for _ in range(60)
    ]
    kept = [token for token in tokens if token and not set(token) & set(missing)]
    return Vocabulary([*kept, None, None], eos_token_ids=[len(kept) + 1])


def stop_token(vocabulary: Vocabulary) -> int:
    """The id of the stop token."""
    return vocabulary.eos_token_ids[0]


def allowed_tokens(matcher: Matcher) -> list[int]:
    """The ids of the bits that the matcher sets."""
    row = np.full(matcher.grammar.vocabulary.num_words, -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    found: list[int] = np.flatnonzero(bits).tolist()
    return found


def walk(matcher: Matcher, rng: random.Random) -> bytes:
    """Draws uniformly among the allowed tokens until the matcher ends; the bytes written.

    Checks on the way what must hold at every step.
    """
    vocabulary = matcher.grammar.vocabulary
    written = b""
    while not matcher.is_terminated:
        assert matcher.min_tokens_to_finish <= matcher.remaining
        choices = allowed_tokens(matcher)
        assert choices, "there is always a way on"
        stops = [token_id for token_id in choices if token_id in vocabulary.eos_token_ids]
        assert bool(stops) == matcher.is_complete
        token_id = rng.choice(choices)
        matcher.accept_token(token_id)
        if token_id not in stops:
            data = vocabulary.token_bytes(token_id)
            assert data is not None, "special tokens never appear inside a constraint"
            written += data
    assert matcher.is_complete
    return written


def budgets(grammar: Grammar) -> list[int]:
    """The budgets at which the guarantee is tested."""
    least = grammar.min_tokens
    return [least, least + 1, least + 5, 2 * least]
