"""What a chat template puts around messages, read off conversations that it has rendered.

Owns the reading: contents that can be recognised stand in for messages, and what stands between
them is the template. Every text is read where a model would go on (with the generation prompt),
since that is what has to be right. The result is compared with further conversations; a template
that does more than to put text around messages is refused. Knows nothing of how it is rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from runtime.model.template_probes import (
    ALONE,
    BEGINNINGS,
    EDGE,
    HISTORIES,
    LATE,
    PROBES,
    Probe,
    Roles,
    edged,
    emptied,
    split,
)
from runtime.model.template_rendering import Rendered
from sgdsl.chat import ROLES, Around, ChatTemplate, Turn

_CHANGES = "it changes or moves the contents of such a conversation, or leaves one out"


_DEPENDS = "what it puts around a message depends on more than the roles of those before it"


class NotAroundError(Exception):
    """The template does more than to put text around messages; the text says what."""


def read_template(
    name: str, render: Callable[[Sequence[Probe]], Sequence[Rendered]]
) -> ChatTemplate:
    """The template, where `render` gives the texts of conversations, with or without the generation
    prompt. Raises `NotAroundError` for one that does more than to put text around messages.
    """
    reading = _Reading(dict(zip(PROBES, render(PROBES), strict=True)))
    turns = reading.turns()
    if all(around.refusal is not None for around in turns.values()):
        raise NotAroundError(reading.errors.get(("user",), _DEPENDS))
    template = _with_default_prompt(_template(name, turns), turns)
    reading.confirm(template)
    return template


class _Reading:
    """The texts between the contents of all conversations that could be rendered; `errors`: why
    the others could not.
    """

    def __init__(self, rendered: Mapping[Probe, Rendered]) -> None:
        self._rendered = rendered
        self.errors: dict[Roles, str] = {}
        self._between: dict[Roles, list[str]] = {}
        self._ends: dict[Turn, list[str]] = {}
        for roles in (*HISTORIES, *LATE):
            if (parts := self._parts(roles)) is not None:
                self._between[roles] = parts
        for roles in BEGINNINGS:
            ended = rendered[edged(roles), False]
            if ended.error is None and (parts := split(ended.text, len(roles))):
                self._ends.setdefault(_turn(roles, -1), []).append(parts[-1])

    def _parts(self, roles: Roles) -> list[str] | None:
        found = self._rendered[edged(roles), True]
        parts = split(found.text, len(roles)) if found.error is None else None
        if parts is None:
            self.errors[roles] = found.error or _CHANGES
        return parts

    def turns(self) -> dict[Turn, Around]:
        """What stands around each turn, or why it cannot be there."""
        found = self._openings(self._suffixes())
        if any(around.refusal is not None for around in found.values()):
            found = self._openings({})  # what closes a message may depend on what follows it
        for roles in HISTORIES:
            if roles in self.errors and roles != ALONE:
                _blame(found, roles, self.errors[roles])
        for roles in HISTORIES:
            self._read_trims(found, roles)
            self._read_empty(found, roles)
        for roles in LATE:
            self._read_late(found, roles)
        return found

    def _openings(self, suffixes: Mapping[Turn, str]) -> dict[Turn, Around]:
        """All turns that there are, where `suffixes` close them (otherwise: nothing)."""
        literal: dict[Turn, set[str]] = {}
        cue: dict[Turn, set[str]] = {}
        for last, following, text, generated in self._joints():
            opening = text if last is None else text.removeprefix(suffixes.get(last, ""))
            (cue if generated else literal).setdefault(following, set()).add(opening)
        found = {
            turn: _around(turn, literal.get(turn, set()), cue.get(turn, set()))
            for turn in (*literal, *(cue.keys() - literal.keys()))
        }
        return {turn: replace(a, suffix=suffixes.get(turn, "")) for turn, a in found.items()}

    def _joints(self) -> Iterator[tuple[Turn | None, Turn, str, bool]]:
        """All texts between two contents: the turns before and behind, and whether the model is
        what follows.
        """
        for roles in HISTORIES:
            if roles not in self._between:
                continue
            turns = [_turn(roles, i) for i in range(len(roles))]
            for last, turn, text in zip([None, *turns], turns, self._between[roles], strict=False):
                yield last, turn, text, False
            yield turns[-1], Turn.after(roles, "assistant"), self._between[roles][-1], True

    def _suffixes(self) -> dict[Turn, str]:
        """What closes a turn, whatever follows."""
        following: dict[Turn, list[str]] = {}
        for last, _, text, _ in self._joints():
            if last is not None:
                following.setdefault(last, []).append(text)
        return {
            turn: _common([*texts, *self._ends.get(turn, [])]) for turn, texts in following.items()
        }

    def _read_trims(self, found: dict[Turn, Around], roles: Roles) -> None:
        """What becomes of white space at the edges of each content."""
        plain = self._between.get(roles)
        for at in range(len(roles) if plain is not None else 0):
            turn = _turn(roles, at)
            around, text = found[turn], self._rendered.get((edged(roles, at), True))
            if around.refusal is not None or text is None:
                continue
            assert plain is not None, "it has been rendered"
            parts = split(text.text, len(roles)) if text.error is None else None
            trim = _trim(plain, parts, at)
            if trim is None:
                found[turn] = _refused(turn, "it changes the white space in contents")
            else:
                found[turn] = replace(around, trim=trim)

    def _read_empty(self, found: dict[Turn, Around], roles: Roles) -> None:
        """Where a content is empty, the same must stand around it."""
        plain = self._between.get(roles)
        for at in range(len(roles) if plain is not None else 0):
            turn, text = _turn(roles, at), self._rendered.get((emptied(roles, at), True))
            if text is None:
                continue
            assert plain is not None, "it has been rendered"
            parts = split(text.text, len(roles), without=at) if text.error is None else None
            if parts != [*plain[:at], plain[at] + plain[at + 1], *plain[at + 2 :]]:
                found[turn] = replace(found[turn], empty=False)

    def _read_late(self, found: dict[Turn, Around], roles: Roles) -> None:
        """A system message that is not the first: what is known of the others must hold."""
        at = len(roles) - 2
        turn, before, after = (_turn(roles, i) for i in (at, at - 1, at + 1))
        known = [found.get(each) for each in (before, after)]
        if turn in found or any(each is None or each.refusal for each in known):
            return
        found[turn] = _refused(turn, self.errors.get(roles, "it moves a system message there"))
        if roles not in self._between:
            return
        (suffix, _), (_, opening) = ((a.suffix, a.prefix + a.literal) for a in known if a)
        first, second = self._between[roles][at : at + 2]
        text = self._rendered[edged(roles, at), True]
        parts = split(text.text, len(roles)) if text.error is None else None
        trim = _trim(self._between[roles], parts, at)
        if trim is not None and first.startswith(suffix) and second.endswith(opening):
            end = second.removesuffix(opening)
            found[turn] = Around(first.removeprefix(suffix), end, trim=trim)

    def confirm(self, template: ChatTemplate) -> None:
        """Raises `NotAroundError` if conversations come out in another way."""
        for (conversation, generate), rendered in self._rendered.items():
            roles = [role for role, _ in conversation]
            turns = enumerate([*roles, "assistant"])
            if not generate or any(template.around(roles[:i], r).refusal for i, r in turns):
                continue
            messages = [{"role": role, "content": content} for role, content in conversation]
            if not all(content for _, content in conversation):
                continue  # those are refused where they make a difference
            made = template.get_prompt(messages, generate=True)
            if rendered.error is not None or rendered.text != made:
                raise NotAroundError(
                    "it does more than to put text around each message: a conversation of "
                    f"{', '.join(roles)} comes out in another way"
                )


def _turn(roles: Sequence[str], index: int) -> Turn:
    index %= len(roles)
    return Turn.after(roles[:index], roles[index])


def _common(texts: list[str]) -> str:
    """How all of these begin. Never a part of what looks like a mark, as `<|end|>` or `[INST]`."""
    least, most = min(texts), max(texts)
    size = next(
        (i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), len(least)
    )
    common = least[:size]
    if common in texts:
        return common
    return common[: max(common.rfind(end) for end in "\n>]") + 1]


def _around(turn: Turn, literal: set[str], cue: set[str]) -> Around:
    """One turn, from what was seen before it: where its text is given, and where it is written."""
    if len(literal) > 1 or len(cue) > 1:
        return _refused(turn, "it opens such a message in more ways than one")
    (given,) = literal or cue
    (written,) = cue or literal
    prefix = ""  # a common beginning might end inside of a special token
    if given.startswith(written) or written.startswith(given):
        prefix = min(given, written, key=len)
    return Around(prefix, literal=given.removeprefix(prefix), cue=written.removeprefix(prefix))


def _refused(turn: Turn, reason: str) -> Around:
    place = "first" if turn.previous is None else f"behind one of {turn.previous!r}"
    if turn.has_system and turn.previous != "system":
        place += ", in a conversation with a system message"
    return Around(
        refusal=f"the model's chat template takes no message of {turn.role!r} {place}: {reason}; "
        "order the messages in another way, or give the runtime another chat_template"
    )


def _blame(found: dict[Turn, Around], roles: Roles, error: str) -> None:
    """The conversation cannot be: because of its first turn that is nowhere else, or its last."""
    for index in range(len(roles)):
        turn = _turn(roles, index)
        if turn not in found or index == len(roles) - 1:
            found[turn] = _refused(turn, error)
        if found[turn].refusal is not None:
            return


def _trim(plain: list[str], parts: list[str] | None, at: int) -> str | None:
    """Where the white space went around content `at`; None: something else became of it."""
    if parts is None:
        return None
    left = {plain[at]: True, plain[at] + EDGE: False}.get(parts[at])
    right = {plain[at + 1]: True, EDGE + plain[at + 1]: False}.get(parts[at + 1])
    if left is None or right is None:
        return None
    return "both" if left and right else "left" if left else "right" if right else ""


def _template(name: str, turns: dict[Turn, Around]) -> ChatTemplate:
    """With plain prefixes and suffixes where all turns of a role are alike."""
    typical: dict[str, Around] = {}
    for turn, around in turns.items():
        if around.refusal is None and (turn.role not in typical or turn.previous is not None):
            typical[turn.role] = around
    alike = len(typical) == len(ROLES) and all(
        around == Around(typical[turn.role].prefix, typical[turn.role].suffix)
        for turn, around in turns.items()
    )
    return ChatTemplate(
        name=name,
        prefixes={role: around.prefix + around.literal for role, around in typical.items()},
        suffixes={role: around.suffix for role, around in typical.items()},
        turns=None if alike else turns,
    )


def _with_default_prompt(template: ChatTemplate, turns: dict[Turn, Around]) -> ChatTemplate:
    """A system message that is there when nobody gives one becomes one of its own."""
    system, first = Turn(False, None, "system"), Turn(False, None, "user")
    known = [turns.get(each) for each in (system, first, Turn(True, "system", "user"))]
    if template.turns is None or any(each is None or each.refusal for each in known):
        return template
    before, opening, after = (a for a in known if a)
    end = before.suffix + after.prefix + after.literal
    whole = opening.prefix + opening.literal
    inside = whole.removeprefix(before.prefix).removesuffix(end)
    if not inside or before.prefix + inside + end != whole:
        return template
    never = {first, Turn(False, None, "assistant")}  # nothing but a system message is the first
    made = _template(
        template.name, {turn: around for turn, around in turns.items() if turn not in never}
    )
    return ChatTemplate(
        name=template.name,
        prefixes=made.prefixes,
        suffixes=made.suffixes,
        turns=made.turns,
        default_system_prompt=inside,
    )
