"""OpenVINO GenAI's continuous batching in int8, its prefix cache on and primed.

The model is exported once, by optimum-intel in the same environment. A select is a greedy choice
among the options, which is less than the likelihood of each.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.protocol import Answer, Asked, Job, serve

CACHE_GIB = 4


class OpenVino:
    def __init__(self, job: Job) -> None:
        import openvino
        import openvino_genai

        self._genai: Any = openvino_genai
        self._tensor: Any = openvino.Tensor
        self.version = f"openvino-genai {openvino_genai.get_version()}"
        folder = exported(Path(job.model), Path(job.folder))
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GIB
        scheduler.enable_prefix_caching = True
        properties = {"INFERENCE_NUM_THREADS": job.threads}
        self._pipeline: Any = openvino_genai.ContinuousBatchingPipeline(
            str(folder), scheduler, "CPU", properties
        )
        self._tokenizer = self._pipeline.get_tokenizer()

    def answer(self, requests: list[Asked]) -> list[Answer]:
        import numpy as np

        inputs = [self._tensor(np.array([each.prompt], dtype=np.int64)) for each in requests]
        done = self._pipeline.generate(inputs, [self._config(each) for each in requests])
        found = []
        for each in done:
            tokens = list(each.m_generation_ids[0])
            found.append(Answer(self._tokenizer.decode(tokens), len(tokens)))
        return found

    def _config(self, asked: Asked) -> Any:
        config = self._genai.GenerationConfig()
        config.do_sample = False
        config.max_new_tokens = asked.max_tokens or max(map(len, asked.options or ())) + 1
        config.ignore_eos = asked.is_exact
        config.apply_chat_template = False
        config.eos_token_id = self._tokenizer.get_eos_token_id()
        if asked.kind != "free":
            outputs = self._genai.StructuredOutputConfig()
            if asked.kind == "schema":
                outputs.json_schema = json.dumps(asked.spec)
            elif asked.kind == "regex":
                outputs.regex = asked.spec
            else:
                outputs.regex = "|".join(re.escape(text).replace("\\ ", " ") for text in asked.spec)
            config.structured_output_config = outputs
        return config


def exported(model: Path, folder: Path) -> Path:
    """The model in OpenVINO's format with int8 weights; made when it is not there yet."""
    target = folder / f"openvino-int8-{model.name}"
    if not (target / "openvino_model.xml").exists():
        command = [str(Path(sys.executable).parent / "optimum-cli"), "export", "openvino"]
        command += ["--model", str(model), "--task", "text-generation-with-past"]
        subprocess.run([*command, "--weight-format", "int8", str(target)], check=True)
    return target


if __name__ == "__main__":
    serve(OpenVino)
