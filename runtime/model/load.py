"""From a model's folder to what the engine runs: network and tokenizer, through transformers.

Owns the reading of weights, tokenizer files and generation settings, and what is said when they
cannot be used. Where the folder comes from, and whether its files are whole, is the business of
`runtime.models`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
)
from transformers.utils import logging

from runtime.device.choice import CPU
from runtime.errors import UnsupportedModelError
from runtime.model.base import Model
from runtime.model.chat_template import chat_template_of
from runtime.model.decoder import FAMILIES, LeanModel, is_lean
from runtime.model.general import GeneralModel
from runtime.model.linear import has_int8
from runtime.model.shard import Ranks, check_shardable, shard
from runtime.models.errors import BrokenModelError
from runtime.threads import num_threads
from runtime.tokenizer import Tokenizer
from sgdsl.errors import SgdslError, UsageError

TORCH_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
}

_NAMES_SHOWN = 3
_REASON_CHARACTERS = 200


def load_model(
    folder: Path,
    *,
    dtype: str = "float32",
    decoder: str = "auto",
    device: torch.device = CPU,
    ranks: Ranks | None = None,
) -> Model:
    """The folder's causal language model, over our attention: the lean decoder where it computes
    the same, and transformers' own code otherwise, or where `decoder` is "general". dtype: of the
    weights, a key of `TORCH_DTYPES`; device: where they lie and are computed with; ranks: the
    processes that share the model.

    Raises BrokenModelError when transformers cannot load it, or had to make weights up,
    UnsupportedModelError when it asks for an attention that is not ours, and UsageError for an int8
    that cannot be had.
    """
    config = _load_config(folder)
    if config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"The model in the folder {str(folder)!r} has the model_type {config.model_type!r}, an "
            "encoder with a decoder, which the engine does not run; choose a model of another"
            " family"
        )
    lean = decoder == "auto" and is_lean(config)
    if dtype == "int8" and not (lean and has_int8()):
        raise UsageError(
            f"dtype='int8' is for x86 processors and the families that the lean decoder runs"
            f" ({', '.join(FAMILIES)}), not for a model of the type {config.model_type!r} here; use"
            " 'float32' or 'bfloat16'"
        )
    chosen = TORCH_DTYPES[dtype]
    torch.set_num_threads(num_threads(torch.get_num_threads()))
    with _explained(folder, "the weights"), _quiet():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32 if lean else chosen,
            attn_implementation="eager",  # until it has been probed
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are in the report, by name
        )
        model, report = loaded  # its signature does not tell of the pair
        _refuse_misfits(folder, report)
    model.requires_grad_(False)
    if lean:
        if ranks is not None:
            shard(model.get_decoder(), model.config, ranks)
        model.to(device)
        return LeanModel(model, dtype=chosen, add_up=None if ranks is None else ranks.add_up)
    network = GeneralModel(model)  # probed as it is: whole, on the CPU
    if ranks is not None:
        network.split(ranks)
    network.to(device)
    return network


def check_splittable(folder: Path, num_ranks: int) -> None:
    """Raises UsageError where the folder's model cannot be split over so many processes."""
    check_shardable(_load_config(folder), num_ranks)


def load_tokenizer(folder: Path, *, vocab_size: int) -> Tokenizer:
    """The folder's tokenizer, with every id that ends a text: its own and the model's.

    Raises BrokenModelError when transformers cannot load it.
    """
    with _explained(folder, "the tokenizer"):
        backend = AutoTokenizer.from_pretrained(folder)
        stops = [backend.eos_token_id]
    if (folder / "generation_config.json").exists():
        with _explained(folder, "generation_config.json"):
            configured = GenerationConfig.from_pretrained(folder).eos_token_id
        stops += configured if isinstance(configured, list) else [configured]
    for stop in stops:
        if stop is not None and (type(stop) is not int or not 0 <= stop < vocab_size):
            raise BrokenModelError(
                f"The model in the folder {str(folder)!r} ends its texts with the token {stop!r}"
                f" (eos_token_id), and its tokens are 0 to {vocab_size - 1}: copy the folder anew"
                " from where the model comes from, or correct its generation_config.json."
            )
    with _explained(folder, "the tokenizer"):
        return Tokenizer(
            backend,
            vocab_size=vocab_size,
            eos_token_ids=set(stops) - {None},
            chat_template=chat_template_of(backend),
        )


def check_loadable(folder: Path) -> None:
    """Raises BrokenModelError for what can be told without the weights: an architecture that is not
    known, a tokenizer that cannot be loaded.
    """
    load_tokenizer_alone(folder)


def load_tokenizer_alone(folder: Path) -> Tokenizer:
    """The folder's tokenizer, where no network is needed. Raises BrokenModelError."""
    config = _load_config(folder)
    with _explained(folder, "config.json"):
        vocab_size = int(config.get_text_config().vocab_size)
    return load_tokenizer(folder, vocab_size=vocab_size)


def _load_config(folder: Path) -> Any:
    with _explained(folder, "config.json"):
        fields, _ = PreTrainedConfig.get_config_dict(folder)
        if fields.get("model_type") not in CONFIG_MAPPING:
            raise BrokenModelError(
                f"The model in the folder {str(folder)!r} has the model_type"
                f" {fields.get('model_type')!r}, which transformers {transformers.__version__} does"
                " not know: update transformers, or give another model."
            )
        config = AutoConfig.from_pretrained(folder)
        if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
            raise BrokenModelError(
                f"The model in the folder {str(folder)!r} has the model_type"
                f" {config.model_type!r}, which is no causal language model in transformers: give a"
                " model that continues texts."
            )
        return config


def _refuse_misfits(folder: Path, report: dict[str, Any]) -> None:
    """transformers draws missing weights at random and drops those it has no place for.

    What is harmless it has taken out of the report: tied weights, buffers of old versions.
    """
    faults = []
    if missing := report["missing_keys"]:
        faults.append(f"{_some(missing)} missing")
    if mismatched := report["mismatched_keys"]:
        shapes = [
            f"{name} ({list(stored)} instead of {list(asked)})"
            for name, stored, asked in mismatched
        ]
        faults.append(f"{_some(shapes)} of another shape")
    if unexpected := report["unexpected_keys"]:
        faults.append(f"{_some(unexpected)} too many")
    if faults:
        raise BrokenModelError(
            f"The weights in the model folder {str(folder)!r} do not fit its config.json:"
            f" {'; '.join(faults)}; copy the folder anew from where the model comes from, or give"
            " another model."
        )


def _some(names: Iterable[str]) -> str:
    """The first few names, and how many there are beyond them."""
    found = sorted(names)
    more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
    return f"{', '.join(found[:_NAMES_SHOWN])}{more} {'is' if len(found) == 1 else 'are'}"


@contextmanager
def _explained(folder: Path, part: str) -> Iterator[None]:
    """One sentence of ours for whatever the libraries make of a folder that they cannot load.

    They raise every kind of exception for that, bare `Exception` included. Too little memory says
    nothing about the folder and passes.
    """
    try:
        yield
    except (SgdslError, MemoryError):
        raise
    except Exception as error:
        # Their advice is for programmers: the first sentence says what is wrong.
        reason = " ".join(str(error).split()).split(". ")[0].rstrip(".:")[:_REASON_CHARACTERS]
        raise BrokenModelError(
            f"The model in the folder {str(folder)!r} cannot be loaded, transformers fails on"
            f" {part} with {type(error).__name__} ({reason or 'no reason given'}): copy the folder"
            " anew from where the model comes from, or give another model."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars and no reports: weights on a local disk load in about a second, and what is wrong
    with them is our error to tell.
    """
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
