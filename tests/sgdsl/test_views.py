"""Graphs as trees, flowcharts and HTML: what is shown, what is escaped, and large ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import Graph, ProgramState, UsageError, function, gen, select
from sgdsl.draw import draw
from sgdsl.graph import Gen, Node, RoleEnd, ScopeEnd, Text
from sgdsl.html import graph_html
from sgdsl.mermaid import escape, to_mermaid
from sgdsl.outline import by_branch, outline, walk
from tests.sgdsl.naive import Step, perform, programs


@function
def review(s: ProgramState, text: str) -> None:
    s += sgl.system("Be brief.")
    with s.user():
        s += f"About {text}: "
        with s.var_scope("both"):
            s += gen("summary", 16, stop="\n") + select("mood", ["glad", "sad"])
    forks = s.fork(3)
    forks += "Why? " + gen("why", type=int)
    forks[2].append(" more")
    forks.join()
    s["stars"] = 5
    s += s.ref("summary")


def test_a_graph_is_drawn_as_a_tree() -> None:
    assert (
        review.trace().draw()
        == """\
review(text)
├─ role    system
│  └─ text    'Be brief.'
├─ role    user
│  ├─ text    'About {text}: '
│  └─ scope   both
│     ├─ gen     summary max_tokens=16 stop=('\\n',)
│     └─ select  mood ['glad', 'sad']
├─ fork    into 3
│  ├─ b1 and 1 alike
│  │  ├─ text    'Why? '
│  │  └─ gen     why type=int
│  └─ b3
│     ├─ text    'Why? '
│     ├─ gen     why type=int
│     └─ text    ' more'
├─ join    gather_variable
├─ assign  stars = 5
└─ ref     summary"""
    )


def test_a_graph_is_a_flowchart_in_mermaid() -> None:
    @function
    def small(s: ProgramState) -> None:
        with s.user():
            s += "Hi" + gen("x")
        forks = s.fork(2)
        forks[0].append("only here")
        forks.join()
        s += select("y", ["a"])

    assert (
        small.trace().to_mermaid()
        == """\
flowchart TD
  subgraph s0["role user"]
    n1["text 'Hi'"]
    n2(["gen x"])
  end
  n4{"fork into 2"}
  n5["text 'only here'"]
  n6{"join gather_variable"}
  n7{{"select y #91;'a'#93;"}}
  n1 --> n2
  n2 --> n4
  n4 -->|"b1"| n5
  n5 --> n6
  n4 --> n6
  n6 --> n7"""
    )


class Page(HTMLParser):
    """Checks that elements are nested, and collects tags and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HTML_TAGS = {"div", "b", "span", "details", "summary"}


def test_a_notebook_shows_the_tree() -> None:
    page = Page(review.trace()._repr_html_())
    assert page.tags == HTML_TAGS
    assert page.attributes == {"style", "open"}
    assert page.text.startswith("review(text)role systemtext 'Be brief.'role usertext")
    assert "b1 and 1 alike" in page.text


def test_a_notebook_shows_a_program_by_its_graph_or_says_why_there_is_none() -> None:
    assert review._repr_html_() == review.trace()._repr_html_()

    @function
    def reads(s: ProgramState, items: list[str]) -> None:
        for item in items:
            s += item

    page = Page(reads._repr_html_())
    assert page.text.startswith("reads(items)no graph without arguments: TraceError: argument")


HOSTILE = [
    "<script>alert(1)</script>",
    '"] --> evil["',
    "`end`\nend\nsubgraph x",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnihton",
    "&lt;b&gt; #quot; %% {{x}}",
    "```\n# heading",
    "click n0 call alert()",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    @function
    def body(s: ProgramState) -> None:
        s += text + gen(text)
        with s.var_scope(text):
            s += select("x", [text])
        s[text] = text

    graph = body.trace()
    drawn, chart, html = graph.draw(), graph.to_mermaid(), graph._repr_html_()
    assert all(line.isprintable() and len(line) < 200 for line in drawn.splitlines())
    assert len(drawn.splitlines()) == 6
    assert all(MERMAID_LINE.fullmatch(line) for line in chart.splitlines()[1:])
    assert len(chart.splitlines()) == 10
    page = Page(html)
    assert page.tags <= HTML_TAGS
    assert page.attributes <= {"style", "open"}
    assert all(line.isprintable() for line in str(graph).splitlines())


MERMAID_LABEL = r'"(?:[\w .,:=()+*/\'…-]|#\d+;)*"'
MERMAID_LINE = re.compile(
    rf" +(?:end|subgraph s\d+\[{MERMAID_LABEL}\]|\w+ -->(?:\|{MERMAID_LABEL}\|)? \w+"
    rf"|\w+(?:\[|\(\[|\{{\{{|\{{|\[\[){MERMAID_LABEL}(?:\]|\]\)|\}}\}}|\}}|\]\]))"
)


@given(st.text(max_size=60))
def test_a_label_in_mermaid_comes_back(text: str) -> None:
    label = escape(text)
    assert re.fullmatch(MERMAID_LABEL, f'"{label}"')
    back = re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label)
    if text.isprintable():
        assert back == text


