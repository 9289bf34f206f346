"""The syntax of grammars: text to a tree. Owns the notation, a part of Lark's.

    start: sum                          // rules in lower case; the text begins with `start`
    sum: product (("+" | "-") product)*
    product: NUMBER | NAME "(" [sum ("," sum)*] ")" | "(" sum ")"
    NUMBER: /[0-9]+/ ("." DIGIT~1..9)?  # terminals in upper case
    NAME: "a".."z"~1..8
    DIGIT: /[0-9]/
    %ignore / ?/                        // may stand between terminals, once

A definition ends with its line, unless the next one begins with `|` or a bracket is open. `?rule`,
`!rule` and `-> alias` shape Lark's trees, not the language: they are read and mean nothing here.
What would change the language and is not enforced is refused with its place: `%import`, `%declare`,
`%override`, `%extend`, priorities, templates.

There is no lexer: terminals are not longest matches and have no priority; whatever the rules can
derive is in the language. It must not know of expressions.
Source: https://lark-parser.readthedocs.io/en/stable/grammar.html
"""

from __future__ import annotations

from functools import lru_cache

from grammars.cfg_checks import check
from grammars.cfg_scanner import Token, malformed, tokens, unsupported
from grammars.cfg_tree import (
    Definition,
    GrammarTree,
    Ignored,
    Items,
    Node,
    Options,
    Symbol,
    Text,
    Times,
    is_terminal,
)
from grammars.errors import GrammarError, UnsupportedError
from grammars.regex_tree import Chars, Seq, Tree

MAX_NESTING = 30
"""Brackets inside brackets of one definition; every level costs Python stack when it is derived."""

_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_REFUSED = ("%import", "%declare", "%override", "%extend")
_CLOSING = {"(": ")", "[": "]"}


@lru_cache(maxsize=64)
def parse(text: str) -> GrammarTree:
    """The tree of a grammar; raises GrammarError or UnsupportedError with the offset in
    `position`.
    """
    return _Parser(text).parse()


