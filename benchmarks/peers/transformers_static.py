"""transformers' `generate`: static batches, padded on the left, constraints by xgrammar.

A select is the likelihood of every option, each with the whole prompt before it.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks.peers.protocol import Answer, Asked, Job, serve


class Static:
    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self.version = f"transformers {transformers.__version__}"
        self._batch = job.batch
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(job.model)
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            job.model, dtype=torch.float32
        )
        stops = self._model.generation_config.eos_token_id
        self._stops = stops if isinstance(stops, list) else [stops]
        self._grammars = None
        if job.constrains:
            self._grammars = Grammars(self._tokenizer, self._model.config.vocab_size, self._stops)

    def answer(self, requests: list[Asked]) -> list[Answer]:
        found: list[Answer] = []
        for start in range(0, len(requests), self._batch):
            batch = requests[start : start + self._batch]
            choose = batch[0].kind == "choices"
            found += self._choose(batch) if choose else self._generate(batch)
        return found

    @torch.inference_mode()
    def _generate(self, batch: list[Asked]) -> list[Answer]:
        """A batch takes as many steps as its longest row."""
        ids, mask = self._padded([each.prompt for each in batch])
        most = max(each.max_tokens for each in batch)
        exact = all(each.is_exact for each in batch)
        processors = None
        if self._grammars is not None and any(each.kind != "free" for each in batch):
            processors = [self._grammars.processor(batch)]
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=most,
            min_new_tokens=most if exact else None,
            do_sample=False,
            pad_token_id=self._stops[0],
            logits_processor=processors,
        )
        return [
            self._cut(each, row)
            for each, row in zip(batch, out[:, ids.shape[1] :].tolist(), strict=True)
        ]

    def _cut(self, asked: Asked, written: list[int]) -> Answer:
        written = written[: asked.max_tokens]
        if not asked.is_exact:
            ends = [place for place, token in enumerate(written) if token in self._stops]
            written = written[: ends[0]] if ends else written
        text: Any = self._tokenizer.decode(written, clean_up_tokenization_spaces=False)
        return Answer(text, len(written))

    @torch.inference_mode()
    def _choose(self, batch: list[Asked]) -> list[Answer]:
        pairs = [(each, option) for each in batch for option in each.options or ()]
        scores: list[float] = []
        for start in range(0, len(pairs), self._batch):
            here = pairs[start : start + self._batch]
            ids, mask = self._padded([asked.prompt + option for asked, option in here])
            longest = max(len(option) for _, option in here)
            logits = self._model(
                input_ids=ids, attention_mask=mask, logits_to_keep=longest + 1
            ).logits.log_softmax(-1)
            for row, (_, option) in enumerate(here):
                at = logits[row, -len(option) - 1 : -1]
                found = at.gather(1, torch.tensor(option)[:, None]).mean()
                scores.append(float(found))
        answers = []
        for each in batch:
            own = [scores.pop(0) for _ in each.spec]
            answers.append(Answer(each.spec[own.index(max(own))], 0))
        return answers

    def _padded(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, rows))
        ids = [[self._stops[0]] * (width - len(row)) + row for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids), torch.tensor(mask)


class Grammars:
    """xgrammar's, compiled once for each constraint."""

    def __init__(self, tokenizer: Any, vocab_size: int, stops: list[int]) -> None:
        import xgrammar

        self._module = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocab_size, stop_token_ids=stops
        )
        self._compiler = xgrammar.GrammarCompiler(info)
        self._known: dict[str, Any] = {}

    def processor(self, batch: list[Asked]) -> Any:
        from xgrammar.contrib.hf import LogitsProcessor

        return LogitsProcessor([self._compiled(each) for each in batch])

    def _compiled(self, asked: Asked) -> Any:
        key = repr((asked.kind, asked.spec))
        if key not in self._known:
            self._known[key] = self._compile(asked)
        return self._known[key]

    def _compile(self, asked: Asked) -> Any:
        import json

        if asked.kind == "schema":
            return self._compiler.compile_json_schema(
                json.dumps(asked.spec), any_whitespace=False, separators=(",", ":")
            )
        assert asked.kind == "regex", "a batch is of one kind"
        return self._compiler.compile_regex(asked.spec)


if __name__ == "__main__":
    serve(Static)
