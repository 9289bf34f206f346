"""vLLM's CPU build in float32, its prefix cache on, structured outputs by xgrammar.

A select is a greedy choice among the options, which is less than the likelihood of each.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers.protocol import Answer, Asked, Job, serve

KV_GIB = 4


class Vllm:
    def __init__(self, job: Job) -> None:
        # One process, so that its CPU seconds are this one's.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(KV_GIB)
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        import vllm

        self.version = f"vllm {vllm.__version__}"
        longest = max(len(each.prompt) + each.max_tokens for r in job.rounds for each in r)
        self._engine: Any = vllm.LLM(
            job.model,
            dtype="float32",
            max_model_len=longest + 16,
            enable_prefix_caching=True,
            structured_outputs_config={"backend": "xgrammar", "disable_any_whitespace": True},
            seed=0,
        )

    def answer(self, requests: list[Asked]) -> list[Answer]:
        prompts = [{"prompt_token_ids": each.prompt} for each in requests]
        done = self._engine.generate(
            prompts, [_sampling(each) for each in requests], use_tqdm=False
        )
        outputs = [each.outputs[0] for each in done]
        return [Answer(output.text, len(output.token_ids)) for output in outputs]


def _sampling(asked: Asked) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    names = {"schema": "json", "regex": "regex", "choices": "choice"}
    structured = None
    if asked.kind in names:
        structured = StructuredOutputsParams(**{names[asked.kind]: asked.spec})
    most = asked.max_tokens or max(len(option) for option in asked.options or ()) + 1
    return SamplingParams(
        temperature=0.0,
        max_tokens=most,
        min_tokens=most if asked.is_exact else 0,
        ignore_eos=asked.is_exact,
        structured_outputs=structured,
    )


if __name__ == "__main__":
    serve(Vllm)
