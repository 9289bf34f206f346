"""OpenAI's formats: what a gen and a select are as chat completions and as completions.

Owns what is asked, and what of an endpoint's abilities decides about it. How answers are read is
`openai_answers`' business. Knows nothing of HTTP (a `Caller` sends it) and nothing of runs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from grammars import Cfg, Choices, Constraint, Regex
from sgdsl.backends.abilities import Abilities
from sgdsl.backends.answer_logprobs import estimate
from sgdsl.backends.arriving import ArrivingText
from sgdsl.backends.asking import (
    Answer,
    Ask,
    Scored,
    describe_refusal,
    num_top_logprobs,
    refuse_unknown,
)
from sgdsl.backends.conversation import Prompt
from sgdsl.backends.echo_scores import conditional_rows, unconditional_rows
from sgdsl.backends.openai_answers import Written
from sgdsl.backends.retrying import Caller
from sgdsl.backends.shapes import count
from sgdsl.backends.structured import Structured, structured
from sgdsl.choices import ChoiceScores
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.graph import Sampling, Select, shorten

MAX_STOPS = 4
"""OpenAI takes so many; all of them hold, since the answer is cut here too."""
NUM_TOP_LOGPROBS = 20
CHAT, COMPLETIONS = "/chat/completions", "/completions"
SELECT_TRIES = 3


KNOWN = frozenset(
    {
        *("max_tokens", "stop", "temperature", "top_p", "frequency_penalty", "presence_penalty"),
        *("seed", "return_logprob", "top_logprobs_num", "return_text_in_logprobs"),
        *("healing", "n"),
    }
)
"""Sampling that OpenAI's formats have. Healing is the provider's own business: it never splits."""


class OpenAIWire:
    def __init__(self, caller: Caller, model: str, abilities: Abilities) -> None:
        self._caller = caller
        self._model = model
        self._has = abilities
        self._label = caller.label

    async def close(self) -> None:
        await self._caller.close()

    def _asks_chat(self, prompt: Prompt) -> bool:
        return prompt.is_chat if self._has.chat is None else self._has.chat

    async def answer(self, ask: Ask) -> Answer:
        if not self._asks_chat(ask.prompt):
            try:
                return await self._completion(ask)
            except ProviderError as error:
                self._learn(error)
        return await self._chat(ask)

    async def score(self, prompt: Prompt, node: Select, *, seed: int) -> Scored:
        if not self._asks_chat(prompt):
            try:
                return await self._score_echo(prompt, node)
            except ProviderError as error:
                self._learn(error)
        return await self._score_chat(prompt, node, seed=seed)

    def _learn(self, error: ProviderError) -> None:
        """The endpoint has no completions: from now on all is chat. Another error is one."""
        if self._has.chat is not None or error.status not in (404, 405):
            raise error
        self._has = replace(self._has, chat=True)

    # Chat completions.

    async def _chat(self, ask: Ask) -> Answer:
        messages: list[dict[str, str]] = ask.prompt.conversation()
        body: dict[str, Any] = {"model": self._model, "messages": messages}
        body |= self._sampling(ask.sampling, ask.seed, self._has.max_tokens_field)
        num_top = num_top_logprobs(ask.sampling)
        if ask.sampling.return_logprob or num_top:
            body["logprobs"] = True
            if num_top:
                body["top_logprobs"] = num_top
        if ask.prompt.is_chat and ask.prompt.begun:
            self._continue(body, messages, ask.prompt.begun)
        form, enforced = self._constrain(body, ask.constraint, instruct=messages)
        for text, reason in ask.refused:
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": describe_refusal(reason)},
            ]
        written = await self._send(CHAT, body, ask)
        return written.answer(form, enforced=enforced)

    def _continue(self, body: dict[str, Any], messages: list[dict[str, str]], begun: str) -> None:
        if "continue_final_message" not in self._has.extensions:
            raise UsageError(
                f"the assistant's message has begun with {shorten(begun, 80)!r} before the gen, "
                "and this provider begins messages only; put the text into the user's message, "
                "decorate the program with function(num_api_spec_tokens=...), or, if the provider "
                "can go on with a message, pass extensions=['continue_final_message']"
            )
        messages.append({"role": "assistant", "content": begun})
        _put(body, self._has.extensions["continue_final_message"], True)
        body["add_generation_prompt"] = False

    # Completions.

    async def _completion(self, ask: Ask) -> Answer:
        body: dict[str, Any] = {"model": self._model, "prompt": ask.prompt.text}
        body |= self._sampling(ask.sampling, ask.seed, "max_tokens")
        num_top = num_top_logprobs(ask.sampling)
        if ask.sampling.return_logprob or num_top:
            body["logprobs"] = num_top or 1
        form, enforced = self._constrain(body, ask.constraint, instruct=None)
        written = await self._send(COMPLETIONS, body, ask)
        return written.answer(form, enforced=enforced)

    async def _send(self, path: str, body: dict[str, Any], ask: Ask) -> Written:
        chat = path == CHAT
        if ask.on_text is None:
            return Written.whole(self._label, await self._caller.post(path, body), chat=chat)
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
        return await self._caller.stream(
            path,
            body,
            lambda: Written(self._label, chat=chat, arriving=ArrivingText.of(self._label, ask)),
        )

    def _sampling(self, sampling: Sampling, seed: int, max_tokens_field: str) -> dict[str, Any]:
        refuse_unknown(sampling, KNOWN, frozenset(self._has.extensions))
        body: dict[str, Any] = {max_tokens_field: sampling.max_tokens}
        if sampling.temperature is not None:
            body["temperature"] = sampling.temperature
        for name, off in (("top_p", 1.0), ("frequency_penalty", 0.0), ("presence_penalty", 0.0)):
            value = getattr(sampling, name)
            if value is not None and value != off:
                body[name] = value
        if sampling.stop:
            body["stop"] = list(sampling.stop[:MAX_STOPS])
        if self._has.seeds:
            body["seed"] = seed
        for name in ("top_k", "min_p", "min_tokens", "stop_token_ids", "ignore_eos"):
            value = getattr(sampling, name)
            if name in self._has.extensions and value not in (None, -1, 0, (), False):
                _put(body, self._has.extensions[name], value)
        return {**body, **self._has.extra}

    def _constrain(
        self,
        body: dict[str, Any],
        constraint: Constraint | None,
        *,
        instruct: list[dict[str, str]] | None,
    ) -> tuple[Structured | None, str | None]:
        """Tell the provider the constraint, if it has a way to; how, if so. `instruct`: the
        messages of a chat, which take a word of what is wanted where the format cannot say it.
        """
        if constraint is None:
            return None, None
        fields = self._has.extensions
        if isinstance(constraint, Regex) and "regex" in fields:
            _put(body, fields["regex"], constraint.pattern)
            return None, "regex"
        if isinstance(constraint, Cfg) and "grammar" in fields and constraint.start == "start":
            _put(body, fields["grammar"], constraint.text)
            return None, "grammar"
        if isinstance(constraint, Choices) and "choice" in fields:
            _put(body, fields["choice"], list(constraint.texts))
            return None, "choice"
        has_format = instruct is not None or "response_format" in fields
        form = structured(constraint) if has_format and self._has.json_mode else None
        if form is None:
            return None, None
        if self._has.json_mode == "json_object":
            body["response_format"] = {"type": "json_object"}
            if instruct is not None:
                instruct.insert(0, {"role": "system", "content": _schema_instruction(form)})
            return form, "json_object"
        schema = {"name": "output", "schema": form.schema, "strict": form.strict}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return form, "json_schema"

    # Selects.

    async def _score_echo(self, prompt: Prompt, node: Select) -> Scored:
        """Every choice behind the prompt, echoed with the log-probabilities of its tokens."""
        whole = await self._echo([prompt.text + choice for choice in node.choices])
        conditional = conditional_rows(self._label, whole, prompt.text, node.choices)
        unconditional = None
        if node.method.needs_unconditional:
            alone = await self._echo(["\n" + choice for choice in node.choices])
            unconditional = unconditional_rows(self._label, alone)
        meta = {
            "id": None if not isinstance(whole.get("id"), str) else whole["id"],
            "scored_by": "echoed log-probabilities",
        }
        tokens = count(whole, "usage", "prompt_tokens")
        return Scored(ChoiceScores(conditional, unconditional), meta, tokens)

    async def _echo(self, prompts: list[str]) -> dict[str, Any]:
        body = {
            "model": self._model,
            "prompt": prompts,
            "max_tokens": 0,
            "echo": True,
            "logprobs": 1,
            "temperature": 0,
            **self._has.extra,
        }
        return await self._caller.post(COMPLETIONS, body)

    async def _score_chat(self, prompt: Prompt, node: Select, *, seed: int) -> Scored:
        if node.method.needs_unconditional:
            raise UsageError(
                "unconditional_likelihood_normalized needs log-probabilities without the prompt, "
                "which a chat endpoint does not give; take another choices_method, or an endpoint "
                "with completions (is_chat_model=False)"
            )
        messages = prompt.conversation()
        if prompt.is_chat and prompt.begun:
            messages.append({"role": "assistant", "content": prompt.begun})
        messages.append({"role": "user", "content": choices_instruction(node.choices, prompt)})
        body: dict[str, Any] = {"model": self._model, "messages": messages}
        longest = max(len(choice.encode()) for choice in node.choices)
        sampling = Sampling(max_tokens=longest + 32, temperature=node.temperature)
        if self._has.logprobs:
            body |= {"logprobs": True, "top_logprobs": NUM_TOP_LOGPROBS}
        form, _ = self._constrain(body, Choices(node.choices), instruct=None)
        if form is None and self._has.json_mode == "json_schema":
            form = structured(Choices(node.choices))
            assert form is not None, "choices have a schema"
            schema = {"name": "choice", "schema": form.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for attempt in range(SELECT_TRIES):
            body |= self._sampling(sampling, seed + attempt, self._has.max_tokens_field)
            written = Written.whole(self._label, await self._caller.post(CHAT, body), chat=True)
            answer = written.answer(form, enforced=None)
            text = answer.text if answer.text in node.choices else answer.text.strip()
            if text in node.choices:
                return _scored(written, answer, node, node.choices.index(text))
        raise BackendError(
            f"{self._label} answered {shorten(repr(answer.text), 120)}, which is none of the "
            f"choices, {SELECT_TRIES} times"
        )


def _scored(written: Written, answer: Answer, node: Select, taken: int) -> Scored:
    in_json = written.text.lstrip().startswith("{")
    shown = [json.dumps(c, ensure_ascii=False)[1:-1] if in_json else c for c in node.choices]
    begin = written.text.rfind(shown[taken])
    meta: dict[str, Any] = {"id": answer.id, "scored_by": "the answer alone"}
    logprobs = [0.0 if index == taken else float("-inf") for index in range(len(node.choices))]
    if written.tokens and begin >= 0 and "".join(t.text for t in written.tokens) == written.text:
        found = estimate(written.tokens, shown, taken, begin)
        logprobs = found.logprobs
        meta["scored_by"] = "log-probabilities of the answer's tokens"
        meta["bounded"] = [node.choices[index] for index in found.bounded]
    return Scored(
        ChoiceScores([[logprob] for logprob in logprobs]),
        meta,
        answer.prompt_tokens,
        answer.completion_tokens,
    )


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    """`a.b` is the member b of the member a."""
    *outer, last = path.split(".")
    for name in outer:
        body = body.setdefault(name, {})
    body[last] = list(value) if isinstance(value, tuple) else value


def _schema_instruction(form: Structured) -> str:
    return (
        "Answer with one JSON object that is valid under this JSON Schema, and with nothing else: "
        + json.dumps(form.schema, ensure_ascii=False)
    )


def choices_instruction(choices: tuple[str, ...], prompt: Prompt) -> str:
    listed = "\n".join(f"- {choice}" for choice in choices)
    how = "Go on with" if prompt.begun and prompt.is_chat else "Answer with"
    return f"{how} exactly one of these, and with nothing else:\n{listed}"
