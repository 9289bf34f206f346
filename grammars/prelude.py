"""Expressions that most grammars have: the insides of JSON strings. Owns what all share.

Every grammar has an algebra of its own, and all JSON grammars have the same strings in it. A
prelude is an algebra that is complete: whatever can be derived from its expressions is in it, too.
So algebras may share them without a lock, and with them what is kept by expression: derivatives,
rows of states, walks of the vocabulary.
"""

from __future__ import annotations

from functools import lru_cache

from grammars.algebra import Algebra
from grammars.charset import ANY, json_text
from grammars.derive import arms

MAX_COUNT = 40
"""Characters that a shared string may have at most: beyond what one token can write, where
counters end (see `clamp`)."""


@lru_cache(maxsize=8)
def prelude(alphabet: int) -> Algebra:
    """The expressions that grammars over an alphabet share."""
    algebra = Algebra(alphabet)
    char, quote = json_text(algebra, ANY), algebra.literal(b'"')
    for high in (None, *range(1, MAX_COUNT + 1)):
        algebra.sequence([quote, algebra.repeat(char, 0, high), quote])
    for text in (b"null", b"true", b"false"):
        algebra.literal(text)
    num_derived = 0
    while num_derived < len(algebra):
        nodes = list(algebra.known().values())
        num_derived = len(nodes)
        for node in nodes:
            arms(algebra, node)
    return algebra