class _Parser:
    """A recursive-descent parser over the tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens(text))
        self.at = 0
        self.definitions: dict[str, Definition] = {}
        self.ignored: list[Ignored] = []
        self.open: list[Token] = []

    # -- tokens ------------------------------------------------------------------------------------

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def take(self, *texts: str) -> bool:
        """Whether one of these marks stands here; it is read then."""
        found = self.here.kind == "mark" and self.here.text in texts
        self.at += found
        return found

    def skip_newlines(self) -> None:
        while self.here.kind == "newline":
            self.at += 1

    def malformed(self, why: str, token: Token | None = None) -> GrammarError:
        return malformed(self.text, why, (token or self.here).offset)

    def unsupported(self, what: str, token: Token | None = None) -> UnsupportedError:
        return unsupported(self.text, what, (token or self.here).offset)

    def shown(self) -> str:
        return "the end" if self.here.kind == "end" else repr(self.here.text[:40])

    # -- definitions -------------------------------------------------------------------------------

    def parse(self) -> GrammarTree:
        self.skip_newlines()
        while self.here.kind != "end":
            if self.here.kind == "directive":
                self.directive()
            else:
                self.definition()
            if self.here.kind not in ("newline", "end"):
                raise self.malformed(
                    f"{self.shown()} where the line must end; quote texts, and close brackets"
                )
            self.skip_newlines()
        tree = GrammarTree(self.definitions, tuple(self.ignored))
        check(self.text, tree)
        return tree

    def definition(self) -> None:
        self.take("?", "!")
        name = self.here
        if name.kind != "name":
            raise self.malformed(
                f"{self.shown()} where a definition must begin; write `name: ...`, or begin the "
                "line with '|' to go on with the one before"
            )
        self.at += 1
        if self.here.text == "{":
            raise self.unsupported("a template, which is not supported yet; write it out")
        if self.here.text == ".":
            raise self.unsupported("a priority, which means nothing here; leave it out")
        if not self.take(":"):
            raise self.malformed(f"{self.shown()} where ':' must follow the name {name.text!r}")
        if name.text in self.definitions:
            raise self.malformed(
                f"{name.text!r} is defined again; join the definitions with '|'", name
            )
        self.definitions[name.text] = Definition(name.text, self.options(), name.offset)

    def directive(self) -> None:
        directive = self.here
        if directive.text in _REFUSED:
            raise self.unsupported(
                f"{directive.text!r}, which is not supported; define the terminal in the text"
            )
        if directive.text != "%ignore":
            raise self.malformed(f"{directive.text!r} is unknown; there is %ignore")
        self.at += 1
        node = self.atom()
        if not isinstance(node, Text) and not (isinstance(node, Symbol) and is_terminal(node.name)):
            raise self.malformed("%ignore takes one terminal, text or pattern", directive)
        self.ignored.append(Ignored(node, directive.offset))

    # -- bodies ------------------------------------------------------------------------------------

    def options(self) -> Node:
        """Alternatives up to a closing bracket or the definition's end."""
        options = [self.items()]
        while self.take_bar():
            options.append(self.items())
        return options[0] if len(options) == 1 else Options(tuple(options))

    def take_bar(self) -> bool:
        """Whether an alternative follows, here or on one of the next lines."""
        start = self.at
        self.skip_newlines()
        if self.take("|"):
            return True
        self.at = start
        return False

    def items(self) -> Node:
        items: list[Node] = []
        while True:
            if self.open:
                self.skip_newlines()
            token = self.here
            is_mark = token.kind == "mark" and token.text not in _CLOSING
            if is_mark or token.kind in ("newline", "end", "directive"):
                break
            if token.kind == "number":
                raise self.malformed(f"{self.shown()} where an item must stand; quote it as a text")
            items.append(self.item())
        if self.take("->"):
            if self.here.kind != "name":
                raise self.malformed(f"{self.shown()} where an alias must stand, as in `-> name`")
            self.at += 1
        return items[0] if len(items) == 1 else Items(tuple(items))

    def item(self) -> Node:
        atom = self.atom()
        token = self.here
        if self.take(*_QUANTIFIERS):
            atom = Times(atom, *_QUANTIFIERS[token.text])
        elif self.take("~"):
            atom = Times(atom, *self.counts())
        else:
            return atom
        if self.here.kind == "mark" and self.here.text in (*_QUANTIFIERS, "~"):
            raise self.malformed(f"{self.shown()} after a quantifier; put brackets between them")
        return atom

    def counts(self) -> tuple[int, int]:
        """What follows `~`: one count, or two."""
        first = self.here
        low = high = self.count()
        if self.take(".."):
            high = self.count()
        if high < low:
            raise self.malformed(f"counts in the wrong order ({low} > {high})", first)
        return low, high

    def count(self) -> int:
        token = self.here
        if token.kind != "number" or len(token.text) > 9:
            raise self.malformed(f"{self.shown()} where a count must stand, as in ~3 or ~1..3")
        self.at += 1
        return int(token.text)

    def atom(self) -> Node:
        """One item without its quantifier."""
        token = self.here
        if token.kind == "name":
            self.at += 1
            if self.here.text == "{" and self.here.kind == "mark":
                raise self.unsupported("a template, which is not supported yet; write it out")
            return Symbol(token.text, token.offset)
        if token.kind == "text":
            return Text(self.range())
        if not self.take(*_CLOSING):
            raise self.malformed(f"{self.shown()} where a name, a text or a pattern must stand")
        self.open.append(token)
        if len(self.open) > MAX_NESTING:
            raise self.unsupported(
                f"more than {MAX_NESTING} brackets in one another; give the inner ones a rule",
                token,
            )
        inner = self.options()
        self.skip_newlines()
        if not self.take(_CLOSING[token.text]):
            if self.here.kind == "end" or self.here.text in (")", "]", ":"):
                raise self.malformed(f"the {token.text!r} is not closed", token)
            raise self.malformed(
                f"{self.shown()} where an item or {_CLOSING[token.text]!r} must be"
            )
        self.open.pop()
        return Times(inner, 0, 1) if token.text == "[" else inner

    def range(self) -> Tree:
        """A text, or the range of characters from one to another."""
        first = self.here
        self.at += 1
        assert first.tree is not None, "a text has a tree"
        if not self.take(".."):
            return first.tree
        last = self.here
        low, high = _character(first), _character(last)
        if low is None or high is None:
            raise self.malformed('a range is of two single characters, as in "a".."z"', first)
        if high < low:
            raise self.malformed("a range in the wrong order", first)
        self.at += 1
        return Chars(((low, high),))


def _character(token: Token) -> int | None:
    """The character of a text of one; None for anything else."""
    if token.kind != "text" or not token.text.startswith('"') or token.text.endswith("i"):
        return None
    if not isinstance(token.tree, Seq) or len(token.tree.items) != 1:
        return None
    only = token.tree.items[0]
    assert isinstance(only, Chars), "a literal is made of characters"
    return only.ranges[0][0]
