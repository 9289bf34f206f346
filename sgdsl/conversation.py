"""Conversations that a run starts from: `messages=[{"role": ..., "content": ...}]`.

Owns the check of what a caller gives, in OpenAI's format, and what it appends to a state. Knows
nothing of templates or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial

from sgdsl.arguments import refuse_surrogates
from sgdsl.chat import ROLES
from sgdsl.errors import UsageError
from sgdsl.expressions import Part, role_begin, role_end
from sgdsl.graph import Text, shorten

Starts = Callable[[int], tuple[Part, ...]]
"""What the row of that index starts from."""


def conversation_parts(where: str, messages: object) -> tuple[Part, ...]:
    """What the messages append, one after another; None: nothing.

    Raises `UsageError` for whatever is no conversation.
    """
    if messages is None:
        return ()
    if not isinstance(messages, (list, tuple)):
        raise UsageError(
            f"{where}: messages={shorten(repr(messages))} is not allowed; messages is a list of "
            'dicts such as {"role": "user", "content": "..."}'
        )
    parts: list[Part] = []
    for index, message in enumerate(messages):
        role, content = _message(f"{where}: messages[{index}]", message)
        text = (partial(Text, text=content),) if content else ()
        parts += [role_begin(role), *text, role_end(role)]
    return tuple(parts)


def starts_of(where: str, messages: object, rows: Iterable[object]) -> Starts:
    """The starts of a batch's rows: the same for all, or one of a list for each.

    Raises `UsageError` for what is neither; a row for which there is none raises it by itself.
    """
    first = messages[0] if isinstance(messages, (list, tuple)) and messages else None
    if not isinstance(first, (list, tuple)):
        parts = conversation_parts(where, messages)
        return lambda _: parts
    assert isinstance(messages, (list, tuple)), "it has a first entry"
    each = [conversation_parts(f"{where}: row {i}", one) for i, one in enumerate(messages)]
    if isinstance(rows, Sized) and len(rows) != len(each):
        raise UsageError(
            f"{where}: messages has {len(each)} conversations for {len(rows)} rows; give one a "
            "row, or a single one for all"
        )

    def start(index: int) -> tuple[Part, ...]:
        if index >= len(each):
            raise UsageError(f"row {index}: messages has only {len(each)} conversations")
        return each[index]

    return start


def _message(where: str, message: object) -> tuple[str, str]:
    if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
        raise UsageError(
            f"{where}={shorten(repr(message))} is not allowed; a message is a dict with a role "
            "and a content"
        )
    role = message["role"]
    if role not in ROLES:
        raise UsageError(f"{where}: role {role!r} is not allowed; it is one of {', '.join(ROLES)}")
    others = [key for key in message if key not in {"role", "content"} and message[key]]
    if others:
        raise UsageError(
            f"{where}: {others!r} would be lost; a message has a role and a content only: put "
            "what the model should see into the content"
        )
    content = message["content"]
    text = content if isinstance(content, str) else _joined(where, content)
    refuse_surrogates(where, "content", (text,))
    return role, text


def _joined(where: str, content: object) -> str:
    """The text of a list of parts."""
    if not isinstance(content, (list, tuple)):
        raise UsageError(
            f"{where}: content={shorten(repr(content))} is not allowed; content is a str, or a "
            'list of parts such as {"type": "text", "text": "..."}'
        )
    for part in content:
        is_text = isinstance(part, Mapping) and part.get("type") == "text"
        if not is_text or not isinstance(part.get("text"), str):
            raise UsageError(
                f"{where}: the part {shorten(repr(part))} is not allowed; no backend takes images, "
                'audio or files yet: give {"type": "text", "text": "..."}'
            )
    return "".join(part["text"] for part in content)
