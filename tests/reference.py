"""Random programs, and the naive way to execute them.

A program here is plain data, so that it can be run twice: by the frontend on the engine under test,
and by the reference below, which does one thing at a time, computes every logit from the whole
text's tokens, and knows neither batches nor caches nor pages.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import sgdsl as sgl
from grammars import Compiler, Constraint, JsonSchema, Matcher, Regex, accepts
from runtime.sampling.random import stream_key, uniform
from runtime.tokenizer import Tokenizer
from sgdsl.expressions import Expr
from sgdsl.machine import Piece
from sgdsl.seeds import derive_seed
from tests.fakes import log_softmax

Logits = Callable[[list[int]], NDArray[np.float64]]
Draw = Callable[[NDArray[np.float64], float, float], int]


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Gen:
    name: str
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    constraint: Constraint | None = None
    min_tokens: int = 0
    healing: bool = True
    n: int = 1
    stop_regex: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checked:
    """A gen and a text behind it, written again until the gen's value passes."""

    gen: Gen
    text: str
    retries: int


@dataclass(frozen=True)
class Select:
    name: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Read:
    """A graph break: the body waits for the variable."""

    name: str


@dataclass(frozen=True)
class Forked:
    branches: tuple[tuple[Op, ...], ...]
    mode: str


@dataclass(frozen=True)
class InRole:
    role: str
    body: tuple[Op, ...]


Op = Text | Gen | Checked | Select | Read | Forked | InRole
Program = tuple[Op, ...]

