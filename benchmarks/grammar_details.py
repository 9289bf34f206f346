"""What only our engine is asked: other vocabularies, batches, jumps, budgets, and where time goes.

Measured in this process, on one thread, by its CPU time.
"""

from __future__ import annotations

import cProfile
import gc
import json
import pstats
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import Case
from benchmarks.engines import constraint_of
from benchmarks.measures import Spread, spread_of, thread_seconds
from benchmarks.vocabularies import NamedVocabulary
from grammars import Compiler, Grammar, GrammarError, Matcher, Vocabulary
from grammars.batch import fill_bitmasks

SLACK = 1 << 20
BATCH = 64
TEMPERATURE = 5.0


@dataclass(frozen=True)
class InVocabulary:
    """The corpus in one vocabulary. `masks` are all on the way of the valid texts, as they come in
    decoding; `derived` are those of them that were new, whose state had no mask yet.
    """

    name: str
    compile: Spread
    masks: Spread
    derived: Spread
    warm: Spread
    accept: Spread


def compiled(cases: Sequence[Case], compiler: Compiler) -> list[tuple[Case, Grammar]]:
    """Those that are not refused."""
    found = []
    for case in cases:
        try:
            found.append((case, compiler.compile(constraint_of(case.kind, case.spec))))
        except GrammarError:
            continue
    return found


