"""The runtime's options: frozen, checked once, with the rules by which sizes are chosen.

Owns names, defaults and rules. Knows nothing of how an option is carried out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from runtime.cache.eviction import EVICTIONS
from runtime.policies import POLICIES
from runtime.sizes import cpu_kv_bytes
from sgdsl.chat import ChatTemplate
from sgdsl.chat_families import get_chat_template
from sgdsl.errors import UsageError

OPTIONAL = (
    *("max_running", "token_budget", "kv_bytes", "host_kv_bytes", "max_in_flight", "context_len"),
    *("max_waiting", "max_waiting_tokens"),
)
"""Counts that may be None."""

MAX_RUNNING = 64
"""By rule: what the measurements in docs/runtime.md were made with."""

MAX_RUNNING_ON_GPU, MIN_TOKEN_BUDGET_ON_GPU = 256, 8192
"""By rule; not measured."""

TOKENS_PER_ROW = 128
"""Of the pool, by rule: more rows than that would wait for pages instead of for their turn."""

MIN_TOKEN_BUDGET, TOKENS_PER_STEP_AND_ROW = 512, 8
"""By rule: most of a step can be prompts while every row decodes."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the rules and the options come to."""

    max_running: int
    token_budget: int
    max_in_flight: int


DECODERS = ("auto", "general")
SPECULATION = ("auto", "on", "off")
DTYPES = ("auto", "float32", "bfloat16", "int8")
KV_DTYPES = ("auto", "float32", "bfloat16", "fp8")
DEVICE = re.compile(r"auto|cpu|cuda(:(0|[1-9]\d?))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """page_size: tokens a KV page holds. max_running: sequences in a step, at most. token_budget:
    tokens in a step, at most (longer prompts are computed in chunks). kv_bytes: memory of the KV
    pool. host_kv_bytes: host memory for pages that had to leave the pool; None: none, since a CPU's
    pool is host memory already. prefix_cache: share computed prefixes. eviction: which of those
    that nobody uses are given up first, one of `EVICTIONS`. prefix_file: where the next process
    finds them, or None. max_in_flight: runs that it pays to
    submit at once. What is None of these follows from the rules: `default_kv_bytes`,
    `sizes`. context_len: tokens of a prompt and its output together; None: what the model was made
    for. chat_template: one to use instead of the model's own, or the name of one. share_outputs:
    greedy generations that are equal are computed once, and remembered until `flush_cache`. policy:
    in which order waiting sequences are admitted, one of `POLICIES`. max_waiting,
    max_waiting_tokens: sequences that wait, and their tokens; a run that is submitted when there
    are so many already is refused. None: there is no limit. device: "cpu", "cuda" or
    "cuda:1" and so on; "auto" is a GPU where there is one. dtype: of the weights; "auto" is float32
    on the CPU, bfloat16 on a GPU. kv_dtype: of keys and values; "auto" is as dtype's.
    tensor_parallel: processes that compute the model together, each with a part of its weights.
    decoder: "auto" for the lean decoder where it knows the family, "general" for
    transformers' own code. batch_invariant: every bit of a row is the same in every batch.
    speculation: whether tokens are guessed and tried along with those that
    are known: "auto" where that pays, "on" wherever there is a guess, "off" never.
    """

    page_size: int = 16
    max_running: int | None = None
    token_budget: int | None = None
    kv_bytes: int | None = None
    host_kv_bytes: int | None = None
    prefix_cache: bool = True
    eviction: str = "lfu"
    prefix_file: str | Path | None = None
    max_in_flight: int | None = None
    context_len: int | None = None
    chat_template: ChatTemplate | str | None = None
    share_outputs: bool = True
    policy: str = "lpm"
    max_waiting: int | None = None
    max_waiting_tokens: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    kv_dtype: str = "auto"
    tensor_parallel: int = 1
    decoder: str = "auto"
    batch_invariant: bool = False
    speculation: str = "auto"

    def __post_init__(self) -> None:
        _check_count("page_size", self.page_size)
        _check_count("tensor_parallel", self.tensor_parallel)
        for name in OPTIONAL:
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), otherwise=", or None")
        for name in ("prefix_cache", "share_outputs", "batch_invariant"):
            if type(getattr(self, name)) is not bool:
                raise UsageError(f"{name}={getattr(self, name)!r}: it must be True or False")
        _check_prefix_file(self.prefix_file, reuse=self.prefix_cache)
        _check_device(self.device)
        _check_choice("dtype", self.dtype, DTYPES)
        _check_choice("kv_dtype", self.kv_dtype, KV_DTYPES)
        _check_choice("decoder", self.decoder, DECODERS)
        _check_choice("eviction", self.eviction, tuple(EVICTIONS))
        _check_choice("speculation", self.speculation, SPECULATION)
        if isinstance(self.chat_template, str):
            get_chat_template(self.chat_template)  # refuses a name that there is not
        elif not isinstance(self.chat_template, ChatTemplate | None):
            raise UsageError(
                f"chat_template={self.chat_template!r}: it must be a ChatTemplate, the name of "
                "one, or None"
            )
        if self.policy not in list(POLICIES):
            raise UsageError(f"policy={self.policy!r}: it must be one of {', '.join(POLICIES)}")
        if self.token_budget is not None and self.token_budget < (self.max_running or 0):
            raise UsageError(
                f"token_budget={self.token_budget} is less than max_running={self.max_running}: "
                "a step must have a token for every running sequence; raise one or lower the other"
            )

    def sizes(self, pool_tokens: int, *, on_gpu: bool = False) -> Sizes:
        """For a pool of so many tokens. In flight is twice what runs: while one half is computed
        the other is being prepared; but no more than may wait.
        """
        most = MAX_RUNNING_ON_GPU if on_gpu else MAX_RUNNING
        least = MIN_TOKEN_BUDGET_ON_GPU if on_gpu else MIN_TOKEN_BUDGET
        max_running = self.max_running or max(1, min(most, pool_tokens // TOKENS_PER_ROW))
        if self.token_budget is not None:
            max_running = min(max_running, self.token_budget)
        budget = max(least, TOKENS_PER_STEP_AND_ROW * max_running)
        in_flight = min(2 * max_running, self.max_waiting or 2 * max_running)
        return Sizes(max_running, self.token_budget or budget, self.max_in_flight or in_flight)

    @property
    def template(self) -> ChatTemplate | None:
        """The template that is asked for; None: the model's own."""
        given = self.chat_template
        return get_chat_template(given) if isinstance(given, str) else given


def _check_count(name: str, value: object, *, otherwise: str = "") -> None:
    # To Python True is the integer 1; whoever writes it here means something else.
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name}={value!r}: it must be a whole number, at least 1{otherwise}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name}={value!r}: it must be one of {', '.join(map(repr, choices))}")


