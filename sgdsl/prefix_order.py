"""In which order texts share the longest prefixes with their neighbours.

Owns that order. Pure: knows nothing of runs or backends.
"""

from __future__ import annotations

from collections.abc import Sequence

CHUNK = 64
"""Characters by which texts are compared: about a page of tokens, which is what a cache shares."""


def prefix_order(texts: Sequence[str]) -> list[int]:
    """The indices of `texts`, those with a common beginning together, at every depth of it.

    What comes first stays first: groups stand in the order of their first members, so texts that
    share nothing with each other, or all of them the same, stay as they are. This is a depth-first
    walk of the tree of their chunks (SGLang's order of a batch: Zheng et al., "SGLang: Efficient
    Execution of Structured Language Model Programs", 2024, section 3).
    """
    order: list[int] = []
    waiting = [(0, list(range(len(texts))))]  # a stack: groups that share that many chunks
    while waiting:
        depth, group = waiting.pop()
        if len(group) <= 1:
            order += group
            continue
        depth = _common(min(texts[i] for i in group), max(texts[i] for i in group), depth)
        start, end = depth * CHUNK, (depth + 1) * CHUNK
        parts: dict[tuple[str, int], list[int]] = {}
        for index in group:
            chunk = texts[index][start:end]
            # a text that ends here is alone: nothing of it is left to be shared
            parts.setdefault((chunk, -1 if len(chunk) == CHUNK else index), []).append(index)
        waiting += [(depth + 1, part) for part in reversed(parts.values())]
    return order


def _common(first: str, last: str, depth: int) -> int:
    """How many chunks all texts between these two share, at least `depth`."""
    while (chunk := first[depth * CHUNK : (depth + 1) * CHUNK]) and len(chunk) == CHUNK:
        if not last.startswith(chunk, depth * CHUNK):
            break
        depth += 1
    return depth
