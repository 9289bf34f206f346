"""What a mask of transformers says is what the layers are told."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    or_masks,
    packed_sequence_mask_function,
    sliding_window_causal_mask_function,
)

from runtime.model.probe import (
    FAULTS,
    LATER,
    NO_WINDOW,
    NOT_OURS,
    MaskFunction,
    probe_mask,
    window_of,
)

CONFIG = LlamaConfig(max_position_embeddings=40)
NO_PADDING = torch.zeros(1, dtype=torch.int64)


@pytest.mark.parametrize(
    ("mask_function", "expected"),
    [
        (causal_mask_function, NO_WINDOW),
        (sliding_window_causal_mask_function(1), 1.0),
        (sliding_window_causal_mask_function(8), 8.0),
        (sliding_window_causal_mask_function(39), 39.0),
        (sliding_window_causal_mask_function(40), NO_WINDOW),
        (sliding_window_causal_mask_function(1_000), NO_WINDOW),
        (bidirectional_mask_function, LATER),
        (or_masks(causal_mask_function, bidirectional_mask_function), LATER),
        (chunked_causal_mask_function(8, NO_PADDING), NOT_OURS),
        (chunked_causal_mask_function(20, NO_PADDING), NOT_OURS),
        (packed_sequence_mask_function(torch.zeros(1, 4)), NOT_OURS),
    ],
)
def test_a_mask_is_filled_with_the_window_that_it_leaves(
    mask_function: MaskFunction, expected: float
) -> None:
    mask = probe_mask(q_length=4, kv_length=4, mask_function=mask_function, config=CONFIG)
    assert mask.shape == (1, 1, 4, 4)
    faults = [FAULTS[expected]] if expected in FAULTS else []
    assert window_of(mask) == (int(expected) if expected > 0 else None, faults)
    for changed in (mask + 1, mask + torch.rand(4), mask / 2, -torch.inf * mask):
        assert window_of(changed)[1] == ["adds biases of its own to its scores"]
