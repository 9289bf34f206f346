"""The prefix cache: pages of KV, addressed by the tokens that lead to them (RadixAttention).

Owns the free pages, the trees of cached ones, one for every salt (what is found from one root is
what was computed under it), and the copies that are asked for. Bookkeeping only: a page is a number
here, the tensors are elsewhere. Every edge of a tree is one whole page of tokens, so a node never
splits. A node is locked by the sequences that use its page; locks are path-closed (whoever locks a
node locks its ancestors), so everything unlocked can be evicted: leaves first, in the order of
`eviction`.

A page that its sequence has left before it was full is a leaf too, with a shorter key. Nobody goes
on from it or locks it for long: whoever shares its first tokens, or those of a whole page, has them
copied into a page of its own.

Where there is a host tier, a page that is evicted is copied to the host, and its node stays in the
tree without a page of the pool until it is fetched. The nodes of any path whose pages are in the
pool come before those whose pages are not.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence as Tokens
from typing import Protocol

from runtime.cache.copies import Copy
from runtime.cache.eviction import EVICTIONS, EvictionOrder, Heat
from runtime.cache.host import HostPages
from runtime.cache.nodes import PageKey, PageNode, Root

Leaf = tuple[Heat, int, int, PageNode]
"""A leaf that may be evicted, in the order in which that happens."""


class Observer(Protocol):
    """Who is told what becomes of the nodes that have `waiters`."""

    def grown(self, node: PageNode) -> None:
        """The page that some waiters of its parent would go on with is cached."""

    def dropped(self, node: PageNode) -> None:
        """A node with waiters is evicted."""


class PrefixCache:
    """`num_pages` pages of `page_size` tokens each; for those evicted `num_host_pages`, numbered on
    from there. With `reuse=False` nothing is ever found. `eviction`: an order of `EVICTIONS`.
    """

    def __init__(
        self,
        *,
        num_pages: int,
        page_size: int,
        reuse: bool = True,
        num_host_pages: int = 0,
        eviction: str = "lfu",
    ) -> None:
        assert num_pages > 0, "there is something to own"
        assert page_size > 0, "a page holds a token"
        self.num_pages = num_pages
        self.page_size = page_size
        self.reuse = reuse
        self.root = Root("")
        """Of those without a salt; it stays."""
        self._roots = {"": self.root}
        self.observer: Observer | None = None
        self.copies: list[Copy] = []
        """Asked for, in order; whoever carries them out takes them away."""
        self.num_cached = 0
        self.num_evicted = 0
        """Cached pages that had to give way to others, since the start."""
        self._order: EvictionOrder = EVICTIONS[eviction](num_pages)
        self.host: HostPages[PageNode] | None = None
        if reuse and num_host_pages:
            self.host = HostPages(first=num_pages, num_pages=num_host_pages)
        self._free = list(range(num_pages - 1, -1, -1))
        self._num_unlocked = 0
        self._leaves: list[Leaf] = []  # heap; entries may be out of date
        self._clock = itertools.count(1)
        self._births = itertools.count(1)

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_available(self) -> int:
        """Pages that `allocate` can give: free ones, and cached ones that no one has locked."""
        return len(self._free) + self._num_unlocked

    def is_on_host(self, page: int) -> bool:
        return page >= self.num_pages

    def enter(self, salt: str) -> None:
        """Somebody is going to ask for pages under this salt, until `leave`."""
        root = self._roots.get(salt)
        if root is None:
            root = self._roots[salt] = Root(salt)
        root.locks += 1

    def leave(self, salt: str) -> None:
        root = self._roots[salt]
        assert root.locks > 0, "only who has entered leaves"
        root.locks -= 1
        self._drop_empty(root)

    def root_of(self, salt: str) -> PageNode:
        """Of a salt under which somebody has entered, or none."""
        return self._roots[salt]

    @property
    def num_salts(self) -> int:
        """Those that have a root."""
        return len(self._roots) - 1

    def match(self, tokens: Tokens[int], limit: int, salt: str = "") -> list[PageNode]:
        """The longest cached path of whole pages within the first `limit` tokens, of those that
        were computed under the same salt. Locks nothing.
        """
        node: PageNode | None = self._roots.get(salt)
        size, found = self.page_size, list[PageNode]()
        if not self.reuse or node is None:
            return found
        for start in range(0, limit - size + 1, size):
            child = node.children.get(tuple(tokens[start : start + size]))
            if child is None:
                break
            found.append(child)
            node = child
        return found

    def beginning(self, node: PageNode, tokens: Tokens[int]) -> tuple[PageNode, int] | None:
        """The child of `node` that shares most first tokens with these, and how many; if one does.
        Locks nothing.
        """
        found = node.keys.closest(tuple(tokens))
        return None if found is None else (node.children[found[0]], found[1])

    def copy(self, source: int, target: int, num_slots: int) -> None:
        """Have the first slots of a page copied before the next tokens are computed."""
        assert 0 < num_slots <= self.page_size, "a page has so many slots"
        if source != target:  # what was evicted for the one who copies it
            self.copies.append(Copy(source, target, num_slots))

    def lock(self, node: PageNode) -> None:
        if node.locks == 0:
            if node.page >= 0:
                self._num_unlocked -= 1
            else:
                assert self.host is not None, "a node has a page somewhere"
                self.host.hold(node.host)
        node.locks += 1

    def use(self, node: PageNode, user: int, onward: Tokens[int]) -> None:
        """A run, `user`, has locked the node and goes on from it with the tokens `onward`."""
        self._order.used(node, user, hash(tuple(onward)))

    def unlock(self, node: PageNode) -> None:
        assert node.locks > 0, "only what is locked is unlocked"
        node.locks -= 1
        if node.locks > 0:
            return
        if node.page >= 0:
            node.used = next(self._clock)
            self._num_unlocked += 1
            self._offer(node)
        else:
            assert self.host is not None, "a node has a page somewhere"
            self.host.offer(node.host, node)

    def fetch(self, node: PageNode) -> None:
        """Bring the page of a locked node, behind one in the pool, into the pool."""
        assert self.host is not None and node.locks, "it is on the host, and stays there until then"
        page = self.allocate()
        assert page is not None, "whoever fetches has seen that there is a page"
        self.copy(node.host, page, self.page_size)
        self._enter_pool(node, page)
        self.host.offer(node.host, node)

    def allocate(self) -> int | None:
        """A page for new KV, evicting another one if need be; None if all are in use."""
        if not self._free:
            if not self._evict():
                return None
            self.num_evicted += 1
            self._order.evicted()
        return self._free.pop()

    def free(self, page: int) -> None:
        """Take a page back that is not in the tree."""
        self._free.append(page)

    def insert(
        self, parent: PageNode, key: PageKey, page: int, *, user: int | None = None
    ) -> PageNode:
        """Cache `page` as the continuation `key` of `parent`, locked once for the caller, the run
        `user` if one computed it.

        When that continuation is cached already, its page is the one to use: the given one is
        freed.
        """
        child = parent.children.get(key) if self.reuse else None
        if child is not None:
            if child.page >= 0:
                self.free(page)
            else:  # on the host; this one was computed again
                self._enter_pool(child, page)
            self.lock(child)
            return child
        child = self._grow(parent, key, page)
        self._order.cached(child, user)
        self.lock(child)
        if parent.waiters and key in parent.waiters:
            assert self.observer is not None, "waiters are an observer's"
            self.observer.grown(child)
        return child

    def insert_partial(self, parent: PageNode, key: PageKey, page: int) -> None:
        """Cache `page`, of which no more than the slots of `key` were computed, behind `parent`,
        which is locked. It is not locked itself; it is freed if another page begins like it.
        """
        assert 0 < len(key) < self.page_size, "the page is not full, and not empty"
        if not self.reuse or parent.keys.covers(key):
            self.free(page)
            return
        child = self._grow(parent, key, page)
        self._order.cached(child, None)
        child.used = next(self._clock)
        self._offer(child)

    def _grow(self, parent: PageNode, key: PageKey, page: int) -> PageNode:
        """A new child. The page that only holds its beginning is of no use any more."""
        child = PageNode(key, -1, parent, next(self._births))
        self._enter_pool(child, page)
        if self.reuse:
            shorter = parent.keys.beginning_of(key)
            parent.children[key] = child
            if shorter is not None:
                assert not parent.children[shorter].locks, "what is not full is nobody's"
                self._drop(parent.children[shorter])
            parent.keys.add(key)
        return child

    def flush(self) -> None:
        """Forget everything that is not in use, and all that is on the host."""
        while self._give_up_first():
            pass
        while (node := self._next_leaf()) is not None:
            self._drop(node)

    def _enter_pool(self, node: PageNode, page: int) -> None:
        node.page = page
        self.num_cached += 1
        self._num_unlocked += node.locks == 0
        assert node.parent is not None, "the root is no page"
        node.parent.num_behind += 1

    def _leave_pool(self, node: PageNode) -> None:
        self.free(node.page)
        node.page = -1
        self.num_cached -= 1
        self._num_unlocked -= 1
        assert node.parent is not None, "the root is no page"
        node.parent.num_behind -= 1

    def _offer(self, node: PageNode) -> None:
        """`node` was unlocked, or has one less behind it: it may be a leaf to evict now."""
        if not self.reuse:
            self._drop(node)
        elif _is_leaf(node):
            heapq.heappush(self._leaves, _leaf(node))
            if len(self._leaves) > 2 * self.num_pages + 64:  # mostly entries out of date
                self._leaves = [_leaf(leaf) for leaf in self.nodes() if _is_leaf(leaf)]
                heapq.heapify(self._leaves)

    def _next_leaf(self) -> PageNode | None:
        while self._leaves:
            _, used, _, node = heapq.heappop(self._leaves)
            if node.used == used and _is_leaf(node):
                return node
        return None

    def _evict(self) -> bool:
        node = self._next_leaf()
        if node is None:
            return False
        if self._keep_on_host(node):
            self._leave_pool(node)
            self._offer_parent(node)
        else:
            self._drop(node)
        return True

    def _keep_on_host(self, node: PageNode) -> bool:
        """Whether the page, which is evicted, has its copy on the host now."""
        if self.host is None or len(node.key) < self.page_size:
            return False
        if node.host < 0:
            if not self.host.num_free and not self._give_up_first():
                return False
            node.host = self.host.take()
            self.copy(node.page, node.host, self.page_size)
        self.host.offer(node.host, node)
        return True

    def _give_up_first(self) -> bool:
        """Free the page of the host that is to be given up first."""
        if self.host is None or (node := self.host.first_owner) is None:
            return False
        if node.page < 0:
            self._drop(node)
        else:
            self.host.free(node.host)
            node.host = -1
        return True

    def _drop(self, node: PageNode) -> None:
        assert not node.children, "what leads to others stays"
        parent = node.parent
        assert parent is not None, "the root is no page"
        if node.page >= 0:
            self._leave_pool(node)
        if node.host >= 0:
            assert self.host is not None, "a page of the host is the host tier's"
            self.host.free(node.host)
            node.host = -1
        if self.reuse:
            del parent.children[node.key]
            parent.keys.remove(node.key)
            if node.waiters:
                assert self.observer is not None, "waiters are an observer's"
                self.observer.dropped(node)
            self._offer_parent(node)

    def _offer_parent(self, node: PageNode) -> None:
        parent = node.parent
        if isinstance(parent, Root):
            self._drop_empty(parent)
        elif parent is not None and _is_leaf(parent):
            self._offer(parent)

    def _drop_empty(self, root: Root) -> None:
        if root is not self.root and not root.locks and not root.children:
            del self._roots[root.salt]

    def nodes(self) -> Iterator[PageNode]:
        stack = [child for root in self._roots.values() for child in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()

    def check_integrity(self) -> None:
        """Pages have one owner each, the counts are right, locks are path-closed, and what is not
        full is a leaf that nobody uses.
        """
        pages: list[int] = list(self._free)
        unlocked = 0
        for root in self._roots.values():
            assert root is self.root or root.locks or root.children, "an empty root goes"
        for node in self.nodes():
            pages += [node.page] if node.page >= 0 else []
            unlocked += node.locks == 0 and node.page >= 0
            assert node.source >= 0, "a node has a page somewhere"
            assert node.locks >= 0, "locks are counted"
            assert node.page >= 0 or not node.locks, "what is in use is in the pool"
            assert node.parent is not None, "only roots have no parent"
            assert isinstance(node.parent, Root) or node.parent.locks >= node.locks, (
                "whoever locks a node locks its ancestors"
            )
            assert node.page < 0 or isinstance(node.parent, Root) or node.parent.page >= 0, (
                "what leads to a page in the pool is in the pool"
            )
            assert len(node.key) == self.page_size or not (node.children or node.locks), (
                "nobody goes on from a page that is not full"
            )
        for node in (*self._roots.values(), *self.nodes()):
            keys, children = list(node.keys), node.children
            assert keys == sorted(children), "a node knows its children's keys"
            assert all(b[: len(a)] != a for a, b in itertools.pairwise(keys)), "none is there twice"
            num_behind = sum(child.page >= 0 for child in children.values())
            assert not self.reuse or node.num_behind == num_behind, "children in the pool"
        assert len(pages) == len(set(pages)), "a page has one owner"
        assert not self.reuse or unlocked == self._num_unlocked, "unlocked pages are counted"
        if self.host is not None:
            self.host.check_integrity([node.host for node in self.nodes() if node.host >= 0])


def _leaf(node: PageNode) -> Leaf:
    return node.heat, node.used, id(node), node


def _is_leaf(node: PageNode) -> bool:
    """It may be evicted from the pool."""
    return node.page >= 0 and not node.locks and not node.num_behind
