"""The workloads, by the names that the command line knows them by."""

from __future__ import annotations

from benchmarks.workloads.agents import AGENTS
from benchmarks.workloads.chat import CHAT
from benchmarks.workloads.extract import EXTRACT
from benchmarks.workloads.free import FREE
from benchmarks.workloads.regex import REGEX
from benchmarks.workloads.select import SELECT
from benchmarks.workloads.tree import TREE
from benchmarks.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {
    each.name: each for each in (EXTRACT, REGEX, FREE, SELECT, TREE, CHAT, AGENTS)
}
"""In the order in which the pages name them."""
