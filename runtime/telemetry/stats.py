"""What a step did and took. Written by the engine alone; metrics and displays only read it.

Owns the numbers and their names. Times are seconds, counts are totals since the start.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The prefix cache: tokens of prompts since the start, and pages now; `evicted_pages` since the
    start. `reusable_tokens`: what a cache without bounds had held.
    """

    prompt_tokens: int
    cached_tokens: int
    reusable_tokens: int
    num_pages: int
    cached_pages: int
    pinned_pages: int
    evicted_pages: int

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / max(1, self.prompt_tokens)

    @property
    def best_hit_rate(self) -> float:
        """What of these prompts any cache could have held."""
        return self.reusable_tokens / max(1, self.prompt_tokens)


@dataclass(slots=True)
class StepStats:
    num_steps: int = 0
    schedule_s: float = 0.0  # who gets what, and laying the batch out
    draft_s: float = 0.0  # guesses, and the masks behind them
    copy_s: float = 0.0  # pages that are copied
    forward_s: float = 0.0  # the model, without the LM head
    mask_s: float = 0.0  # constraints' bitmasks
    sample_s: float = 0.0  # LM head, draw, scores
    programs_s: float = 0.0  # tokens to text, stops, graphs, new runs
    computed_tokens: int = 0
    drafted_tokens: int = 0  # guesses among them
    verified_tokens: int = 0  # those of the guesses that came true
    max_running: int = 0

    @property
    def busy_s(self) -> float:
        """All time that the engine was at work."""
        return self.forward_s + self.sample_s + self.mask_s + self.copy_s + self.overhead_s

    @property
    def overhead_s(self) -> float:
        """What is neither model, nor draw, nor constraint, nor copy."""
        return self.schedule_s + self.draft_s + self.programs_s
