"""Chat templates: the text around the messages of a conversation.

Owns what opens and closes a message of a role, and where that depends on the messages before it.
Where such a template comes from (the registry, a tokenizer's Jinja template) is somebody else's
business, and so is how a run writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sgdsl.errors import UsageError

ROLES = ("system", "user", "assistant")

TRIMS: dict[str, Callable[[str], str]] = {
    "": str,
    "both": str.strip,
    "left": str.lstrip,
    "right": str.rstrip,
}
"""What a template may do to the white space at the edges of a message's content."""


class Turn(NamedTuple):
    """Where a message stands: whether a system message is before it, the role of the one right
    before it (None: it is the first), and its own role.
    """

    has_system: bool
    previous: str | None
    role: str

    @classmethod
    def after(cls, roles: Sequence[str], role: str) -> Turn:
        """The turn of a message of `role` behind messages of `roles`."""
        return cls("system" in roles, roles[-1] if roles else None, role)


@dataclass(frozen=True, slots=True)
class Around:
    """The text around one message: `prefix`, then `literal` when the program writes its beginning
    or `cue` when the model does, the content, `suffix`. `trim`: on which side ("left", "right",
    "both") the white space at the content's edges goes. `empty`: whether nothing may stand there;
    some templates take more away around it. `refusal`: why there can be no such message there.
    """

    prefix: str = ""
    suffix: str = ""
    literal: str = ""
    cue: str = ""
    trim: str = ""
    empty: bool = True
    refusal: str | None = None

    def refuse_empty(self, role: str) -> None:
        """For a content of which nothing is left."""
        if not self.empty:
            raise UsageError(
                f"the model's chat template changes what stands around an empty message of "
                f"{role!r} there; give it a text that is not white space alone"
            )


@dataclass(frozen=True, slots=True, init=False)
class ChatTemplate:
    """`prefixes` and `suffixes` map a role to the text around its messages; special tokens in that
    text are special (in everybody else's text they are plain). `stop` is added to every `gen`
    inside a role. `default_system_prompt` is inserted when a conversation does not open with
    `system`.

    `turns`, if given, takes the place of prefixes and suffixes where the text depends on more than
    the role; a turn that is not in it has no place in a conversation. `refusal`: why no role can
    be used at all.
    """

    name: str
    prefixes: Mapping[str, str]
    suffixes: Mapping[str, str]
    stop: tuple[str, ...]
    default_system_prompt: str | None
    turns: Mapping[Turn, Around] | None
    refusal: str | None

    def __init__(
        self,
        name: str,
        default_system_prompt: str | None = None,
        role_prefix_and_suffix: Mapping[str, tuple[str, str]] | None = None,
        stop_str: str | Sequence[str] | None = None,
        *,
        prefixes: Mapping[str, str] | None = None,
        suffixes: Mapping[str, str] | None = None,
        stop: str | Sequence[str] | None = None,
        turns: Mapping[Turn, Around] | None = None,
        refusal: str | None = None,
        image_token: str | None = None,
        audio_token: str | None = None,
    ) -> None:
        """`role_prefix_and_suffix` gives prefixes and suffixes together, `stop_str` is another name
        of `stop`: SGLang's arguments, in their order. `image_token` and `audio_token` are accepted
        and change nothing, since no backend takes images. Raises `UsageError` for a wrong one.
        """
        del image_token, audio_token
        if role_prefix_and_suffix is not None and (prefixes is not None or suffixes is not None):
            raise UsageError(
                "ChatTemplate: role_prefix_and_suffix and prefixes or suffixes cannot be given "
                "together; they say the same: keep one"
            )
        if stop is not None and stop_str is not None:
            raise UsageError("ChatTemplate: stop and stop_str are the same; keep one")
        if role_prefix_and_suffix is not None:
            prefixes, suffixes = _both(role_prefix_and_suffix)
        given: dict[str, Any] = {
            "name": _checked("name", name, _is_text(name) and name, "a non-empty str"),
            "prefixes": _texts("prefixes", prefixes),
            "suffixes": _texts("suffixes", suffixes),
            "stop": _stops(stop if stop is not None else stop_str),
            "default_system_prompt": _checked(
                "default_system_prompt",
                default_system_prompt,
                default_system_prompt is None or _is_text(default_system_prompt),
                "a str or None",
            ),
            "turns": None if turns is None else dict(turns),
            "refusal": refusal,
        }
        for field, value in given.items():
            object.__setattr__(self, field, value)

    @property
    def role_prefix_and_suffix(self) -> dict[str, tuple[str, str]]:
        """`prefixes` and `suffixes` by role, as pairs."""
        roles = dict.fromkeys([*self.prefixes, *self.suffixes])
        return {role: (self.prefixes.get(role, ""), self.suffixes.get(role, "")) for role in roles}

    @property
    def stop_str(self) -> tuple[str, ...]:
        """The same as `stop`."""
        return self.stop

    def around(self, roles: Sequence[str], role: str) -> Around:
        """The text around a message of `role` behind messages of `roles`."""
        if self.refusal is not None:
            return Around(refusal=self.refusal)
        if self.turns is None:
            return Around(self.prefixes.get(role, ""), self.suffixes.get(role, ""))
        turn = Turn.after(roles, role)
        found = self.turns.get(turn)
        if found is None:
            place = "first" if turn.previous is None else f"behind one of {turn.previous!r}"
            return Around(
                refusal=f"the chat template {self.name!r} has no place for a message of {role!r} "
                f"{place}; order the messages as the model expects them"
            )
        return found

    def get_prefix_and_suffix(
        self, role: str, hist_messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, str]:
        """The text before and behind a message of `role` that follows `hist_messages`."""
        around = self._around([message["role"] for message in hist_messages], role)
        return around.prefix + around.literal, around.suffix

    def get_prompt(self, messages: Sequence[Mapping[str, Any]], *, generate: bool = False) -> str:
        """The text of a conversation, as a program that appends its messages writes it; with
        `generate`, an assistant's message begins behind it. Raises `UsageError` for a conversation
        that the template refuses.
        """
        parts, roles = [], list[str]()
        prompt = self.default_system_prompt
        conversation = [(str(message["role"]), str(message["content"])) for message in messages]
        first = conversation[0][0] if conversation else "assistant"
        if prompt is not None and first != "system":
            conversation.insert(0, ("system", prompt))
        for role, content in conversation:
            around = self._around(roles, role)
            text = TRIMS[around.trim](content)
            if not text:
                around.refuse_empty(role)
            parts += [around.prefix, around.literal, text, around.suffix]
            roles.append(role)
        if generate:
            around = self._around(roles, "assistant")
            parts += [around.prefix, around.cue]
        return "".join(parts)

    def _around(self, roles: Sequence[str], role: str) -> Around:
        around = self.around(roles, role)
        if around.refusal is not None:
            raise UsageError(around.refusal)
        return around


