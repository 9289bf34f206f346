"""Anthropic's format: a gen and a select as messages.

Owns the translation both ways. Structured output is asked for as the input of a tool that the model
must call. Knows nothing of HTTP and nothing of runs.
"""

from __future__ import annotations

import json
from typing import Any

from grammars import Choices
from sgdsl.backends.arriving import ArrivingText
from sgdsl.backends.asking import Answer, Ask, Scored, describe_refusal, refuse_unknown, unknown_end
from sgdsl.backends.conversation import Prompt
from sgdsl.backends.openai_wire import SELECT_TRIES, choices_instruction
from sgdsl.backends.retrying import Caller
from sgdsl.backends.shapes import count, dig
from sgdsl.backends.structured import Structured, structured
from sgdsl.choices import ChoiceScores
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.graph import Sampling, Select, shorten

KNOWN = frozenset({"max_tokens", "stop", "temperature", "top_p", "top_k", "seed", "healing", "n"})
"""There is no seed in this format: the same one gives the same program, not the same text."""

TOOL = "answer"

ENDED = ("end_turn", "stop_sequence", "tool_use")
CUT = ("max_tokens", "model_context_window_exceeded")


class AnthropicWire:
    def __init__(self, caller: Caller, model: str, extra: dict[str, Any]) -> None:
        self._caller = caller
        self._model = model
        self._extra = extra
        self._label = caller.label

    async def close(self) -> None:
        await self._caller.close()

    async def answer(self, ask: Ask) -> Answer:
        form = None if ask.constraint is None else structured(ask.constraint)
        body = self._body(ask.prompt, ask.sampling)
        if form is not None:
            _call(body, form)
        for text, reason in ask.refused:
            body["messages"] += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": describe_refusal(reason)},
            ]
        if ask.on_text is None or form is not None:
            return self._read(await self._caller.post("/v1/messages", body), form)
        return await self._streamed(body, ask)

    async def score(self, prompt: Prompt, node: Select, *, seed: int) -> Scored:  # noqa: ARG002
        """The model is asked for its choice; it tells no log-probabilities."""
        if node.method.needs_unconditional:
            raise UsageError(
                "unconditional_likelihood_normalized needs log-probabilities, which Anthropic does "
                "not give; take another choices_method"
            )
        form = structured(Choices(node.choices))
        assert form is not None, "choices have a schema"
        sampling = Sampling(max_tokens=256, temperature=min(1.0, node.temperature))
        body = self._body(prompt, sampling)
        instruction = choices_instruction(node.choices, prompt)
        body["messages"].append({"role": "user", "content": instruction})
        _call(body, form)
        for _ in range(SELECT_TRIES):
            answer = self._read(await self._caller.post("/v1/messages", body), form)
            if answer.text in node.choices:
                taken = node.choices.index(answer.text)
                rows = [[0.0 if i == taken else float("-inf")] for i in range(len(node.choices))]
                meta = {"id": answer.id, "scored_by": "the answer alone"}
                return Scored(
                    ChoiceScores(rows), meta, answer.prompt_tokens, answer.completion_tokens
                )
        raise BackendError(
            f"{self._label} answered {shorten(repr(answer.text), 120)}, which is none of the "
            f"choices, {SELECT_TRIES} times"
        )

    def _body(self, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        refuse_unknown(sampling, KNOWN, frozenset())
        messages = prompt.conversation()
        if prompt.is_chat and prompt.begun:
            messages.append({"role": "assistant", "content": prompt.begun.rstrip()})
        system = [message["content"] for message in messages if message["role"] == "system"]
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": sampling.max_tokens,
            "messages": [message for message in messages if message["role"] != "system"],
        }
        if system:
            body["system"] = "\n\n".join(system)
        if sampling.temperature is not None:
            if sampling.temperature > 1:
                raise UsageError(
                    f"temperature={sampling.temperature!r}: Anthropic takes numbers from 0 to 1"
                )
            body["temperature"] = sampling.temperature
        if sampling.top_p not in (None, 1.0):
            body["top_p"] = sampling.top_p
        if sampling.top_k not in (None, -1):
            body["top_k"] = sampling.top_k
        stops = [stop for stop in sampling.stop or () if stop.strip()]  # white space is refused
        if stops:
            body["stop_sequences"] = stops
        return body | self._extra

    async def _streamed(self, body: dict[str, Any], ask: Ask) -> Answer:
        heard = await self._caller.stream(
            "/v1/messages",
            {**body, "stream": True},
            lambda: _Heard(self._label, ArrivingText.of(self._label, ask)),
        )
        if not heard.message:
            raise ProviderError(f"{self._label} streamed no message at all", retryable=True)
        return self._answer(heard.text, heard.message)

    def _read(self, data: dict[str, Any], form: Structured | None) -> Answer:
        blocks = dig(self._label, data, list, "content")
        texts: list[str] = []
        for index, block in enumerate(blocks):
            kind = dig(self._label, data, str, "content", index, "type")
            if kind == "tool_use" and form is not None:
                called = dig(self._label, block, dict, "input")
                made = form.text_of(json.dumps(called, ensure_ascii=False))
                return self._answer(made, data, enforced="tool")
            if kind == "text":
                texts.append(dig(self._label, block, str, "text"))
        return self._answer("".join(texts), data)

    def _answer(self, text: str, data: dict[str, Any], *, enforced: str | None = None) -> Answer:
        reason = data.get("stop_reason")
        if reason == "refusal":
            raise BackendError(f"{self._label}: the model refused to answer")
        if reason not in (None, *ENDED, *CUT):
            raise unknown_end(self._label, reason)
        if reason == "tool_use" and not text:
            raise BackendError(f"{self._label}: the model called tools, and wrote no text")
        usage = data.get("usage")
        cached = count(usage, "cache_read_input_tokens")
        fresh = count(usage, "input_tokens")
        return Answer(
            text,
            truncated=reason in CUT,
            enforced=enforced,
            id=data["id"] if isinstance(data.get("id"), str) else None,
            prompt_tokens=None if fresh is None else fresh + (cached or 0),
            completion_tokens=count(usage, "output_tokens"),
            cached_tokens=cached,
        )


class _Heard:
    """What has arrived of a stream: see `Listener`. `message`: all of it but the text."""

    def __init__(self, label: str, arriving: ArrivingText) -> None:
        self._label = label
        self._arriving = arriving
        self.message: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return self._arriving.text

    @property
    def passed_on(self) -> bool:
        return self._arriving.passed_on

    @property
    def complete(self) -> bool:
        return self.message.get("stop_reason") is not None

    def take(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self.message = dig(self._label, event, dict, "message")
            case "content_block_delta":
                delta = dig(self._label, event, dict, "delta")
                if delta.get("type") == "text_delta":
                    self._arriving.add(dig(self._label, delta, str, "text"))
            case "message_delta":
                reason = dig(self._label, event, dict, "delta").get("stop_reason")
                usage = self.message.get("usage")
                told = {**usage} if isinstance(usage, dict) else {}
                told["output_tokens"] = count(event, "usage", "output_tokens")
                self.message = {**self.message, "usage": told, "stop_reason": reason}


def _call(body: dict[str, Any], form: Structured) -> None:
    body["tools"] = [{"name": TOOL, "description": "Give the answer.", "input_schema": form.schema}]
    body["tool_choice"] = {"type": "tool", "name": TOOL}
