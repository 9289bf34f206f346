"""Views as HTML, for notebooks: self-contained, without scripts, everything escaped.

Owns the elements and their style. What is nested in what is the outline's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TypeVar

from sgdsl.draw import left_out
from sgdsl.labels import label
from sgdsl.nodes import Node, printable
from sgdsl.outline import Item, by_branch, lines, merge_alike, outline, title

E = TypeVar("E")

_MAX_TEXT = 400

_STYLES = {
    "box": "font-family:monospace;font-size:13px;line-height:1.5;white-space:pre-wrap",
    "in": "border-left:1px solid #8884;margin-left:.4em;padding-left:.9em",
    "word": "display:inline-block;min-width:4.5em;color:#888",
    "gen": "display:inline-block;min-width:4.5em;color:#0a7d4b;font-weight:bold",
    "select": "display:inline-block;min-width:4.5em;color:#0a5fb0;font-weight:bold",
    "error": "color:#c22",
    "fact": "color:#888",
}
"""On each element by itself, so that nothing of a page's own style is changed."""


def graph_html(head: str, nodes: Sequence[Node], *, max_nodes: int) -> str:
    """The tree of `nodes` under `head`; branches and messages can be folded."""
    root = outline(by_branch(nodes), lambda node: node)
    merge_alike(root, lambda node: " ".join(label(node)))
    return tree_html(span("bold", head), root, _row, max_nodes=max_nodes)


def untraced_html(head: str, reason: str) -> str:
    """A program that has no graph without arguments."""
    reason = f"no graph without arguments: {reason}"
    box = _STYLES["box"]
    return f'<div style="{box}"><div>{span("bold", head)}</div>{span("error", reason)}</div>'


def tree_html(
    head: str, root: Item[E], row: Callable[[E], str], *, max_nodes: int, note: str = ""
) -> str:
    """`head`, `note` and what `row` gives are HTML."""
    parts = [f'<div style="{_STYLES["box"]}"><div>{head}</div>{note}']
    depth = 1
    for line in lines(root, max_nodes=max_nodes):
        while depth > len(line.lasts):
            parts.append("</div></details>")
            depth -= 1
        item = line.item
        if item is None:
            parts.append(f"<div>{span('fact', left_out(line.num_left_out))}</div>")
            continue
        shown = span("fact", title(item)) if item.entry is None else row(item.entry)
        if item.children:
            inside = f'<div style="{_STYLES["in"]}">'
            parts.append(f"<details open><summary>{shown}</summary>{inside}")
            depth += 1
        else:
            parts.append(f"<div>{shown}</div>")
    parts += ["</div></details>"] * (depth - 1)
    return "".join([*parts, "</div>"])


def span(style: str, text: str) -> str:
    """`text`, escaped, in one of the styles."""
    shown = printable(text)
    if len(shown) > _MAX_TEXT:
        shown = shown[: _MAX_TEXT - 1] + "…"
    if style not in _STYLES:
        return f"<b>{escape(shown)}</b>"
    return f'<span style="{_STYLES[style]}">{escape(shown)}</span>'


def plain(text: str) -> str:
    """`text`, escaped."""
    return escape(printable(text))


def word_html(word: str) -> str:
    """The word that says what a node does."""
    return span(word if word in ("gen", "select") else "word", word)


def _row(node: Node) -> str:
    word, rest = label(node)
    return f"{word_html(word)} {plain(rest)}"
