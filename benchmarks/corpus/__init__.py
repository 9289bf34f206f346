"""A corpus of constraints with outputs whose verdicts are known, all written for this purpose."""

from benchmarks.corpus import calls, records, sharp, texts, trees
from benchmarks.corpus.case import Case, Kind, compact

__all__ = ["Case", "Kind", "compact", "corpus"]


def corpus() -> list[Case]:
    """All cases, each under a name of its own."""
    return [case for part in (records, calls, trees, sharp, texts) for case in part.cases()]