@given(programs())
@settings(max_examples=60, deadline=None)
def test_every_node_of_a_graph_stands_in_its_views_once(steps: tuple[Step, ...]) -> None:
    @function
    def body(s: ProgramState) -> None:
        perform(s, steps, [])

    graph = body.trace()
    items = list(walk(outline(by_branch(graph.nodes), lambda node: node)))
    shown = [item.entry for item in items if item.entry is not None]
    assert {node.id for node in graph.nodes} - {node.id for node in shown} <= {
        node.id for node in graph.nodes if isinstance(node, RoleEnd | ScopeEnd)
    }
    assert len({node.id for node in shown}) == len(shown) == items[0].size
    chart = graph.to_mermaid(max_nodes=10_000)
    assert all(MERMAID_LINE.fullmatch(line) for line in chart.splitlines()[1:])
    assert chart.count("subgraph ") == chart.count(" end") - chart.count(" end of ")
    assert Page(graph._repr_html_()).tags <= HTML_TAGS
    drawn = graph.draw(max_nodes=10_000)
    assert "more node" not in drawn


@given(programs(), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_what_is_left_out_is_counted(steps: tuple[Step, ...], limit: int) -> None:
    @function
    def body(s: ProgramState) -> None:
        perform(s, steps, [])

    graph = body.trace()
    root = outline(by_branch(graph.nodes), lambda node: node)
    chart = to_mermaid(graph.nodes, max_nodes=limit)
    left = re.search(r"… (\d+) more", chart)
    assert min(limit, root.size) + (int(left[1]) if left else 0) == root.size


def deep(s: ProgramState) -> None:
    for _ in range(3000):
        (s,) = s.fork(1)
        s += "x"


def wide(s: ProgramState) -> None:
    forks = s.fork(2500)
    forks += lambda index: f"{index}" + gen("x")
    forks.join()


def alike(s: ProgramState) -> None:
    forks = s.fork(2500)
    forks += "Say: " + gen("x")
    forks.join()


def scoped(s: ProgramState) -> None:
    with ExitStack() as stack:
        for index in range(4000):
            stack.enter_context(s.var_scope(f"v{index}"))
        s += "x"


@pytest.mark.parametrize("body", [deep, wide, alike, scoped])
def test_large_graphs_are_shown_in_part(body: Callable[[ProgramState], None]) -> None:
    graph = function(body).trace()
    views = [graph.draw(), graph.to_mermaid(), graph._repr_html_()]
    printed = str(graph)
    assert max(map(len, views)) < 400_000
    assert len(printed) < 200 * len(graph.nodes)
    Page(views[2])
    if body is alike:
        assert "b1 and 2499 alike" in views[0]
    else:
        assert re.search(r"… [\d,]+ more nodes", views[0])


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "all"])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    graph = Graph("g", (), ())
    for view in (graph.draw, graph.to_mermaid):
        with pytest.raises(UsageError, match=r"max_nodes=.* is a whole number, at least 1"):
            view(max_nodes=limit)


def test_an_empty_graph_is_its_head() -> None:
    assert draw("g()", (), max_nodes=9) == "g()"
    assert to_mermaid((), max_nodes=9) == "flowchart TD"
    assert Page(graph_html("g()", (), max_nodes=9)).text == "g()"


def test_one_node_more_is_one_node() -> None:
    nodes: list[Node] = [Text(0, 0, None, "a"), Gen(1, 0, None, "x")]
    assert draw("g()", nodes, max_nodes=1).splitlines()[2] == "└─ … 1 more node"
