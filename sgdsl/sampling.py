"""How a gen samples: what may be said of it, and what holds when nothing is said.

Owns the record that nodes, runs and drivers share, and its defaults. Knows nothing of graphs, nor
of what a backend does with it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. None means: inherit from the run, and in the end from `DEFAULT_SAMPLING`.

    `max_tokens` and `min_tokens` count sampled tokens; `top_k = -1` and `top_p = 1.0` mean off;
    `temperature = 0` is greedy. `healing`: a literal's last tokens may merge into the first sampled
    one; tokens that only spell the literal again do not count.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    stop_token_ids: tuple[int, ...] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    return_logprob: bool | None = None
    healing: bool | None = None

    def over(self, defaults: Sampling) -> Sampling:
        """This one where it says something, `defaults` where it is silent."""
        return _over(self, defaults)

    def __str__(self) -> str:
        said = ((name, getattr(self, name)) for name in _SAMPLING)
        return " ".join(f"{name}={value!r}" for name, value in said if value is not None)


_SAMPLING = tuple(field.name for field in fields(Sampling))


@lru_cache(maxsize=4096)
def _over(own: Sampling, defaults: Sampling) -> Sampling:
    """Ten thousand rows that pass the same `gen` share one."""
    said = {name: v for name in _SAMPLING if (v := getattr(own, name)) is not None}
    return replace(defaults, **said) if said else defaults


DEFAULT_SAMPLING = Sampling(
    max_tokens=128,
    min_tokens=0,
    stop=(),
    stop_token_ids=(),
    temperature=1.0,
    top_p=1.0,
    top_k=-1,
    min_p=0.0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    ignore_eos=False,
    return_logprob=False,
    healing=True,
)
"""`seed` stays None: the run draws one, and says which (`Run.seed`)."""
