"""Free text with constrained regions in it: tool calls. Owns how the two alternate.

Free text is read by an automaton of the triggers. Where the last character of a trigger is written,
nothing may follow but the rest of a tag that begins with it; behind the tag's end, free text begins
anew (so no trigger reaches across that border). The automaton works on characters, so the text is
whole UTF-8, and is unfolded as a reference.

The semantics are those of xgrammar's structural tags (`triggered_tags`: triggers, tags,
`at_least_one`, `stop_after_first`), with counts of calls.
Source: A. Aho, M. Corasick, "Efficient string matching", 1975.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grammars.algebra import Algebra
from grammars.compose import Part, check_bounds, check_part, lower_part
from grammars.constraint import Constraint
from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.json_values import is_text
from grammars.tag_rules import FreeText
from grammars.trigger_automaton import TriggerAutomaton


@dataclass(frozen=True)
class Tag:
    """A constrained region: `begin`, a text of `content`, `end`.

    Raises GrammarError when `begin` is empty or a part is neither a text nor a constraint.
    """

    begin: str
    content: Part
    end: str

    def __post_init__(self) -> None:
        texts: dict[str, object] = {"begin": self.begin, "end": self.end}
        for name, text in texts.items():
            if not isinstance(text, str) or not is_text(text):
                raise GrammarError(f"Tag got {name}={text!r:.80}; give a str")
        if not self.begin:
            raise GrammarError("Tag got begin=''; give the text that it begins with")
        check_part(self.content, "the content of a Tag")

    def lower_after(self, algebra: Algebra, written: str) -> Expr:
        """What remains of the tag after the first characters of its beginning."""
        assert self.begin.startswith(written), "a trigger is the beginning of its tags"
        rest = algebra.literal(self.begin[len(written) :].encode())
        return algebra.sequence(
            [rest, lower_part(algebra, self.content), algebra.literal(self.end.encode())]
        )


@dataclass(frozen=True, init=False)
class StructuralTags(Constraint):
    """Free text in which every trigger begins one of the tags.

    `triggers`: the texts that must not stand in free text otherwise; by default the tags' own
    beginnings. Each tag begins with exactly one of them. From `min_calls` to `max_calls` (None: any
    number of) tags are written; beyond the last, free text holds no trigger. With
    `stop_after_first` the text ends with its first tag. Raises GrammarError for tags and triggers
    that do not go together.
    """

    tags: tuple[Tag, ...]
    triggers: tuple[str, ...]
    min_calls: int
    max_calls: int | None
    stop_after_first: bool

    def __init__(
        self,
        tags: Sequence[Tag],
        triggers: Sequence[str] | None = None,
        *,
        min_calls: int = 0,
        max_calls: int | None = None,
        stop_after_first: bool = False,
    ) -> None:
        tags = tuple(tags)
        if not tags or not all(isinstance(tag, Tag) for tag in tags):
            raise GrammarError(f"StructuralTags got tags={tags!r:.80}; give a sequence of Tag")
        check_bounds("StructuralTags", min_calls, max_calls)
        if stop_after_first and (min_calls > 1 or max_calls not in (None, 1)):
            raise GrammarError(
                f"stop_after_first allows one call, not min_calls={min_calls}, "
                f"max_calls={max_calls}; leave one of them out"
            )
        object.__setattr__(self, "tags", tags)
        object.__setattr__(self, "triggers", _triggers(tags, triggers))
        object.__setattr__(self, "min_calls", min_calls)
        object.__setattr__(self, "max_calls", 1 if stop_after_first else max_calls)
        object.__setattr__(self, "stop_after_first", bool(stop_after_first))

    def lower(self, algebra: Algebra) -> Expr:
        calls = [
            algebra.union(
                [t.lower_after(algebra, trigger) for t in self.tags if t.begin.startswith(trigger)]
            )
            for trigger in self.triggers
        ]
        return FreeText(
            algebra,
            TriggerAutomaton(self.triggers),
            calls,
            min_calls=self.min_calls,
            max_calls=self.max_calls,
            ends_after_call=self.stop_after_first,
        ).start


def _triggers(tags: tuple[Tag, ...], given: Sequence[str] | None) -> tuple[str, ...]:
    """The triggers, checked against each other and the tags."""
    if given is None:
        begins = sorted({tag.begin for tag in tags})  # a beginning of others comes before them
        given = []
        for begin in begins:
            if not (given and begin.startswith(given[-1])):
                given.append(begin)
    texts: list[object] = [] if isinstance(given, str) else list(given)
    if not texts or not all(isinstance(text, str) and text and is_text(text) for text in texts):
        raise GrammarError(f"StructuralTags got triggers={given!r:.80}; give a sequence of str")
    triggers = tuple(dict.fromkeys(given))
    for trigger in triggers:
        inside = next((other for other in triggers if trigger in other and trigger != other), None)
        if inside is not None:
            raise GrammarError(
                f"the trigger {trigger!r} stands in the trigger {inside!r}, which could never be "
                "written; leave one of them out"
            )
        if not any(tag.begin.startswith(trigger) for tag in tags):
            raise GrammarError(
                f"no tag begins with the trigger {trigger!r}; add one or leave it out"
            )
    for tag in tags:
        if not any(tag.begin.startswith(trigger) for trigger in triggers):
            raise GrammarError(
                f"the tag {tag.begin!r} begins with no trigger; give the beginning of it as one"
            )
    return triggers
