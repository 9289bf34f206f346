"""Look-ups against a search from the end, token by token; guesses that are tried leave no trace."""

from __future__ import annotations

from hypothesis import given, strategies as st

from runtime.lookup import LONGEST, Lookup

tokens = st.lists(st.sampled_from([0, 1, 2, 256, 65536, 1 << 24]), max_size=40)
"""Their bytes are alike: a search of bytes finds places between tokens, too."""


def naive(text: list[int]) -> tuple[int, int] | None:
    for width in range(min(LONGEST, len(text) - 1), 0, -1):
        for start in range(len(text) - width - 1, -1, -1):
            if text[start : start + width] == text[-width:]:
                return text[start + width], width
    return None


@given(tokens)
def test_a_guess_is_what_followed_the_last_place_with_the_longest_context(text: list[int]) -> None:
    assert Lookup(text).next() == naive(text)


@given(tokens, tokens)
def test_guesses_go_on_where_the_first_was_found(text: list[int], more: list[int]) -> None:
    """And once they are cut off again it is as if they had not been."""
    lookup = Lookup(text)
    found = lookup.next()
    while found is not None and len(lookup) < len(text) + 20:
        token, width = found
        assert token in text
        assert width > len(lookup) - len(text), "all that was guessed stood there, too"
        lookup.push(token)
        found = lookup.next()
    lookup.cut(len(text))
    lookup.extend(more)
    assert len(lookup) == len(text + more)
    assert lookup.next() == naive(text + more)


@given(tokens, st.integers(0, 2))
def test_a_token_from_elsewhere_is_a_token_of_the_text(text: list[int], token: int) -> None:
    lookup = Lookup(text)
    lookup.next()
    lookup.push(token)
    found, expected = lookup.next(), naive([*text, token])
    if found != expected:  # it was the one that followed, which goes on from there
        assert found is not None
        assert naive(text) == (token, found[1] - 1)