def _checked(name: str, value: object, good: object, allowed: str) -> object:
    if not good:
        raise UsageError(f"ChatTemplate: {name}={value!r} is not allowed; {name} is {allowed}")
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _texts(name: str, given: object) -> dict[str, str]:
    if given is None:
        return {}
    good = isinstance(given, Mapping) and all(
        _is_text(role) and _is_text(text) for role, text in given.items()
    )
    _checked(name, given, good, "a dict from a role to a str")
    assert isinstance(given, Mapping), "it has been checked"
    return dict(given)


def _stops(given: object) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(texts, (list, tuple)) or not all(_is_text(t) and t for t in texts):
        raise UsageError(
            f"ChatTemplate: stop={given!r} is not allowed; stop is a non-empty str, or a list of "
            "such"
        )
    return tuple(texts)


def _both(given: object) -> tuple[dict[str, str], dict[str, str]]:
    good = isinstance(given, Mapping) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given.values()
    )
    allowed = "a dict from a role to the pair of its prefix and suffix"
    _checked("role_prefix_and_suffix", given, good, allowed)
    assert isinstance(given, Mapping), "it has been checked"
    return (
        {role: prefix for role, (prefix, _) in given.items()},
        {role: suffix for role, (_, suffix) in given.items()},
    )


PLAIN = ChatTemplate(
    name="plain",
    prefixes={"system": "SYSTEM:", "user": "USER:", "assistant": "ASSISTANT:"},
    suffixes={"system": "\n", "user": "\n", "assistant": "\n"},
)
"""For models without a chat template: readable role labels."""

CHATML = ChatTemplate(
    name="chatml",
    prefixes={role: f"<|im_start|>{role}\n" for role in ROLES},
    suffixes=dict.fromkeys(ROLES, "<|im_end|>\n"),
    stop=("<|im_end|>",),
)
