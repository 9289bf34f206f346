"""The figures of one workload: what our engine did, and how others compare.

Owns names, units and ratios. Measures nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.ceiling import Ceiling, LayerShapes
from benchmarks.machine import BUSY_MACHINE, Taken
from benchmarks.ours import Ran
from benchmarks.peers.protocol import Served
from benchmarks.requests import Request, rounds_of
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload

Figures = dict[str, Any]


@dataclass(frozen=True)
class Basis:
    """What ratios are made of: "wall" seconds, or the "cpu" seconds of the whole process."""

    name: str

    def seconds(self, taken: Taken | Served) -> float:
        return taken.wall_s if self.name == "wall" else taken.cpu_s


def basis_of(asked: str, taken: Taken) -> Basis:
    """Where nobody asks: CPU seconds while others used the machine, or nobody knows."""
    if asked != "auto":
        return Basis(asked)
    share = taken.others_share
    return Basis("cpu" if share is None or share > BUSY_MACHINE else "wall")


def engine_figures(ran: Ran, num_rows: int) -> Figures:
    wall_s = ran.taken.wall_s
    reuse, best = ran.reuse, ran.best_reuse
    busy = ran.share("schedule", "programs", "mask", "sample", "forward")
    return {
        "rows": num_rows,
        "rows_per_s": num_rows / wall_s,
        "output_tokens": ran.output_tokens,
        "output_tokens_per_s": ran.output_tokens / wall_s,
        "wall_s": wall_s,
        "cpu_s": ran.taken.cpu_s,
        "others_share": ran.taken.others_share,
        "ttft_p50_s": ran.ttft.p50,
        "ttft_p99_s": ran.ttft.p99,
        "itl_p50_s": ran.itl.p50,
        "itl_p99_s": ran.itl.p99,
        "prompt_tokens": reuse.num_prompt,
        "cache_hit_rate": reuse.rate,
        "best_hit_rate": best.rate,
        "hits_of_best": reuse.rate / best.rate if best.rate else 1.0,
        "forward_share": ran.share("forward"),
        "head_share": ran.share("sample"),
        "mask_share": ran.share("mask"),
        "scheduler_share": ran.share("schedule", "programs"),
        "idle_share": max(0.0, 1.0 - busy),
        "peak_rss_mib": ran.peak_rss_mib,
    }


def flop_figures(ran: Ran, shapes: LayerShapes, ceiling: Ceiling) -> Figures:
    """Utilisation: of the layers' products, as a share of what the measured ceiling allows in the
    wall time and in the CPU time; LM head and attention are not counted on either side.
    """
    flops = shapes.flops(int(ran.steps["computed_tokens"]))
    return {
        "mean_step_tokens": ceiling.num_rows,
        "ceiling_gflops": ceiling.per_wall_s / 1e9,
        "ceiling_gflops_per_cpu": ceiling.per_cpu_s / 1e9,
        "flop_utilisation": flops / ran.taken.wall_s / ceiling.per_wall_s,
        "flop_utilisation_cpu": flops / ran.taken.cpu_s / ceiling.per_cpu_s,
    }


def verdict_figures(verdicts: Sequence[Verdict]) -> Figures:
    values = sum(each.num_values for each in verdicts)
    return {
        "valid_rows": sum(each.valid for each in verdicts),
        "right_values": sum(each.num_right for each in verdicts) / values if values else None,
    }


def ratio(ours: tuple[float, int], other: tuple[float, int]) -> float:
    """How many times as many rows a second as the other: each is its seconds and its rows."""
    (our_s, our_rows), (other_s, other_rows) = ours, other
    return (other_s / other_rows) / (our_s / our_rows)


def peer_figures(served: Served, rows: Sequence[Row]) -> Figures:
    answers = [answer for round_ in served.answers for answer in round_]
    return {
        "version": served.version,
        "rows_per_s": len(rows) / served.wall_s,
        "wall_s": served.wall_s,
        "cpu_s": served.cpu_s,
        "output_tokens": sum(answer.num_tokens for answer in answers),
        "peak_rss_mib": served.peak_rss_mib,
    }


def peer_verdicts(
    served: Served, runs: Sequence[list[Request]], workload: Workload, rows: Sequence[Row]
) -> list[Verdict]:
    """What the same judge says of the peer's texts."""
    texts: list[Texts] = [{} for _ in rows]
    for round_, answers in zip(rounds_of(runs), served.answers, strict=True):
        for (index, request), answer in zip(round_, answers, strict=True):
            texts[index].setdefault(request.name, []).append(answer.text)
    return [workload.judge(each, row) for each, row in zip(texts, rows, strict=True)]
