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

    `max_tokens` and `min_tokens` count sampled tokens; `max_tokens = 0` draws nothing. `n`: so many
    completions, which the machine asks for one by one. `stop_regex`: patterns that the parser of
    `grammars` has read. `top_k = -1` and `top_p = 1.0` mean off; `temperature = 0` is greedy.
    `logprob_start_len`: from which token of the prompt on its log-probabilities are told, -1 for
    none of them. `healing`: a literal's last tokens may merge into the first sampled one; tokens
    that only spell the literal again do not count.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    n: int | None = None
    stop: tuple[str, ...] | None = None
    stop_token_ids: tuple[int, ...] | None = None
    stop_regex: tuple[str, ...] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    return_logprob: bool | None = None
    logprob_start_len: int | None = None
    top_logprobs_num: int | None = None
    return_text_in_logprobs: bool | None = None
    healing: bool | None = None

    def over(self, defaults: Sampling) -> Sampling:
        """This one where it says something, `defaults` where it is silent."""
        return _over(self, defaults)

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities are to be told, of the output or of the prompt."""
        return bool(self.return_logprob or self.top_logprobs_num) or self.prompt_from is not None

    @property
    def prompt_from(self) -> int | None:
        """The prompt's token from which on its log-probabilities are wanted; None: no token. A gen
        that draws nothing is asked for the sake of its prompt, unless it says otherwise.
        """
        start = self.logprob_start_len
        if start is None:
            asked = self.max_tokens == 0 and bool(self.return_logprob or self.top_logprobs_num)
            return 0 if asked else None
        return None if start < 0 else start

    def __str__(self) -> str:
        said = ((name, getattr(self, name)) for name in _NAMES)
        return " ".join(f"{name}={value!r}" for name, value in said if value is not None)


_NAMES = tuple(field.name for field in fields(Sampling))


@lru_cache(maxsize=4096)
def _over(own: Sampling, defaults: Sampling) -> Sampling:
    """Ten thousand rows that pass the same `gen` share one."""
    said = {name: v for name in _NAMES if (v := getattr(own, name)) is not None}
    return replace(defaults, **said) if said else defaults


DEFAULT_SAMPLING = Sampling(
    max_tokens=128,
    min_tokens=0,
    n=1,
    stop=(),
    stop_token_ids=(),
    stop_regex=(),
    temperature=1.0,
    top_p=1.0,
    top_k=-1,
    min_p=0.0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    ignore_eos=False,
    return_logprob=False,
    top_logprobs_num=0,
    return_text_in_logprobs=False,
    healing=True,
)
"""`seed` stays None: the run draws one, and says which (`Run.seed`). So does `logprob_start_len`:
what it means by default depends on `max_tokens`.
"""
