"""Formats against the official suite, and against other readers of the same grammars."""

from __future__ import annotations

import ipaddress
import json
import random
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from grammars import regex
from grammars.algebra import Algebra
from grammars.budget import Budget
from grammars.charset import ANY, utf8
from grammars.derive import arms, matches
from grammars.expr import Expr
from grammars.formats import FORMATS, MAX_LENGTHS, STANDARD_FORMATS, TYPE_FORMATS, UNSUPPORTED
from grammars.regex_lowering import lower_full

SUITE = Path(__file__).parents[3] / "shared" / "data" / "json-schema-test-suite"
FILES = SUITE / "tests" / "draft2020-12" / "optional" / "format"

LEFT_OUT = {
    "a leap second, which no reader in Python takes": {
        "1998-12-31T23:59:60Z",
        "1998-12-31T15:59:60.123-08:00",
        "23:59:60Z",
        "23:59:60+00:00",
        "01:29:60+01:30",
        "23:29:60+23:30",
        "15:59:60-08:00",
        "00:29:60-23:30",
    },
    "less than a nanosecond": {"1985-04-12T00:59:59.999999999999999Z"},
    "a duration of millions of years": {f"P{'9' * 78}D"},
    "a domain beyond ASCII, which has to be encoded to know whether it is a name": {
        "실례@실례.테스트",
        "user@cafe\u0301.com",
    },
    "Punycode, which has to be decoded to know whether it is a name": {
        "xn--9n2bp8q.xn--9t4b11yi5a",
        "xn--zca29lwxobi7a",
        "xn--qmbc",
        "xn--ll-0ea",
        "xn--wva3je",
        "xn--4dbc5h",
        "xn--4dbc8h",
        "xn--k8j5u",
        "xn--bck0j",
        "xn--vek778f",
        "xn--ngba1o",
        "xn--0-gyc",
        "xn--11b2ezcw70k",
        "xn--11b2ezcs70k",
        "xn--ngba5hb2804a",
    },
}
"""Valid, and not written, by the reason."""


@lru_cache
def lowered(name: str) -> tuple[Algebra, Expr]:
    algebra = Algebra(budget=Budget(max_seconds=600.0))  # it is kept, and other tests take time too
    found = lower_full(algebra, regex.parse(TYPE_FORMATS[name]), utf8)
    if name in MAX_LENGTHS:
        counted = algebra.repeat(utf8(algebra, ANY), 0, MAX_LENGTHS[name])
        found = algebra.intersection([found, counted])
    return algebra, found


def has(name: str, text: str) -> bool:
    return matches(*lowered(name), text.encode("utf-8", "surrogatepass"))


def cases() -> list[Any]:
    found = []
    for name in FORMATS:
        path = FILES / f"{name}.json"
        for group in json.loads(path.read_text(encoding="utf-8")) if path.exists() else []:
            found += [
                pytest.param(name, test["data"], test["valid"], id=f"{name}: {test['description']}")
                for test in group["tests"]
                if isinstance(test["data"], str)
            ]
    return found


@pytest.mark.parametrize(("name", "text", "valid"), cases())
def test_the_official_suite(name: str, text: str, valid: bool) -> None:
    known = set().union(*LEFT_OUT.values())
    assert has(name, text) == (valid and text not in known)


def test_what_is_left_out_is_in_the_suite() -> None:
    if not FILES.exists():
        pytest.skip("the official suite is not beside the repository")
    valid = {case.values[1] for case in cases() if case.values[2]}
    assert set().union(*LEFT_OUT.values()) <= valid


def test_what_is_not_regular_is_not_there() -> None:
    assert STANDARD_FORMATS - FORMATS.keys() == UNSUPPORTED.keys() == {"regex", "idn-hostname"}


