"""String formats that are regular. Owns which there are, and the patterns of dates and times.

Each is written for `regex.PYTHON` and matched in full. They follow the RFCs that JSON Schema names,
with what a reader in Python could not take left out: leap seconds, the year 0000, fractions of a
nanosecond, durations of millions of years. A standard format that is missing here is refused by the
reader. A Python type has some more formats, which are its own. It must not know of JSON.
"""

from __future__ import annotations

from grammars import (
    format_addresses as addresses,
    format_identifiers as identifiers,
    type_formats,
)

_STANDARD = """
date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference
iri iri-reference uuid uri-template json-pointer relative-json-pointer regex
"""
STANDARD_FORMATS = frozenset(_STANDARD.split())
"""The formats that draft 2020-12 defines."""

UNSUPPORTED = {
    "idn-hostname": "the length of a label is that of its Punycode",
    "regex": "a back-reference has a group, and no two groups have one name",
}
"""Those of them that no pattern describes, and why.

A label of an `idn-hostname` may have as many characters as leave 63 in Punycode (RFC 5891, section
4.2), which depends on every one of them; beside that it is in Unicode's normal form. A `regex` is
one of ECMA-262 with the flag u: its groups nest, and its early errors are beyond any context-free
grammar.
"""

_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_FOURTH = r"(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = rf"(?:[0-9]{{2}}{_FOURTH}|{_FOURTH}00)"
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_NAIVE_TIME = rf"{_CLOCK}:[0-5][0-9](?:\.[0-9]{{1,9}})?"
_TIME = rf"{_NAIVE_TIME}(?:[Zz]|[+-]{_CLOCK})"


def _from(units: str) -> str:
    """A number with the first of these units, and, if any, the next ones without a gap."""
    number = f"[0-9]{{1,6}}{units[0]}"
    return f"{number}(?:{_from(units[1:])})?" if units[1:] else number


def _some(units: str) -> str:
    """Numbers with some of these units, of which none is left out in between."""
    return "|".join(_from(units[first:]) for first in range(len(units)))


_DURATION = f"P(?:(?:{_some('YMD')})(?:T(?:{_some('HMS')}))?|T(?:{_some('HMS')})|{_from('W')})"
_HEX = "[0-9A-Fa-f]"

FORMATS: dict[str, str] = {
    "date": _DATE,  # RFC 3339, full-date; 30 February is none
    "time": _TIME,  # RFC 3339, full-time: with a zone
    "date-time": rf"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,  # RFC 3339, appendix A
    "uuid": rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}",  # RFC 4122
    "hostname": addresses.HOSTNAME,
    "ipv4": addresses.IPV4,
    "ipv6": addresses.IPV6,
    "email": addresses.EMAIL,
    "idn-email": addresses.IDN_EMAIL,
    "uri": identifiers.URI,
    "uri-reference": identifiers.URI_REFERENCE,
    "uri-template": identifiers.URI_TEMPLATE,
    "iri": identifiers.IRI,
    "iri-reference": identifiers.IRI_REFERENCE,
    "json-pointer": identifiers.JSON_POINTER,
    "relative-json-pointer": identifiers.RELATIVE_JSON_POINTER,
}

MAX_LENGTHS: dict[str, int] = {"hostname": addresses.HOSTNAME_LENGTH}
"""The most characters of a format, where its pattern does not say it."""

TYPE_FORMATS: dict[str, str] = {
    **FORMATS,
    **{
        f"uuid{version}": rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}-"
        rf"{_HEX}{{12}}"
        for version in range(1, 9)
    },  # RFC 9562, of the one variant that has versions
    **type_formats.PATTERNS,
    "naive-time": _NAIVE_TIME,
    "naive-date-time": rf"{_DATE}[Tt]{_NAIVE_TIME}",
}
"""The formats in the schema of a Python type, of which none is an annotation but those below."""

TYPE_ANNOTATIONS = frozenset({"binary", "password", "path"})
"""The formats of a type that holds for every string: bytes, SecretStr, Path."""
