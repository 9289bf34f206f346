"""OpenAI's formats, read: what a model has written, whole or in chunks.

Owns the shapes of answers, and what is to be thought of the reason for which one has ended. Knows
nothing of what was asked.
"""

from __future__ import annotations

from typing import Any

from sgdsl.backends.answer_logprobs import WrittenToken
from sgdsl.backends.arriving import ArrivingText
from sgdsl.backends.asking import Answer, unknown_end
from sgdsl.backends.shapes import count, dig, log_probability, shaped
from sgdsl.backends.structured import Structured
from sgdsl.errors import BackendError, ProviderError
from sgdsl.graph import shorten

ENDED = frozenset(
    {
        *("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"),
        *("tool_calls", "function_call"),
    }
)
"""The model, or a stop string, has ended it: in the words of OpenAI and of those who speak its
formats (TGI, Together, Cohere and gateways to Anthropic).
"""
CUT = frozenset({"length", "max_tokens", "model_length"})
"""Its limit has. The last one is Mistral's word, for the model's own."""


class Written:
    """What has arrived of an answer. It hears a stream: see `Listener`."""

    def __init__(self, label: str, *, chat: bool, arriving: ArrivingText | None = None) -> None:
        self._label = label
        self._chat = chat
        self._arriving = arriving
        self._whole = ""
        self.tokens: list[WrittenToken] = []
        self._tools: list[str] = []
        self._begun = False
        self._finish: str | None = None
        self._usage: Any = None
        self._id: str | None = None

    @classmethod
    def whole(cls, label: str, data: dict[str, Any], *, chat: bool) -> Written:
        written = cls(label, chat=chat)
        written._take_whole(data)
        return written

    @property
    def text(self) -> str:
        return self._whole if self._arriving is None else self._arriving.text

    @property
    def passed_on(self) -> bool:
        return self._arriving is not None and self._arriving.passed_on

    @property
    def complete(self) -> bool:
        return self._finish is not None

    def take(self, event: dict[str, Any]) -> None:
        """The next chunk of a stream."""
        assert self._arriving is not None, "a stream's text arrives"
        choice = self._first(dig(self._label, event, list, "choices"))
        if choice is None:  # the usage comes in a chunk of its own
            self._usage = event.get("usage") or self._usage
            return
        piece = choice
        if self._chat:  # some say nothing in a chunk, of what their filters think, say
            piece = {} if choice.get("delta") is None else dig(self._label, choice, dict, "delta")
        self._begun |= bool(piece) or bool(choice.get("finish_reason"))
        text = piece.get("content" if self._chat else "text") or ""
        if not isinstance(text, str):
            raise ProviderError(f"{self._label} streamed {shorten(repr(text), 120)} for a text")
        self._refuse_refusal(piece)
        self._note_tools(piece)
        if text:
            self._arriving.add(text)
        self._take_rest(event, choice)

    def _take_whole(self, data: dict[str, Any]) -> None:
        choice = self._first(dig(self._label, data, list, "choices"))
        choice = dig(self._label, data, dict, "choices", 0) if choice is None else choice
        self._begun = True
        self._take_rest(data, choice)
        if not self._chat:
            self._whole = dig(self._label, choice, str, "text")
            return
        message = dig(self._label, choice, dict, "message")
        self._refuse_refusal(message)
        self._note_tools(message)
        empty = message.get("content") is None and (self._tools or self._finish in CUT)
        self._whole = "" if empty else dig(self._label, message, str, "content")

    def _first(self, choices: list[Any]) -> dict[str, Any] | None:
        """The one that was asked for: a provider may send others, in any order."""
        for choice in choices:
            if not isinstance(choice, dict):
                raise ProviderError(f"{self._label} sent {shorten(repr(choice), 80)} for a choice")
            if choice.get("index") in (0, None):
                return choice
        return None

    def _refuse_refusal(self, message: dict[str, Any]) -> None:
        if refusal := message.get("refusal"):
            raise BackendError(f"{self._label}: the model refused: {shorten(str(refusal), 300)}")

    def _note_tools(self, message: dict[str, Any]) -> None:
        calls = message.get("tool_calls") or message.get("function_call")
        if calls:
            self._tools.append(shorten(repr(calls), 120))

    def _take_rest(self, data: dict[str, Any], choice: dict[str, Any]) -> None:
        self._usage = data.get("usage") or self._usage
        self._id = data["id"] if isinstance(data.get("id"), str) else self._id
        if (logprobs := choice.get("logprobs")) is not None:
            self.tokens += self._read_tokens(logprobs)
        finish = choice.get("finish_reason")
        if finish:  # some say "" for not yet
            self._end(finish)

    def _end(self, finish: object) -> None:
        reason = finish.lower() if isinstance(finish, str) else ""
        if reason == "content_filter":
            raise BackendError(f"{self._label}: the provider's content filter ended the answer")
        if reason not in ENDED | CUT:
            raise unknown_end(self._label, finish)
        self._finish = reason

    def answer(self, form: Structured | None, *, enforced: str | None) -> Answer:
        if not self._begun:
            raise ProviderError(f"{self._label} streamed no choice at all", retryable=True)
        if self._tools and not self.text:
            raise BackendError(
                f"{self._label}: the model called tools, and wrote no text: {self._tools[0]}"
            )
        told = [(token.logprob, None, token.text) for token in self.tokens]
        top = [[(value, None, text) for text, value in token.top] for token in self.tokens]
        return Answer(
            self.text if form is None else form.text_of(self.text),
            truncated=self._finish in CUT,
            enforced=enforced,
            is_open=not self._chat and enforced is None,
            id=self._id,
            prompt_tokens=count(self._usage, "prompt_tokens"),
            completion_tokens=count(self._usage, "completion_tokens"),
            cached_tokens=count(self._usage, "prompt_tokens_details", "cached_tokens"),
            logprobs=told or None,
            top_logprobs=top if any(top) else None,
        )

    def _read_tokens(self, logprobs: Any) -> list[WrittenToken]:
        read = _chat_tokens if self._chat else _completion_tokens
        with shaped(self._label, "log-probabilities", logprobs):
            return read(self._label, logprobs)


def _chat_tokens(label: str, logprobs: Any) -> list[WrittenToken]:
    return [
        WrittenToken(
            dig(label, entry, str, "token"),
            log_probability(entry["logprob"]),
            tuple(
                (dig(label, top, str, "token"), log_probability(top["logprob"]))
                for top in entry.get("top_logprobs") or ()
            ),
        )
        for entry in logprobs.get("content") or ()
    ]


def _completion_tokens(label: str, logprobs: Any) -> list[WrittenToken]:
    texts = dig(label, logprobs, list, "tokens")
    values = dig(label, logprobs, list, "token_logprobs")
    tops = logprobs.get("top_logprobs") or [None] * len(texts)
    return [
        WrittenToken(
            dig(label, text, str),
            0.0 if value is None else log_probability(value),
            tuple((told, log_probability(number)) for told, number in (top or {}).items()),
        )
        for text, value, top in zip(texts, values, tops, strict=True)
    ]