EXAMPLES = {
    "duration": (
        ["P1Y", "P1Y2M", "PT5M", "P3W", "P1DT1S", "P01D"],
        ["P1YT", "PT1H1S", "P1WD", "P", "P1Y1D", "PT", "P1234567D", "P1W1D"],
    ),
    "hostname": (
        ["a", "a.b-c.d", "1.2", "a--b", "ab-c", "a" * 63, ".".join(["a" * 62] * 4), "a-b--c"],
        ["", "a_b", "-a", "a-", "a..b", "ab--c", "xn--a", "é", "a" * 64, ".".join("a" * 128)],
    ),
    "ipv6": (
        ["1:2:3:4:5:6:7::", "::1.2.3.4", "1::8", "::2:3:4:5:6:7:8", "::"],
        ["::1:2:3:4:5:6:7:8", "1::2::3", ":", "1:", "", "1:2:3:4:5:6:7:1.2.3.4"],
    ),
    "email": (
        ["a@b.c", '"a b"@b.c', r'"\""@b.c', "a@[1.2.3.4]", "a@[IPv6:1::2]", '""@b.c', "a.b+c@d.e"],
        ["a@b", "a@", '"a"b"@c.d', "a@[300.1.1.1]", "a@[1::2]", "a@[IPv6:1:2:3:4:5:6:7::]",
         r'"\"@b.c', "a..b@c.d", "a.@c.d", "é@b.c", "a@b.c."],
    ),
    "idn-email": (
        ["é@b.c", "a.é.\u0085@b.c", '"é \U0010ffff"@b.c', "a@b.c", "实@[1.2.3.4]"],
        ["é@é.c", "é", "é＠b.c", "é.@b.c", "a b@c.d", "é@b", '"é"é@b.c', "\ud800@b.c"],
    ),
    "uri": (
        ["a:", "a:b", "a:/", "a:/b//c", "a://[v1.x]:0/", "a://@:/?#", "a:?#?/", "A+1-.:x@y:z"],
        ["", "a", ":a", "a://[::1", "a:b#c#d", "a://b:c", "é:a", "1:a", "a:[", "a:%4"],
    ),
    "uri-reference": (
        ["", "a/b:c", "./a:b", "?a", "#a", "//a:1", "/", "a:b:c", "//[::1]"],
        ["1:2", "a[b]", ":a", "/a%zz", "//a:b", "\\\\a", " "],
    ),
    "iri": (["a:é?\ue000", "a://é"], ["a:\ue000", "a:\ufdd0", "é:a", "a:\ufffe"]),
    "iri-reference": (["é", "é/a:b", "//é"], ["é:a", "\ue000", "a b"]),
    "uri-template": (
        ["", "{a}", "{+a,b*}", "x{#a:9999}y", "%20", "é\ue000"],
        ["{a.}", "{}", "{a:0}", "{ }", "{a*:1}", "{=a}", "{a:12*}", "%2", "}", "{{a}}"],
    ),
    "json-pointer": (["", "/", "/a~0~1", "//", "/é\n"], ["a", "/~2", "/~"]),
    "relative-json-pointer": (["0", "1#", "10/a", "0/"], ["01", "-1", "1#a", "#", "/a", "0+1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    yes, no = EXAMPLES[name]
    assert [text for text in yes if not has(name, text)] == []
    assert [text for text in no if has(name, text)] == []


def reads(address: Callable[[str], object], text: str) -> bool:
    try:
        address(text)
    except ValueError:
        return False
    return True


@given(st.lists(st.sampled_from(["1", "ff", ":", ":", "::", "1.2.3.4", "12345", "0"]), max_size=17))
@example(["1", ":"] * 6 + ["1.2.3.4"])
@example(["1", ":"] * 7 + [":"])
@settings(max_examples=1000, deadline=None)
def test_an_ipv6_address_is_what_python_reads(parts: list[str]) -> None:
    text = "".join(parts)
    assert has("ipv6", text) == reads(ipaddress.IPv6Address, text)


@given(st.lists(st.sampled_from(["0", "1", "2", "5", "9", "."]), max_size=15).map("".join))
@settings(max_examples=500, deadline=None)
def test_an_ipv4_address_is_what_python_reads(text: str) -> None:
    assert has("ipv4", text) == reads(ipaddress.IPv4Address, text)


PCHAR = r"(?:[\w.~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
APPENDIX_B = re.compile(
    r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
FUTURE = re.compile(r"[vV][0-9a-fA-F]+\.[\w.~!$&'()*+,;=:-]+", re.ASCII)


def is_reference(text: str, ascii_only: bool) -> tuple[bool, bool]:
    """Whether it is a URI or IRI, and whether it is a reference to one: by parts, as RFC 3986's
    appendix B cuts them. Of what is not ASCII it knows `é` alone.
    """
    parts = APPENDIX_B.fullmatch(text)
    assert parts is not None, "the expression holds for every text"
    scheme, authority, path, query, fragment = parts.groups()
    flags = re.ASCII if ascii_only else re.UNICODE
    fine = re.fullmatch(f"(?:{PCHAR}|/)*", path, flags) is not None
    for part in (query, fragment):
        fine = fine and re.fullmatch(f"(?:{PCHAR}|[/?])*", part or "", flags) is not None
    if authority is not None:
        user, _, place = authority.rpartition("@")
        host, port = place, ""
        if ":" in place.rpartition("]")[2]:
            host, _, port = place.rpartition(":")
        names = PCHAR.replace(":@", "")
        fine = fine and re.fullmatch("[0-9]*", port) is not None
        fine = fine and re.fullmatch(f"(?:{names}|:)*", user, flags) is not None
        if host.startswith("[") and host.endswith("]"):
            is_ipv6 = reads(ipaddress.IPv6Address, host[1:-1]) and "%" not in host
            fine = fine and (is_ipv6 or FUTURE.fullmatch(host[1:-1]) is not None)
        else:
            fine = fine and re.fullmatch(f"{names}*", host, flags) is not None
    if scheme is not None:
        is_scheme = re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme) is not None
        return fine and is_scheme, fine and is_scheme
    return False, fine and not (authority is None and ":" in path.split("/")[0])


@given(
    st.lists(
        st.sampled_from(list("aé1:/?#[]@%-.") + ["//", "%4f", "::", "a:", "://", "[::1]", "v1."]),
        max_size=9,
    ).map("".join)
)
@example("//a@[::1]:1/")
@example("a://b/\n")
@settings(max_examples=1500, deadline=None)
def test_a_uri_is_what_its_parts_are(text: str) -> None:
    for ascii_only, absolute, reference in (
        (True, "uri", "uri-reference"),
        (False, "iri", "iri-reference"),
    ):
        found = has(absolute, text), has(reference, text)
        assert found == is_reference(text, ascii_only)


@pytest.mark.parametrize("name", TYPE_FORMATS)
def test_a_format_has_few_states(name: str) -> None:
    """Without its length, which a mask sees only when it is near."""
    algebra = Algebra()
    start = lower_full(algebra, regex.parse(TYPE_FORMATS[name]), utf8)
    states = {start}
    pending = [start]
    while pending:
        for _, rest in arms(algebra, pending.pop()):
            if rest not in states:
                states.add(rest)
                pending.append(rest)
    assert len(states) < 600


@pytest.mark.parametrize("name", TYPE_FORMATS)
def test_what_is_written_matches_in_python_too(name: str) -> None:
    algebra, start = lowered(name)
    pattern, rng = re.compile(TYPE_FORMATS[name]), random.Random(0)
    for _ in range(30):
        node, text = start, b""
        while not node.nullable or (rng.random() < 0.8 and arms(algebra, node)):
            mask, node = rng.choice(arms(algebra, node))
            text += bytes([rng.choice([byte for byte in range(256) if mask >> byte & 1])])
        assert pattern.fullmatch(text.decode())
