"""A tokenizer's tokens as bytes, and their trie. Owns the arrays that every mask walks.

It must not know where the bytes come from (the runtime reads a tokenizer's own tables) nor what a
grammar is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grammars.errors import GrammarError

BITS_PER_WORD = 32

Int32 = NDArray[np.int32]


class Vocabulary:
    """The tokens of a tokenizer: `tokens[i]` is what token i writes.

    None stands for a special or added token, which is never allowed inside a constraint; so is a
    token of no bytes. `eos_token_ids` are the stop tokens: allowed exactly where the text is
    complete.

    The trie's nodes are numbered level by level from the root, 0, so a node's children are
    contiguous: `first_child[n] .. first_child[n] + num_children[n]`. `edge_byte[n]` is the byte
    that leads to n; `token_node[t]` is the node where token t ends (`num_nodes` for what is never
    allowed).
    """

    def __init__(self, tokens: Sequence[bytes | None], *, eos_token_ids: Collection[int]) -> None:
        self.size = len(tokens)
        self.eos_token_ids = tuple(sorted(set(eos_token_ids)))
        for token_id in self.eos_token_ids:
            if not 0 <= token_id < self.size:
                raise GrammarError(
                    f"eos_token_ids has {token_id!r}, but the vocabulary has the tokens 0 to "
                    f"{self.size - 1}; give ids within it"
                )
        stops = set(self.eos_token_ids)
        self._tokens = tuple(
            token if token and index not in stops else None for index, token in enumerate(tokens)
        )
        written = [token for token in self._tokens if token]
        if not written:
            raise GrammarError("the vocabulary has no token that writes bytes; give at least one")
        self.longest = max(map(len, written))
        """The most bytes that one token writes."""
        self.alphabet = _byte_mask(set().union(*written))
        """The bytes (bit b set for byte b) that occur in a token: no others can be written."""
        self.is_complete = self.alphabet == _byte_mask({t[0] for t in written if len(t) == 1})
        """Whether each of those bytes has a token of its own, so what bytes can write, tokens
        can.
        """
        self._build()

    @property
    def num_words(self) -> int:
        """The int32 words of a bitmask row: bit i % 32 of word i // 32 is token i."""
        return -(-self.size // BITS_PER_WORD)

    def token_bytes(self, token_id: int) -> bytes | None:
        """What the token writes; None for one that is never allowed inside a constraint."""
        return self._tokens[token_id]

    def _build(self) -> None:
        """The trie, one level at a time: sorted tokens with a common prefix are neighbours."""
        ids = [index for index, token in enumerate(self._tokens) if token]
        ids.sort(key=lambda index: self._tokens[index] or b"")
        texts = [self._tokens[index] or b"" for index in ids]
        lengths = np.array([len(text) for text in texts])
        starts = np.cumsum(lengths) - lengths
        data = np.frombuffer(b"".join(texts), dtype=np.uint8)
        order = np.array(ids)

        token_node = np.zeros(self.size, dtype=np.int32)
        edges, parents = [np.zeros(1, dtype=np.uint8)], [np.zeros(1, dtype=np.int32)]
        node_of = np.zeros(len(ids), dtype=np.int32)  # where each token stands on this level
        alive = np.arange(len(ids))
        count = 1
        for depth in range(self.longest):
            alive = alive[lengths[alive] > depth]
            bytes_here, above = data[starts[alive] + depth], node_of[alive]
            fresh = np.ones(len(alive), dtype=bool)
            fresh[1:] = (bytes_here[1:] != bytes_here[:-1]) | (above[1:] != above[:-1])
            node_of[alive] = count - 1 + np.cumsum(fresh)
            edges.append(bytes_here[fresh])
            parents.append(above[fresh])
            count += int(fresh.sum())
            ends = alive[lengths[alive] == depth + 1]
            token_node[order[ends]] = node_of[ends]

        self.num_nodes = count
        token_node[[index for index, token in enumerate(self._tokens) if not token]] = count
        self.token_node: Int32 = token_node
        self.edge_byte: NDArray[np.uint8] = np.concatenate(edges)
        self.parent: Int32 = np.concatenate(parents)
        self.num_children: Int32 = np.bincount(self.parent[1:], minlength=count).astype(np.int32)
        first = np.cumsum(self.num_children) - self.num_children + 1
        self.first_child: Int32 = first.astype(np.int32)

    @cached_property
    def child(self) -> dict[int, int]:
        """(node * 256 + byte) -> child, for walks in Python."""
        keys = self.parent[1:].astype(np.int64) * 256 + self.edge_byte[1:]
        return dict(zip(keys.tolist(), range(1, self.num_nodes), strict=True))

    @cached_property
    def token_at(self) -> list[int]:
        """The (lowest) token that ends at each node, or -1."""
        found = np.full(self.num_nodes + 1, -1, dtype=np.int64)
        found[self.token_node[::-1]] = np.arange(self.size)[::-1]
        return found[:-1].tolist()  # type: ignore[no-any-return]

    @cached_property
    def single_bytes(self) -> int:
        """The bytes that have a token of their own."""
        return _byte_mask({t[0] for t in self._tokens if t and len(t) == 1})

    def pack(self, token_ids: NDArray[np.integer] | Sequence[int]) -> Int32:
        """The bitmask row in which exactly these tokens are set. # [num_words]"""
        allowed = np.zeros(self.num_words * BITS_PER_WORD, dtype=bool)
        allowed[np.asarray(token_ids, dtype=np.int64)] = True
        return np.packbits(allowed, bitorder="little").view(np.int32)


def _byte_mask(members: set[int]) -> int:
    mask = 0
    for byte in members:
        mask |= 1 << byte
    return mask
