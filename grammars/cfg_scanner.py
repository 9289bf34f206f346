"""The tokens of a grammar's text. Owns the characters: names, literals, patterns, comments.

Every error says the line and the column (both from 1); its `position` is the offset (from 0).
It must not know how tokens make up rules (that is `cfg_parser`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from grammars import regex
from grammars.charset import fold
from grammars.errors import GrammarError, UnsupportedError
from grammars.json_values import is_text
from grammars.regex_tree import Alt, Chars, Loop, Seq, Tree

Kind = Literal["name", "text", "number", "mark", "directive", "newline", "end"]

_SKIPPED = re.compile(r"(?:[ \t\f\r]|//[^\n]*|#[^\n]*)+")
_NAME = re.compile(r"_*[a-z][a-z0-9_]*|_*[A-Z][A-Z0-9_]*")
_NUMBER = re.compile(r"[0-9]+")
_MARK = re.compile(r"->|\.\.|[|()\[\]?*+~:!{}.,]")
_DIRECTIVE = re.compile(r"%[a-z]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_PATTERN = re.compile(r"/((?:[^/\\\n]|\\[^\n])+)/([a-zA-Z]*)")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^xuU]))|(\\)", re.DOTALL
)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "\\": "\\", '"': '"', "'": "'"}
_SHORT["/"] = "/"

FLAGS = "isxma"
"""Flags of a pattern, as `re` has them (`u`, the default, is taken too)."""


class Token(NamedTuple):
    """A token: its kind, its text, where it stands, and what a "text" stands for."""

    kind: Kind
    text: str
    offset: int
    tree: Tree | None = None


def place(text: str, offset: int) -> str:
    """An offset as people count."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


def malformed(text: str, why: str, offset: int) -> GrammarError:
    """The error for what no grammar has; `why` says what is wrong and what to do."""
    return GrammarError(f"the grammar is malformed at {place(text, offset)}: {why}", offset)


def unsupported(text: str, what: str, offset: int) -> UnsupportedError:
    """The error for what other tools have; `what` says what it is and what to do."""
    return UnsupportedError(f"the grammar at {place(text, offset)} has {what}", offset)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a grammar; raises GrammarError or UnsupportedError where one is malformed."""
    offset = 0
    while offset < len(text):
        skipped = _SKIPPED.match(text, offset)
        if skipped:
            offset = skipped.end()
            continue
        token = _token(text, offset)
        yield token
        offset += len(token.text)
    yield Token("end", "", offset)


def _token(text: str, offset: int) -> Token:
    char = text[offset]
    if char == "\n":
        return Token("newline", char, offset)
    if char == '"':
        return _string(text, offset)
    if char == "/":
        return _pattern(text, offset)
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("name", _NAME),
        ("number", _NUMBER),
        ("mark", _MARK),
        ("directive", _DIRECTIVE),
    )
    for kind, pattern in kinds:
        found = pattern.match(text, offset)
        if found:
            _check_end(text, found)
            return Token(kind, found[0], offset)
    raise malformed(
        text, f'{char!r} begins nothing; quote it if it is a text, as in "{char}"', offset
    )


def _check_end(text: str, found: re.Match[str]) -> None:
    """Refuses a name that goes on in the other case, or a number that goes on as a name."""
    after = text[found.end() : found.end() + 1]
    if found[0][-1].isalnum() and (after.isalnum() or after == "_"):
        raise malformed(
            text,
            f"{found[0] + after!r} is no name; write rules in lower case and terminals in upper "
            "case, with the letters a to z, digits and underscores",
            found.start(),
        )


# -- literals --------------------------------------------------------------------------------------


def _string(text: str, offset: int) -> Token:
    found = _STRING.match(text, offset)
    if found is None:
        raise malformed(text, "a text that is not closed; end it with '\"' on its line", offset)
    content = _unescaped(text, found[0][1:-1], offset + 1)
    end = found.end()
    ignores_case = text.startswith("i", end)
    end += ignores_case
    if re.match(r"\w", text[end : end + 1]):
        raise malformed(text, "the only flag of a text is 'i'; put a space behind it", end)
    return Token("text", text[offset:end], offset, literal_tree(content, ignores_case=ignores_case))


def literal_tree(content: str, *, ignores_case: bool = False) -> Tree:
    """Exactly these characters, or in either case of each."""
    codes = [((ord(char), ord(char)),) for char in content]
    return Seq(tuple(Chars(fold(code) if ignores_case else code) for code in codes))


def _unescaped(text: str, content: str, offset: int) -> str:
    """The characters of a literal."""

    def character(found: re.Match[str]) -> str:
        digits = found[1] or found[2] or found[3]
        if digits and int(digits, 16) <= 0x10FFFF:
            return chr(int(digits, 16))
        if digits or found[4] not in _SHORT:
            raise malformed(
                text,
                f"the escape {found[0]!r} is unknown; there are \\n \\r \\t \\f \\v \\\" \\' \\/ "
                "\\\\ \\xHH \\uHHHH \\UHHHHHHHH",
                offset + found.start(),
            )
        return _SHORT[found[4]]

    plain = _ESCAPE.sub(character, content)
    if not is_text(plain):
        raise malformed(text, "a text with a lone surrogate, which is no character", offset - 1)
    return plain


# -- patterns --------------------------------------------------------------------------------------


def _pattern(text: str, offset: int) -> Token:
    found = _PATTERN.match(text, offset)
    if found is None:
        raise malformed(text, "a pattern that is not closed; end it with '/' on its line", offset)
    body, flags = found[1], found[2]
    for index, flag in enumerate(flags):
        if flag not in FLAGS + "u":
            raise malformed(
                text,
                f"the flag {flag!r} of a pattern is unknown; there are {', '.join(FLAGS)}",
                found.start(2) + index,
            )
    prefix = f"(?{''.join(dict.fromkeys(flags))})" if flags else ""
    try:
        tree = regex.parse(prefix + body)
    except GrammarError as error:
        column = error.position if isinstance(error.position, int) else 0
        at = found.start(1) + max(column - len(prefix), 0)
        raise type(error)(f"the grammar at {place(text, offset)}: {error}", at) from None
    if _looks_around(tree):
        raise unsupported(
            text,
            "a pattern with an anchor or a look-around: what stands around a terminal is the "
            "grammar's to say; rewrite it without",
            offset,
        )
    return Token("text", found[0], offset, tree)


def _looks_around(tree: Tree) -> bool:
    """Whether anything stands inside that is not simply characters, in whatever order."""
    if isinstance(tree, Seq):
        return any(_looks_around(item) for item in tree.items)
    if isinstance(tree, Alt):
        return any(_looks_around(option) for option in tree.options)
    return _looks_around(tree.body) if isinstance(tree, Loop) else not isinstance(tree, Chars)