def _check_prefix_file(value: object, *, reuse: bool) -> None:
    if value is None:
        return
    if not isinstance(value, str | Path) or not Path(value).name or "\0" in str(value):
        raise UsageError(f"prefix_file={value!r}: it must be the path of a file, or None")
    if not reuse:
        raise UsageError(
            f"prefix_file={str(value)!r} keeps cached prefixes, and prefix_cache=False caches none;"
            " leave one of them away"
        )


def _check_device(value: object) -> None:
    if not isinstance(value, str) or not DEVICE.fullmatch(value):
        raise UsageError(
            f"device={value!r}: it must be 'auto', 'cpu', 'cuda', or 'cuda:' and the number of a "
            "GPU"
        )


def config_from(options: Mapping[str, Any]) -> RuntimeConfig:
    """The config that a caller's keywords ask for."""
    known = [field.name for field in fields(RuntimeConfig)]
    for name in options:
        if name not in known:
            raise UsageError(
                f"{name!r} is not an option of the runtime; its options are {', '.join(known)}"
            )
    return RuntimeConfig(**options)


def default_kv_bytes() -> int:
    """By the rule for CPUs, of the memory that is free now."""
    return cpu_kv_bytes(available_bytes())


def available_bytes() -> int:
    """Memory that can be had without swapping; where the system does not tell, half of all."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def num_pages(
    kv_bytes: int, *, bytes_per_token: int, page_size: int, name: str = "kv_bytes"
) -> int:
    """Whole pages that fit into `kv_bytes`: at least one, or UsageError."""
    page_bytes = bytes_per_token * page_size
    if kv_bytes < page_bytes:
        raise UsageError(
            f"{name}={kv_bytes} is less than one page: page_size={page_size} tokens of "
            f"{bytes_per_token:,} bytes take {page_bytes:,} bytes; give at least that many, or a "
            "smaller page_size"
        )
    return kv_bytes // page_bytes


def unallocatable(kv_bytes: int, *, name: str = "kv_bytes") -> UsageError:
    """What to say when the system does not give so much memory for KV."""
    return UsageError(
        f"{name}={kv_bytes} is more memory than can be had for KV: {available_bytes():,} bytes are "
        f"free now; give a smaller {name}, or None for the default"
    )