def in_vocabulary(cases: Sequence[Case], named: NamedVocabulary) -> InVocabulary:
    """Compiles all, and fills every mask of the valid texts twice."""
    vocabulary = Vocabulary(named.file.tokens, eos_token_ids=named.file.stops)
    compiler = Compiler(vocabulary)
    times: dict[str, list[float]] = {
        part: [] for part in ("compile", "masks", "derived", "warm", "accept")
    }
    row = np.zeros(vocabulary.num_words, dtype=np.int32)
    compiler.compile(constraint_of("regex", "a"))  # what is made on first use is no part of it
    for case in cases:
        gc.collect()
        gc.freeze()  # so that a collection inside of a measurement looks at what is new
        made: list[Grammar] = []
        constraint = constraint_of(case.kind, case.spec)
        try:
            seconds = thread_seconds(lambda: made.append(compiler.compile(constraint)))  # noqa: B023
        except GrammarError:
            continue
        times["compile"].append(seconds)
        for text in (text for text, right in case.texts() if right):
            tokens = _tokens(made[0], named, text)
            for part, rounds in (("masks", 1), ("warm", 5)):
                matcher = Matcher(made[0], max_tokens=SLACK)
                for token_id in tokens:
                    is_new = not matcher.has_mask
                    seconds = thread_seconds(lambda: matcher.fill_bitmask(row), rounds=rounds)  # noqa: B023
                    times[part].append(seconds)
                    if is_new:
                        times["derived"].append(seconds)
                    if not row.view(np.uint32)[token_id // 32] >> (token_id % 32) & 1:
                        break
                    seconds = thread_seconds(lambda: matcher.accept_token(token_id))  # noqa: B023
                    if part == "warm":
                        times["accept"].append(seconds)
    return InVocabulary(named.name, **{part: spread_of(times[part]) for part in times})


def _tokens(grammar: Grammar, named: NamedVocabulary, text: str) -> list[int]:
    return named.encode(text) if named.encode else grammar.fewest_tokens(text.encode())


# -- a batch ---------------------------------------------------------------------------------------


def batch_seconds(grammars: Sequence[tuple[Case, Grammar]], named: NamedVocabulary) -> float:
    """To fill the warm rows of a batch, whose sequences are spread over the corpus."""
    vocabulary = grammars[0][1].vocabulary
    matchers: list[Matcher] = []
    for index in range(BATCH):
        case, grammar = grammars[index * len(grammars) // BATCH]
        matcher = Matcher(grammar, max_tokens=SLACK)
        text = next(text for text, right in case.texts() if right)
        tokens = _tokens(grammar, named, text)
        for token_id in tokens[: len(tokens) * (index % 4) // 4]:
            if not matcher.allows(token_id):
                break
            matcher.accept_token(token_id)
        matchers.append(matcher)
    rows = np.zeros((BATCH, vocabulary.num_words), dtype=np.int32)
    fill_bitmasks(matchers, rows)
    return float(
        np.median([thread_seconds(lambda: fill_bitmasks(matchers, rows)) for _ in range(50)])
    )


def decode_seconds(folder: Path) -> float:
    """Of the wall, for one step in which the model decodes a batch of as many rows."""
    import sgdsl as sgl
    from runtime import Runtime

    @sgl.function
    def words(s: Any, index: int, count: int) -> None:
        s += f"Row {index} says: " + sgl.gen("text", count, ignore_eos=True)

    with Runtime(folder, max_running=BATCH) as runtime:

        def busy_seconds(count: int) -> float:
            before = runtime.step_stats.busy_s
            rows = [{"index": index, "count": count} for index in range(BATCH)]
            words.run_batch(rows, backend=runtime)
            return runtime.step_stats.busy_s - before

        busy_seconds(2)  # what the prompts take is the same, and the cache's, from here on
        short, long = busy_seconds(2), busy_seconds(10)
    return max(long - short, 0.0) / 8


# -- jumps -----------------------------------------------------------------------------------------


@dataclass
class Jumps:
    """Of the tokens of valid JSON, those that are forced; and those that the text does not have."""

    num_tokens: int = 0
    num_jumped: int = 0
    num_wrong: int = 0


def jumps(grammars: Sequence[tuple[Case, Grammar]], encode: Callable[[str], list[int]]) -> Jumps:
    """Follows each valid JSON text, jumping wherever tokens are forced."""
    found = Jumps()
    for case, grammar in grammars:
        if case.kind != "schema":
            continue
        for text in (text for text, right in case.texts() if right):
            _jump_along(Matcher(grammar, max_tokens=SLACK), encode(text), encode, found)
    return found


def _jump_along(
    matcher: Matcher, tokens: list[int], encode: Callable[[str], list[int]], found: Jumps
) -> None:
    at = 0
    while at < len(tokens):
        jump = matcher.jump_forward(encode)
        if jump and tokens[at : at + len(jump)] != jump:
            found.num_wrong += 1
            return
        if not jump and not matcher.allows(tokens[at]):
            return
        for token_id in jump or [tokens[at]]:
            matcher.accept_token(token_id)
        at += len(jump) or 1
        found.num_jumped += len(jump)
        found.num_tokens += len(jump) or 1


# -- random walks ----------------------------------------------------------------------------------


@dataclass
class Walks:
    """Random walks, and the texts of those that did not end in what the constraint says."""

    num: int = 0
    invalid: list[str] = field(default_factory=list)


def random_walks(grammars: Sequence[tuple[Case, Grammar]], *, per_case: int) -> Walks:
    """Draws by random logits at a high temperature, at budgets from the minimum to twice that.

    What is drawn is judged by `jsonschema` and `re`; a grammar's texts by the matcher alone.
    """
    rng = np.random.default_rng(0)
    found = Walks()
    for case, grammar in grammars:
        judge = _judge(case)
        for index in range(per_case):
            share = index / max(per_case - 1, 1)
            budget = round(grammar.min_tokens * (1 + share))
            text = _walk(Matcher(grammar, max_tokens=max(budget, 1)), rng)
            found.num += 1
            if text is None or not judge(text):
                found.invalid.append(f"{case.name}: {text!r:.200}")
    return found


def _walk(matcher: Matcher, rng: np.random.Generator) -> str | None:
    """What was written; None when the walk ends before it is complete."""
    vocabulary = matcher.grammar.vocabulary
    written = b""
    while not matcher.is_terminated:
        choices = matcher.allowed_token_ids()
        if not len(choices):
            return None
        logits = rng.standard_normal(len(choices)) / TEMPERATURE
        token_id = int(choices[np.argmax(logits + rng.gumbel(size=len(choices)))])
        matcher.accept_token(token_id)
        if token_id not in vocabulary.eos_token_ids:
            written += vocabulary.token_bytes(token_id) or b""
    return written.decode() if matcher.is_complete else None


def _judge(case: Case) -> Callable[[str], bool]:
    if case.kind == "regex":
        return lambda text: re.fullmatch(case.spec, text) is not None
    if case.kind == "grammar":
        return lambda _: True
    import jsonschema

    validator = jsonschema.Draft202012Validator(
        json.loads(json.dumps(case.spec), parse_float=_exact)
    )
    return lambda text: validator.is_valid(json.loads(text, parse_float=_exact))


def _exact(text: str) -> Decimal | int:
    """As a decimal, or 0.07 would be no multiple of 0.01; 1.0 is an integer."""
    value = Decimal(text)
    return int(value) if value == value.to_integral_value() else value


# -- where the time goes ---------------------------------------------------------------------------


def profile_of(cases: Sequence[Case], named: NamedVocabulary) -> dict[str, dict[str, float]]:
    """For compiles and for cold masks: the share of each module of ours, the largest first."""
    vocabulary = Vocabulary(named.file.tokens, eos_token_ids=named.file.stops)
    compiler = Compiler(vocabulary)
    _ = vocabulary.trie, vocabulary.stop_row
    compiles, masks = cProfile.Profile(), cProfile.Profile()
    with compiles:
        grammars = compiled(cases, compiler)
    texts = [
        (grammar, [_tokens(grammar, named, text) for text, right in case.texts() if right])
        for case, grammar in grammars
    ]
    with masks:
        for grammar, tokenized in texts:
            for tokens in tokenized:
                matcher = Matcher(grammar, max_tokens=SLACK)
                for token_id in tokens:
                    if not matcher.allows(token_id):
                        break
                    matcher.accept_token(token_id)
    return {"compile": _shares(compiles), "masks": _shares(masks)}


def _shares(profile: cProfile.Profile) -> dict[str, float]:
    """Own time by module, as shares; what is built in counts for who calls it."""
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, callers) in stats.items():
        if file.startswith("~") and callers:
            for (caller, _, _), of_call in callers.items():
                spent[Path(caller).stem] += of_call[2]
        else:
            spent[Path(file).stem] += own
    total = sum(spent.values()) or 1.0
    return {name: round(seconds / total, 4) for name, seconds in spent.most_common(12)}
