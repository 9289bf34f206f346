"""Texts that every machine with Python has: its documentation, and the packages installed.

Owns how they are cut into passages. The same Python gives the same passages.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from pydoc_data.topics import topics

from examples.extract_packages import Document, read_documents

MIN_PASSAGE, MAX_PASSAGE = 300, 500
"""Characters: about 100 tokens."""


@cache
def passages() -> tuple[str, ...]:
    """Pieces of prose of the language reference, in the order of its topics."""
    found = (passage for name in sorted(topics) for passage in _cut(topics[name]))
    return tuple(dict.fromkeys(found))  # some topics share paragraphs


def _cut(text: str) -> Iterator[str]:
    gathered = ""
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        if not line[-1:].isalnum() and line[-1:] not in (".", ":"):  # headings, tables, grammar
            continue
        gathered = f"{gathered} {line}".strip()
        if len(gathered) > MAX_PASSAGE:
            gathered = gathered[:MAX_PASSAGE].rsplit(" ", 1)[0]
        if len(gathered) >= MIN_PASSAGE:
            yield gathered
            gathered = ""


def drawn_passages(count: int, seed: int) -> list[str]:
    """`count` different ones, as long as there are so many; then again from the start."""
    known = list(passages())
    random.Random(f"passages {seed}").shuffle(known)
    return [known[index % len(known)] for index in range(count)]


@cache
def documents() -> tuple[Document, ...]:
    """One for every package that is installed."""
    return tuple(read_documents())


def drawn_documents(count: int, seed: int, *, skip: int = 0) -> list[Document]:
    """By name, from the `skip`th on, turned by `seed`; when there are too few, from the start."""
    known = documents()[skip:] or documents()
    return [known[(index + seed) % len(known)] for index in range(count)]