JSON = JsonSchema(
    {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
)
CONSTRAINTS: tuple[Constraint, ...] = (
    Regex(r"[a-c]{1,4}( the)?"),
    Regex(r"\d{1,3}(\.\d)?"),
    Regex(r"([a-e]| [a-z]{2})*"),
    Regex(r"[^n\n]+"),
    Regex(r"[a-z ]{2,}(!.{30})?"),
    JSON,
)


# What a program is, at random.

words = st.sampled_from(
    [
        "the license",
        " work",
        "a",
        " ",
        "\n\n",
        "contributor ",
        "é",
        "日本",
        "<|im_end|>",
        "12:",
        "th",
    ]
)
literals = st.lists(words, min_size=1, max_size=4).map("".join).map(Text)


@st.composite
def gens(draw: st.DrawFn, name: str) -> Gen:
    constraint = draw(st.none() | st.sampled_from(CONSTRAINTS))
    free = constraint is None
    return Gen(
        name,
        max_tokens=draw(st.just(0) | st.integers(3, 12)) if free else draw(st.integers(16, 24)),
        temperature=draw(st.sampled_from([0.0, 0.0, 1.5])),
        stop=draw(st.sampled_from([(), (), ("e",), ("th", "\n")])) if free else (),
        constraint=constraint,
        min_tokens=draw(st.sampled_from([0, 0, 3])),
        healing=draw(st.booleans()),
        n=draw(st.sampled_from([1, 1, 1, 3])),
        stop_regex=draw(st.sampled_from([(), (), *PATTERNS])) if free else (),
    )


PATTERNS = [
    ("[ea]+[nrt]",),
    (r"\bt", "(?m)^[a-z]"),
    ("i[a-z ]{0,9}n",),
    ("o(?=n)n", "[^\ufffd]{7}"),
    ("[^\x00-\x7f]",),
]
"""The last one is found in every character of several bytes, and in those that are broken."""


def passes(value: Any) -> bool:
    """What a check asks for: every other value does not pass."""
    return sum(str(value).encode()) % 2 == 0


choices = st.lists(words, min_size=2, max_size=4, unique=True).map(tuple)


@st.composite
def bodies(draw: st.DrawFn, prefix: str, depth: int, in_role: bool) -> Program:
    ops: list[Op] = []
    defined: list[str] = []
    for index in range(draw(st.integers(1, 4))):
        name = f"{prefix}{index}"
        kinds = ["text", "text", "gen", "gen", "select", "checked"]
        kinds += ["read"] if defined else []
        kinds += ["fork"] if depth else []
        kinds += ["role"] if depth and not in_role else []
        match draw(st.sampled_from(kinds)):
            case "text":
                ops.append(draw(literals))
            case "gen":
                ops.append(draw(gens(name)))
                defined.append(name)
            case "checked":
                text = draw(literals).text
                ops.append(Checked(draw(gens(name)), text, draw(st.integers(0, 3))))
                defined.append(name)
            case "select":
                ops.append(Select(name, draw(choices)))
                defined.append(name)
            case "read":
                ops.append(Read(draw(st.sampled_from(defined))))
            case "fork":
                count = draw(st.integers(1, 3))
                inner = [draw(bodies(f"{name}_", depth - 1, in_role)) for _ in range(count)]
                mode = draw(st.sampled_from(["gather_variable", "concate_and_append"]))
                ops.append(Forked(tuple(inner), mode))
            case "role":
                role = draw(st.sampled_from(["system", "user", "assistant"]))
                ops.append(InRole(role, draw(bodies(f"{name}_", depth - 1, True))))
    return tuple(ops)


programs = bodies("v", 2, False)


# On the engine under test.


@sgl.function
def perform(s: sgl.ProgramState, program: Program) -> list[Any]:
    """Carries the program out; returns what its reads gave."""
    seen: list[Any] = []
    _perform(s, program, seen)
    return seen


def _perform(s: sgl.ProgramState, program: Program, seen: list[Any]) -> None:
    for op in program:
        match op:
            case Text(text):
                s += text
            case Gen():
                s += _gen_expr(op)
            case Checked():
                s += _gen_expr(op.gen) + op.text
                with suppress(sgl.CheckFailed):  # what was written last stands
                    s.check(passes, retries=op.retries)
            case Select():
                s += sgl.select(op.name, list(op.choices))
            case Read():
                seen.append(s[op.name])
            case Forked():
                forks = s.fork(len(op.branches))
                for branch, body in zip(forks, op.branches, strict=True):
                    _perform(branch, body, seen)
                forks.join(op.mode)
            case InRole():
                with getattr(s, op.role)():
                    _perform(s, op.body, seen)


def _gen_expr(op: Gen) -> Expr:
    kind: dict[str, Any] = {}
    if isinstance(op.constraint, Regex):
        kind["regex"] = op.constraint.pattern
    elif op.constraint is JSON:
        kind["json_schema"] = JSON.text
    return sgl.gen(
        op.name,
        op.max_tokens,
        temperature=op.temperature,
        stop=op.stop or None,
        stop_regex=op.stop_regex or None,
        min_tokens=min(op.min_tokens, op.max_tokens) or None,
        healing=op.healing,
        n=op.n if op.n > 1 else None,
        **kind,
    )


# The naive way.


def num_begun(text: str, size: int) -> int:
    """How many of the text's characters begin in its first `size` bytes."""
    starts = (len(text[:place].encode("utf-8", "surrogateescape")) for place in range(len(text)))
    return sum(start < size for start in starts)


@dataclass
class Branch:
    id: int
    tokens: list[int] = field(default_factory=list)
    pending: list[Piece] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)

    def write(self, text: str, *, special: bool = False, written: bool = False) -> None:
        piece = Piece(text, special=special, written=written)
        self.pieces.append(piece)
        self.pending.append(piece)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def copy(self, branch_id: int) -> Branch:
        lists = (list(self.tokens), list(self.pending), list(self.pieces))
        return Branch(branch_id, *lists, dict(self.variables))

    def become(self, other: Branch) -> None:
        self.tokens, self.pending, self.pieces = other.tokens, other.pending, other.pieces


