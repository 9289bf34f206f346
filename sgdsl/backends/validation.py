"""Whether a text that somebody else wrote satisfies a constraint.

Owns the check for backends that do not enforce constraints themselves. JSON may be laid out as its
writer likes: what counts is the value. Knows nothing of who wrote the text.
"""

from __future__ import annotations

import json
from functools import lru_cache

from grammars import Compiler, Constraint, Grammar, JsonSchema, TypeOf, Vocabulary
from grammars.json_values import parse_json
from grammars.schema import only_strings
from grammars.types import TypeTexts
from sgdsl.constraint_names import type_name
from sgdsl.graph import shorten


@lru_cache(maxsize=1)
def _compiler() -> Compiler:
    """For the vocabulary in which every byte is a token."""
    tokens = [bytes([byte]) for byte in range(256)]
    return Compiler(Vocabulary([*tokens, None], eos_token_ids=[256]), max_grammars=256)


def is_bare(constraint: Constraint) -> bool:
    """Whether it is a type whose values are all strings, which are written without quotes."""
    return isinstance(constraint, TypeOf | TypeTexts) and bool(
        only_strings(parse_json(constraint.text))
    )


@lru_cache(maxsize=256)
def lenient(constraint: Constraint) -> Constraint:
    """The same values; JSON with any white space and its members in any order."""
    if isinstance(constraint, JsonSchema):
        return JsonSchema(
            constraint.text,
            whitespace="flexible",
            max_whitespace=max(64, constraint.max_whitespace),
            property_order="any",
            extra_properties=constraint.extra_properties,
            formats=constraint.formats,
            resources=dict(constraint.resources),
        )
    if isinstance(constraint, TypeOf | TypeTexts):
        style = JsonSchema(True, whitespace="flexible", max_whitespace=64, property_order="any")
        return TypeTexts(constraint.text, style.style())
    return constraint


def _grammar(constraint: Constraint) -> Grammar:
    return _compiler().compile(lenient(constraint))


def violation(constraint: Constraint, text: str) -> str | None:
    """Why `text` does not satisfy `constraint`, as a clause; None if it does.

    Raises the errors of `grammars` for a constraint that cannot be compiled.
    """
    if _grammar(constraint).contains(text):
        return None
    shown = f"{shorten(repr(text), 200)} does not satisfy {describe(constraint)}"
    if isinstance(constraint, JsonSchema | TypeOf | TypeTexts) and not is_bare(constraint):
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"{shown}: it is no JSON ({error})"
    reached = _reach(constraint, text)
    if reached == len(text.encode()):
        return f"{shown}: it ends too early"
    ending = text.encode()[:reached].decode(errors="ignore")
    return f"{shown}: nothing that does begins with {shorten(repr(text[: len(ending) + 1]), 80)}"


def describe(constraint: Constraint) -> str:
    """It, in an error."""
    if isinstance(constraint, TypeOf):
        return f"the type {type_name(constraint.tp)}"
    return shorten(repr(constraint), 200)


def satisfying(constraint: Constraint, text: str, *, prefix: bool) -> str | None:
    """The part of `text` that satisfies `constraint`: all of it, or all but the white space around
    it; with `prefix` (what goes on behind the answer is no part of it) else its longest beginning.
    """
    grammar = _grammar(constraint)
    for candidate in dict.fromkeys((text, text.strip())):
        if grammar.contains(candidate):
            return candidate
    if not prefix:
        return None
    for candidate in dict.fromkeys((text, text.lstrip())):
        end = _longest(grammar, candidate.encode())
        if end:
            return candidate.encode()[:end].decode()
    return None


def shortest(constraint: Constraint) -> str:
    """A text that satisfies it, and is cheap to write."""
    grammar = _compiler().compile(constraint)
    _, _, plan = grammar.begin(b"")
    return bytes(token for token in plan.tokens() if token < 256).decode()


def _longest(grammar: Grammar, data: bytes) -> int:
    language, node, _ = grammar.begin(b"")
    longest = 0
    for index, byte in enumerate(data, start=1):
        stepped = language.after(node, bytes([byte]))
        if stepped is None:
            break
        node = stepped[0]
        if node.nullable:
            longest = index
    return longest


def _reach(constraint: Constraint, text: str) -> int:
    """How many first bytes of `text` some satisfying text begins with."""
    language, node, _ = _grammar(constraint).begin(b"")
    for index, byte in enumerate(text.encode()):
        stepped = language.after(node, bytes([byte]))
        if stepped is None:
            return index
        node = stepped[0]
    return len(text.encode())
