"""In which order a batch starts its rows, so that what they have in common is computed once.

Owns that order. Pure: it looks at the arguments only, never at what the program makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def row_order(rows: Sequence[Any], names: Sequence[str]) -> list[int]:
    """The indices of `rows` (dicts, or tuples of values for `names`), those with equal texts
    together: first by the argument of which most characters are repeated, and so on.

    Rows that share a document share its tokens' KV, if the program begins with it, and find them
    still cached when they follow each other. Groups stand in the order of their first rows, and
    rows in the order of theirs: where nothing is repeated, all stays as it is. (SGLang sorts
    requests by their shared prefixes: Zheng et al., "SGLang: Efficient Execution of Structured
    Language Model Programs", 2024, section 3.)
    """
    groups = [list(range(len(rows)))]
    for name in _repeated(rows, names):
        groups = [part for group in groups for part in _split(group, rows, names, name)]
    return [index for group in groups for index in group]


def _split(
    group: Sequence[int], rows: Sequence[Any], names: Sequence[str], name: str
) -> Iterable[list[int]]:
    """The parts of a group with equal texts."""
    parts: dict[str | None, list[int]] = {}
    for index in group:
        parts.setdefault(_text(rows[index], names, name), []).append(index)
    return parts.values()


def _repeated(rows: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The arguments with texts that come more than once, those that save most first."""
    saved = {name: _saved(rows, names, name) for name in names}
    return sorted((name for name in names if saved[name]), key=lambda name: -saved[name])


def _saved(rows: Sequence[Any], names: Sequence[str], name: str) -> int:
    """Characters of this argument's texts that some row before has had."""
    seen: set[str] = set()
    saved = 0
    for row in rows:
        text = _text(row, names, name)
        if text in seen:
            saved += len(text)
        elif text is not None:
            seen.add(text)
    return saved


def _text(row: Any, names: Sequence[str], name: str) -> str | None:
    """The argument, if it is a text; a row that is none of ours has none."""
    if isinstance(row, Mapping):
        value = row.get(name)
    elif isinstance(row, (tuple, list)):
        at = names.index(name)
        value = row[at] if at < len(row) else None
    else:
        value = None
    return value if type(value) is str else None
