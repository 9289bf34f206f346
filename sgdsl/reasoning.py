"""Reasoning in front of an answer, told apart by the tags of a family of models.

Owns the tags and the split of a text, whole or as far as it has come. Knows nothing of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgdsl.errors import UsageError

SUFFIX = "_reasoning_content"
"""What the name of a gen's variable gets for that of its reasoning."""


@dataclass(frozen=True, slots=True)
class Tags:
    """What stands around the reasoning. `begun`: a text without the first tag begins inside: the
    prompt, or the model's habit, has opened it.
    """

    start: str
    end: str
    begun: bool = False

    def __repr__(self) -> str:
        return f"{self.start}...{self.end}"


_THINK = Tags("<think>", "</think>")
_THINKING = Tags("<think>", "</think>", begun=True)

MODEL_TYPES = {
    "deepseek-r1": _THINKING,
    "deepseek-v3": _THINK,
    "glm45": _THINK,
    "interns1": _THINK,
    "kimi": Tags("◁think▷", "◁/think▷"),
    "kimi_k2": _THINK,
    "mimo": _THINK,
    "minimax": _THINKING,
    "mistral": Tags("[THINK]", "[/THINK]"),
    "qwen3": _THINK,
    "qwen3-thinking": _THINKING,
    "step3": _THINKING,
    "step3p5": _THINKING,
}
"""The tags by SGLang's names of the model types."""


def tags_of(model_type: object) -> Tags:
    """The tags of a model type. Raises `UsageError` when there are none."""
    found = MODEL_TYPES.get(model_type.lower()) if isinstance(model_type, str) else None
    if found is None:
        raise UsageError(
            f"separate_reasoning: model_type={model_type!r} is not allowed; it is one of "
            f"{', '.join(MODEL_TYPES)}"
        )
    return found


@dataclass(frozen=True, slots=True)
class Split:
    """`rest_at`: where in the text the answer begins."""

    reasoning: str
    answer: str
    rest_at: int


def split(tags: Tags, text: str, *, final: bool) -> Split:
    """`text` in its parts, without white space around them. Not `final`: what is certain already,
    so that each part is a beginning of what it comes to. Without an end tag all is reasoning; a
    text that does not begin with the first tag is all answer, unless the tags are `begun`.
    """
    body = text.lstrip()
    if body.startswith(tags.start):
        body = body[len(tags.start) :]
    elif not final and tags.start.startswith(body):
        return Split("", "", 0)  # it may become the tag
    elif not tags.begun:
        return Split("", text, 0)
    end = body.find(tags.end)
    if end < 0:
        inside = body if final else body[: len(body) - _overlap(body, tags.end)]
        return Split(inside.strip(), "", len(text))
    rest = body[end + len(tags.end) :].lstrip()
    return Split(body[:end].strip(), rest.rstrip(), len(text) - len(rest))


def _overlap(text: str, tag: str) -> int:
    """The length of the longest end of `text` that may be the beginning of `tag`."""
    sizes = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(tag[:size])), 0)
