"""What a step did and took. Written by the engine alone; metrics and displays only read it.

Owns the numbers and their names. Times are seconds, counts are totals since the start.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StepStats:
    num_steps: int = 0
    schedule_s: float = 0.0  # who gets what, and laying the batch out
    copy_s: float = 0.0  # pages that are copied
    forward_s: float = 0.0  # the model, without the LM head
    mask_s: float = 0.0  # constraints' bitmasks
    sample_s: float = 0.0  # LM head, draw, scores
    programs_s: float = 0.0  # tokens to text, stops, graphs, new runs
    computed_tokens: int = 0
    max_running: int = 0

    @property
    def busy_s(self) -> float:
        """All time that the engine was at work."""
        return self.forward_s + self.sample_s + self.mask_s + self.copy_s + self.overhead_s

    @property
    def overhead_s(self) -> float:
        """What is neither model, nor draw, nor constraint, nor copy."""
        return self.schedule_s + self.programs_s
