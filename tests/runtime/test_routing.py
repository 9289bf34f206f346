"""Routing: sharers stay together while that pays, work is spread, and nothing stays behind."""

from __future__ import annotations

from hypothesis import given, strategies as st

from runtime.routing import PrefixRouting, Sent

BLOCK = 4

prompts = st.lists(
    st.lists(st.integers(0, 2), max_size=6).map(lambda blocks: [b for b in blocks for _ in "abcd"]),
    min_size=1,
    max_size=40,
)


def num_common(one: list[int], other: list[int]) -> int:
    """Units of the whole blocks with which both begin."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    return same // BLOCK * BLOCK


@given(prompts, st.integers(1, 4), st.integers(0, 5), st.data())
def test_a_prompt_goes_where_work_and_what_is_missing_are_least(
    prompts: list[list[int]], num_engines: int, patience: int, data: st.DataObject
) -> None:
    routing, num_output = PrefixRouting(num_engines, block=BLOCK, patience=patience), 3
    had: list[list[list[int]]] = [[] for _ in range(num_engines)]
    work = [0] * num_engines
    under_way: list[Sent] = []
    for prompt in prompts:
        missing = [
            len(prompt) - max((num_common(prompt, each) for each in had[engine]), default=0)
            for engine in range(num_engines)
        ]
        sent = routing.send(prompt, num_output=num_output)
        totals = [work[engine] + patience * missing[engine] for engine in range(num_engines)]
        assert totals[sent.engine] == min(totals)
        assert sent.work == missing[sent.engine] + num_output
        had[sent.engine].append(prompt)
        work[sent.engine] += sent.work
        under_way.append(sent)
        for _ in range(data.draw(st.integers(0, len(under_way)))):
            ended = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            routing.ended(ended)
            work[ended.engine] -= ended.work
        assert list(routing.work) == work
    for sent in under_way:
        routing.ended(sent)
    assert set(routing.work) == {0}


def test_sharers_stay_together_until_another_engine_has_far_less_to_do() -> None:
    routing = PrefixRouting(2, block=BLOCK, patience=3)
    shared = list(range(40))
    engines = [routing.send([*shared, 100 + i], num_output=4).engine for i in range(40)]
    # 45 units of work, then 5 more each, until they are 3 * 40 more than the other engine's none
    assert engines.index(1) == 16
    assert engines.count(1) > 10


def test_prompts_that_share_nothing_are_spread_evenly() -> None:
    routing = PrefixRouting(4, block=BLOCK)
    engines = [routing.send([i] * 8, num_output=1).engine for i in range(40)]
    assert [engines.count(engine) for engine in range(4)] == [10] * 4


def test_text_is_routed_as_tokens_are() -> None:
    by_text, by_tokens = PrefixRouting(3, block=BLOCK), PrefixRouting(3, block=BLOCK)
    for text in ("abcdefgh", "abcdxyz", "zzzzzzzz", "abcdefghijkl", "zzzzzzz", ""):
        sent = by_text.send(text, num_output=2)
        assert sent == by_tokens.send([ord(each) for each in text], num_output=2)


def test_only_engines_that_are_named_are_chosen() -> None:
    routing = PrefixRouting(3, block=BLOCK)
    assert routing.send("abcdefgh", num_output=1, among=[2]).engine == 2
    assert routing.send("abcdefgh", num_output=1, among=[0, 1]).engine in (0, 1)


def test_what_is_forgotten_is_least_recently_used_and_the_ends_of_prompts_first() -> None:
    routing = PrefixRouting(1, block=BLOCK, max_blocks=3)
    routing.ended(routing.send("aaaabbbbcccc", num_output=0))
    routing.ended(routing.send("dddd", num_output=0))
    assert routing.send("aaaabbbbcccc", num_output=0).work == 4  # the last block is gone
    routing.forget(0)
    assert routing.send("aaaa", num_output=0).work == 4
