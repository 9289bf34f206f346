"""The project's own pages as data: their sections, fenced blocks and links.

Owns the little of Markdown that README.md and docs/ use. Knows nothing of what a block means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"```(?P<info>.*)")
_HEADING = re.compile(r"#+ (?P<title>.+)")
_LINK = re.compile(r"\[[^\]]+\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; `words` is its info string, the language first. `line` of its first line."""

    words: tuple[str, ...]
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""


@dataclass
class Section:
    """What stands under one heading of the second level (or before the first of them)."""

    page: Path
    title: str
    blocks: list[Block] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page.stem}: {self.title}"


def sections_of(page: Path) -> list[Section]:
    """The page, cut at its `## ` headings."""
    sections = [Section(page, "top")]
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    for number, line in lines:
        if line.startswith("## "):
            sections.append(Section(page, line[3:]))
        if fence := _FENCE.fullmatch(line):
            body = []
            for _, inside in lines:
                if inside == "```":
                    break
                body.append(inside)
            else:
                raise AssertionError(f"{page.name}:{number}: the block is not closed")
            words = tuple(fence["info"].split())
            sections[-1].blocks.append(Block(words, "\n".join(body) + "\n", number + 1))
        else:
            sections[-1].prose.append(line)
    return sections


def section(page: str, title: str) -> Section:
    """The section of `docs/` or the README with that title."""
    path = next(each for each in PAGES if each.name == page)
    return next(each for each in sections_of(path) if each.title == title)


def links_of(page: Path) -> Iterator[str]:
    """Where the page points to, outside of its fenced blocks."""
    for each in sections_of(page):
        yield from (found["target"] for found in _LINK.finditer("\n".join(each.prose)))


def anchors_of(page: Path) -> set[str]:
    """What may stand behind `#` in a link to the page, by GitHub's rule."""
    found = set()
    for each in sections_of(page):
        for line in each.prose:
            if heading := _HEADING.fullmatch(line):
                kept = re.sub(r"[^\w\- ]", "", heading["title"].lower())
                found.add(kept.replace(" ", "-"))
    return found


def code_spans(each: Section) -> set[str]:
    """Everything in single backticks."""
    return set(re.findall(r"`([^`]+)`", "\n".join(each.prose)))
