"""Small constraints as tables on the device: masks and steps of many rows without the host.

Owns the tables of all constraints, one behind the other, and the two look-ups. A row's place in its
constraint is one number, a state of the whole; where it is kept is the caller's business. What a
table is, and which constraints have one, is that of `grammars.token_table`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from grammars import TokenTable
from grammars.token_table import START


class TokenTables:
    """The tables of constraints over one vocabulary.

    Tables are told apart by identity and stay for good. `states` below are int64 [num_rows], on the
    device; what is asked of one row depends on no other.
    """

    def __init__(self, tables: Sequence[TokenTable], device: torch.device | str = "cpu") -> None:
        assert tables, "there is a table at least"
        vocabulary = tables[0].vocabulary
        assert all(table.vocabulary is vocabulary for table in tables), "one vocabulary for all"
        num_states = [len(table.min_tokens) for table in tables]
        first_states = np.concatenate([[0], np.cumsum(num_states)[:-1]])
        self._starts = {id(t): int(s) + START for t, s in zip(tables, first_states, strict=True)}
        self._kept = list(tables)  # so that no other table gets the identity of one of them
        # Each state's row of `next_state`, all rows behind each other: the tables differ in width.
        widths = [table.next_state.shape[1] for table in tables]
        row_begins = np.concatenate([[0], np.cumsum(np.repeat(widths, num_states))[:-1]])
        following = [
            (table.next_state.astype(np.int64) + first).reshape(-1)
            for table, first in zip(tables, first_states, strict=True)
        ]
        is_stop = np.zeros(vocabulary.size, dtype=np.bool_)
        is_stop[list(vocabulary.eos_token_ids)] = True

        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        self._next_state = put(np.concatenate(following))
        self._row_begins = put(row_begins)
        self._table_of = put(np.repeat(np.arange(len(tables)), num_states))
        self._token_class = put(np.stack([t.token_class for t in tables]).astype(np.int64))
        self._min_tokens = put(np.concatenate([t.min_tokens for t in tables]).astype(np.int64))
        self._is_stop = put(is_stop)

    def start(self, table: TokenTable) -> int:
        """The state before the table's first token."""
        return self._starts[id(table)]

    def allowed(self, states: Tensor, remaining: Tensor) -> Tensor:
        """Which tokens may come next when `remaining` (int64 [num_rows]) more may be taken: bool
        [num_rows, vocab_size].
        """
        classes = self._token_class[self._table_of[states]]
        following = self._next_state[self._row_begins[states][:, None] + classes]
        affordable = self._min_tokens[following] < remaining[:, None]
        return affordable | (self.is_complete(states)[:, None] & self._is_stop)

    def advance(self, states: Tensor, token_ids: Tensor) -> Tensor:
        """The states after a token each (int64 [num_rows]): a dead one where it is not allowed, or
        is a stop token.
        """
        classes = self._token_class[self._table_of[states], token_ids]
        return self._next_state[self._row_begins[states] + classes]

    def is_complete(self, states: Tensor) -> Tensor:
        """Whether each text so far satisfies its constraint: bool [num_rows]."""
        return self._min_tokens[states] == 0
