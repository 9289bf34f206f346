"""String formats that are regular. Owns their patterns.

Each is written for `regex.PYTHON` and matched in full. They follow the RFCs that JSON Schema names,
with what a reader in Python could not take left out: leap seconds, the year 0000, quoted local
parts and address literals in e-mail. A standard format that is missing here is refused by the
reader. A Python type has some more, which are its own. It must not know of JSON.
"""

from __future__ import annotations

_STANDARD = """
date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference
iri iri-reference uuid uri-template json-pointer relative-json-pointer regex
"""
STANDARD_FORMATS = frozenset(_STANDARD.split())
"""The formats that draft 2020-12 defines."""

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
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

FORMATS: dict[str, str] = {
    "date": _DATE,  # RFC 3339, full-date; 30 February is none
    "time": _TIME,  # RFC 3339, full-time: with a zone
    "date-time": rf"{_DATE}[Tt]{_TIME}",
    "uuid": r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",  # RFC 4122
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",  # RFC 2673, dotted quad
    "email": rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})+",  # RFC 5321, Mailbox
}

_HEX = "[0-9A-Fa-f]"

TYPE_FORMATS: dict[str, str] = {
    **FORMATS,
    **{
        f"uuid{version}": rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}-"
        rf"{_HEX}{{12}}"
        for version in range(1, 9)
    },  # RFC 9562, of the one variant that has versions
    "naive-time": _NAIVE_TIME,
    "naive-date-time": rf"{_DATE}[Tt]{_NAIVE_TIME}",
}
"""The formats in the schema of a Python type, of which none is an annotation but those below."""

TYPE_ANNOTATIONS = frozenset({"binary", "password", "path"})
"""The formats of a type that holds for every string: bytes, SecretStr, Path."""

MAX_LENGTHS: dict[str, int] = {"hostname": 253}
"""The most characters of a format, where its pattern does not say it."""
