"""Texts that go on from one point, as a tree of tokens.

Owns which tokens the texts share, the order in which these are computed, and which log-probability
belongs to which text. Knows no sequence and no page.

A node is a token that others follow: a last one needs no computing, for its log-probability is what
the node before it says. Nodes come depth first. So whichever one a step begins with, all that it
needs of those before it is the path to the node that the last step ended with: a stack, in which a
node's KV lies at its depth, and no more pages than the longest text would have alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence as List


class TokenTree:
    """tokens, parents, depths: of each node; -1 is the parent of one that begins texts, which has
    depth 0. edges: every token that is scored, behind the point where all begin first, then behind
    node after node. paths: for each text the edges that spell it.
    """

    def __init__(self, texts: Iterable[List[int]]) -> None:
        children: list[dict[int, int]] = [{}]  # of the point, which is 0 here, and of what follows
        walks = [_walk(children, text) for text in texts]
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.edges: list[int] = []
        self._ends: list[int] = []  # of the edges behind the point, then behind each node
        places = [0] * len(children)  # of the edge that leads there
        stack = [(0, 0, -1, -1)]
        while stack:
            at, token, parent, depth = stack.pop()
            node = len(self.tokens) - (at == 0)
            if at:
                self.tokens.append(token)
                self.parents.append(parent)
                self.depths.append(depth)
            for following, child in children[at].items():
                places[child] = len(self.edges)
                self.edges.append(following)
            self._ends.append(len(self.edges))
            stack += [
                (child, following, node, depth + 1)
                for following, child in reversed(children[at].items())
                if children[child]
            ]
        self.paths = [[places[at] for at in walk] for walk in walks]

    def __len__(self) -> int:
        """How many tokens are to be computed."""
        return len(self.tokens)

    @property
    def height(self) -> int:
        """The longest path of nodes."""
        return max(self.depths, default=-1) + 1

    def behind(self, node: int) -> list[int]:
        """The tokens that follow the node; -1 is the point."""
        return self.edges[self.first_edge(node) : self._ends[node + 1]]

    def first_edge(self, node: int) -> int:
        """Where `edges` behind the node begin."""
        return self._ends[node] if node >= 0 else 0

    def path_to(self, node: int) -> list[int]:
        """The node and those before it that it follows, by depth."""
        path = []
        while node >= 0:
            path.append(node)
            node = self.parents[node]
        path.reverse()
        return path


def _walk(children: list[dict[int, int]], text: List[int]) -> list[int]:
    """Where each of the text's tokens leads to."""
    at, walk = 0, []
    for token in text:
        child = children[at].get(token)
        if child is None:
            child = children[at][token] = len(children)
            children.append({})
        walk.append(child)
        at = child
    return walk
