"""What the sizes follow from, against what goes through transformers' layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from runtime.model.load import load_model
from tests.runtime.model.conftest import WriteModel
from tests.runtime.model.tiny_models import FAMILIES, random_model

NUM_TOKENS = 8


@pytest.mark.parametrize("family", FAMILIES)
def test_no_part_of_a_layer_writes_more_columns_than_the_widest_tensor_has(
    family: str, write_model: WriteModel
) -> None:
    """Gate and up are two of them here, and one in the lean decoder; what experts write inside is
    not seen.
    """
    found = []

    def note(_module: nn.Module, _args: Any, out: Any) -> None:
        if isinstance(out, Tensor):
            found.append(out.numel() // NUM_TOKENS)

    network = random_model(FAMILIES[family])
    for module in network.get_decoder().modules():
        module.register_forward_hook(note)
    with torch.inference_mode():
        network(torch.arange(NUM_TOKENS)[None], use_cache=False)
    widest = load_model(write_model(FAMILIES[family])).shape.widest
    num_experts = getattr(FAMILIES[family], "num_experts_per_tok", 1)
    assert max(found) <= widest <= 3 * max(found) * num_experts