class Naive:
    """One program, step by step. `logits(tokens)`: the model; `draw(logits, temperature, u)`."""

    def __init__(self, tokenizer: Tokenizer, logits: Logits, draw: Draw, seed: int) -> None:
        self._tokenizer = tokenizer
        self._logits = logits
        self._draw = draw
        self._seed = seed
        self._compiler = Compiler(tokenizer.vocabulary)
        self._next_id = 1
        self._num_nodes = 0

    def _node(self, num: int = 1) -> int:
        """The id of the first of the program's next nodes."""
        self._num_nodes += num
        return self._num_nodes - num

    def run(self, program: Program) -> Branch:
        root = Branch(0)
        self._body(root, program)
        return root

    def _body(self, branch: Branch, program: Program) -> None:
        for op in program:
            match op:
                case Text(text):
                    self._node()
                    branch.write(text)
                case Gen():
                    branch.variables[op.name] = self._gens(branch, op, self._node())
                case Checked():
                    branch.variables[op.gen.name] = self._checked(branch, op)
                case Select():
                    self._node()
                    branch.variables[op.name] = self._select(branch, op)
                case Forked():
                    self._fork(branch, op)
                case InRole():
                    self._role(branch, op)
                case Read():
                    pass

    def _gens(self, branch: Branch, op: Gen, node: int, attempt: int = 0) -> Any:
        """One output, or the list of several, each of them drawn for itself."""
        if op.n == 1:
            return self._gen(branch, op, self._seed_of(attempt, 0))
        children = [branch.copy(-1 - (node << 64 | attempt << 32 | index)) for index in range(op.n)]
        values = [
            self._gen(child, op, self._seed_of(attempt, index))
            for index, child in enumerate(children)
        ]
        branch.become(children[0])
        return values

    def _seed_of(self, attempt: int, index: int) -> int:
        salt = attempt << 32 | index
        return derive_seed(self._seed, salt) if salt else self._seed

    def _checked(self, branch: Branch, op: Checked) -> Any:
        node = self._node(3)
        before = branch.copy(branch.id)
        for attempt in range(op.retries + 1):
            branch.become(before.copy(branch.id))
            value = self._gens(branch, op.gen, node, attempt)
            branch.write(op.text)
            if passes(value):
                break
            self._node(attempt < op.retries)
        return value

    def _role(self, branch: Branch, op: InRole) -> None:
        self._node()
        template = self._tokenizer.chat_template
        assert template.default_system_prompt is None, "the tiny model has none"
        branch.write(template.prefixes[op.role], special=True)
        self._body(branch, op.body)
        self._node()
        branch.write(template.suffixes[op.role], special=True)

    def _fork(self, parent: Branch, op: Forked) -> None:
        self._node()
        ids = range(self._next_id, self._next_id + len(op.branches))
        self._next_id += len(op.branches)
        children = []
        for branch_id, body in zip(ids, op.branches, strict=True):
            child = parent.copy(branch_id)
            self._body(child, body)
            children.append(child)
        self._node()
        if op.mode == "concate_and_append":
            start = len(parent.pieces)
            for child in children:
                parent.pieces += child.pieces[start:]
                parent.pending += child.pieces[start:]
            return
        names = dict.fromkeys(
            name for child in children for name in child.variables if name not in parent.variables
        )
        for name in names:
            parent.variables[name] = [child.variables.get(name) for child in children]

    def _num_taken(self, tokens: list[int], own: str) -> int:
        """The most last tokens, within the literal `own`, that begin a longer token together. A
        special token is a part of no literal.
        """
        spellings = [data for data in self._tokenizer.token_bytes if data]

        def heals(count: int) -> bool:
            last = tokens[len(tokens) - count :]
            data = self._tokenizer.decode(last)
            is_own = own.encode().endswith(data) and all(
                self._tokenizer.token_bytes[token] for token in last
            )
            return is_own and any(text.startswith(data) and text != data for text in spellings)

        return max((n for n in range(1, min(8, len(tokens) - 1) + 1) if heals(n)), default=0)

    def _flush(self, branch: Branch) -> str:
        """Tokens of what is pending; returns the program's own text at its end."""
        pieces = [piece for piece in branch.pending if piece.text]
        own = ""
        for piece in reversed(pieces):
            if piece.special or piece.written:
                break
            own = piece.text + own
        if pieces or not branch.tokens:
            keep, following = self._tokenizer.continue_with(branch.tokens, pieces)
            branch.tokens = branch.tokens[:keep] + following
        branch.pending = []
        branch.tokens = branch.tokens or [self._tokenizer.start_token_id]
        return own

    def _gen(self, branch: Branch, op: Gen, seed: int) -> str:
        tokenizer = self._tokenizer
        own = self._flush(branch)
        if op.max_tokens == 0:
            return self._written(branch, "")
        taken = self._num_taken(branch.tokens, own) if op.healing else 0
        prefix = tokenizer.decode(branch.tokens[len(branch.tokens) - taken :])
        known = branch.tokens[: len(branch.tokens) - taken]
        matcher = None
        if op.constraint is not None:
            grammar = self._compiler.compile(op.constraint)
            matcher = Matcher(grammar, max_tokens=op.max_tokens + taken, prefix=prefix)
        sampled: list[int] = []
        num_safe = 0
        text = ""
        while True:
            allowed = self._allowed(matcher, prefix, sampled, op)
            logits = np.where(allowed, self._logits(known + sampled), -np.inf)
            u = uniform(stream_key(seed, branch.id), len(known) + len(sampled))
            token = self._draw(logits, op.temperature, u)
            if matcher is not None and not matcher.allows(token):
                assert op.constraint is not None
                return self._left(branch, known + sampled, op.constraint, text, token)
            if token in tokenizer.eos_token_ids:
                text = tokenizer.decode(sampled)[len(prefix) :].decode("utf-8", "surrogateescape")
                break
            sampled.append(token)
            text = tokenizer.decode(sampled)[len(prefix) :].decode("utf-8", "surrogateescape")
            if matcher is not None:
                matcher.accept_token(token)
                if matcher.is_terminated:
                    break
                continue
            num_beyond = self._num_beyond(sampled, prefix)
            written = tokenizer.decode(sampled)[len(prefix) :]
            if num_beyond <= op.min_tokens:
                num_safe = len(written)
            cut = self._stop_at(written, op, num_safe) if num_beyond >= op.min_tokens else None
            if cut is not None:
                return self._cut(branch, known, sampled, prefix, text[:cut])
            if num_beyond == op.max_tokens:
                break
        branch.tokens = known + sampled
        return self._written(branch, text)

    @staticmethod
    def _is_complete(constraint: Constraint, data: bytes) -> bool:
        """Whether the bytes are a text of the constraint, said by whom no mask is made with."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        if isinstance(constraint, Regex):
            return re.fullmatch(constraint.pattern, text) is not None
        return accepts(constraint, text)

    def _left(
        self, branch: Branch, tokens: list[int], constraint: Constraint, text: str, token: int
    ) -> str:
        """The model has drawn what the constraint does not allow behind a complete text: the most
        of it that makes a complete one stands, as text.
        """
        branch.tokens = tokens
        data = self._tokenizer.token_bytes[token] or b""
        part = next(
            (
                data[:size]
                for size in range(len(data) - 1, 0, -1)
                if self._is_complete(constraint, text.encode() + data[:size])
            ),
            b"",
        ).decode()
        if part:
            branch.pending.append(Piece(part, written=True))
        return self._written(branch, text + part)

    @staticmethod
    def _written(branch: Branch, text: str) -> str:
        """`text` has lone surrogates for invalid bytes; shown are replacement characters."""
        shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        branch.pieces.append(Piece(shown, written=True))
        return shown

    def _allowed(
        self, matcher: Matcher | None, prefix: bytes, sampled: list[int], op: Gen
    ) -> NDArray[np.bool_]:
        tokenizer = self._tokenizer
        size = len(tokenizer.token_bytes)
        if matcher is not None:
            assert op.constraint is not None
            short = self._num_beyond(sampled, prefix) < op.min_tokens
            text = tokenizer.decode(sampled)[len(prefix) :]
            if text and not short and self._is_complete(op.constraint, text):
                return np.ones(size, dtype=bool)
            row = np.zeros(tokenizer.vocabulary.num_words, dtype=np.int32)
            matcher.fill_bitmask(row)
            allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[:size].astype(bool)
            ends = list(tokenizer.eos_token_ids)
            if short and np.delete(allowed, ends).any():
                allowed[ends] = False
            return allowed
        rest = prefix[len(tokenizer.decode(sampled)) :]
        allowed = np.ones(size, dtype=bool)
        for token in range(size):
            data = tokenizer.token_bytes[token]
            if rest and not (data and (data.startswith(rest) or rest.startswith(data))):
                allowed[token] = False
        if self._num_beyond(sampled, prefix) < op.min_tokens:
            allowed[list(tokenizer.eos_token_ids)] = False
        return allowed

    def _num_beyond(self, sampled: list[int], prefix: bytes) -> int:
        ends = [len(self._tokenizer.decode(sampled[: i + 1])) for i in range(len(sampled))]
        starts = [0, *ends][: len(ends)]
        return sum(
            end > len(prefix) or start >= len(prefix)
            for start, end in zip(starts, ends, strict=True)
        )

    @staticmethod
    def _stop_at(written: bytes, op: Gen, num_safe: int) -> int | None:
        """Where in the text a stop begins, behind the characters that begin in `num_safe` bytes.
        Half a character at the end is no text yet.
        """
        text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(written)
        start = num_begun(text, num_safe)
        found = [at for stop in op.stop if (at := text.find(stop, start)) >= 0]
        text = re.sub("[\udc80-\udcff]", "\ufffd", text)
        for pattern in op.stop_regex:
            ends = (re.search(pattern, text[start:end]) for end in range(start + 1, len(text) + 1))
            found += [start + match.start() for match in [next(filter(None, ends), None)] if match]
        return min(found) if found else None

    def _cut(
        self, branch: Branch, known: list[int], sampled: list[int], prefix: bytes, text: str
    ) -> str:
        """Tokens up to the stop string stand; what is left of a token that it cut becomes text."""
        size = len(prefix) + len(text.encode("utf-8", "surrogateescape"))
        whole = self._tokenizer.decode(sampled)
        kept = max(
            n for n in range(len(sampled) + 1) if len(self._tokenizer.decode(sampled[:n])) <= size
        )
        branch.tokens = known + sampled[:kept]
        rest = whole[len(self._tokenizer.decode(sampled[:kept])) : size]
        if rest:
            branch.pending.append(Piece(rest.decode("utf-8", "replace"), written=True))
        return self._written(branch, text)

    def _select(self, branch: Branch, op: Select) -> str:
        self._flush(branch)
        prompts = []
        for choice in op.choices:
            keep, following = self._tokenizer.continue_with(branch.tokens, [Piece(choice)])
            prompts.append(branch.tokens[:keep] + following)
        border = 0
        while all(
            border < len(p) - 1
            and border < len(branch.tokens)
            and p[border] == branch.tokens[border]
            for p in prompts
        ):
            border += 1
        if border == 0:
            prompts = [[self._tokenizer.start_token_id, *prompt] for prompt in prompts]
            border = 1
        means = [
            np.mean([log_softmax(self._logits(p[:i]))[p[i]] for i in range(border, len(p))])
            for p in prompts
        ]
        choice = op.choices[int(np.argmax(means))]
        branch.write(choice, written=True)
        return choice
