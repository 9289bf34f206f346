"""Formats that only a Python type has. Owns their patterns: texts that the type's reader takes, of
which there may be more.

Each is written for `regex.PYTHON` and matched in full. It must not know of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammars.format_addresses import IPV4, IPV6, LABEL

_NUMBER = "[0-9]{1,6}"


def _some(units: tuple[str, ...]) -> str:
    """At least one number with one of these units, in their order."""
    firsts = (
        f"{unit}{''.join(f'(?:{later})?' for later in units[index + 1 :])}"
        for index, unit in enumerate(units)
    )
    return f"(?:{'|'.join(firsts)})"


_DATE_UNITS = _some(tuple(f"{_NUMBER}{unit}" for unit in "YMD"))
_CLOCK_UNITS = _some((f"{_NUMBER}H", f"{_NUMBER}M", rf"{_NUMBER}(?:\.[0-9]{{1,6}})?S"))
_SPAN = f"-?P(?:{_DATE_UNITS}(?:T{_CLOCK_UNITS})?|T{_CLOCK_UNITS}|{_NUMBER}W)"
"""ISO 8601 with a sign and with fractions of a second, as a timedelta is written. A timedelta has
less than 10**9 days.
"""


def _ipv4_networks() -> Iterator[str]:
    """An address whose bits behind the prefix are zero, and the prefix, which may be missing."""
    yield IPV4
    for prefix in range(33):
        whole, bits = divmod(prefix, 8)
        octets = [_octets(8)] * whole + ([_octets(bits)] if bits else [])
        octets += ["0"] * (4 - len(octets))
        yield r"\.".join(octets) + f"/{prefix}"


def _octets(bits: int) -> str:
    """The octets that are zero behind the first bits."""
    return f"(?:{'|'.join(str(octet) for octet in range(0, 256, 1 << 8 - bits))})"


def _ipv6_networks() -> Iterator[str]:
    """The groups that the prefix reaches into, and `::` for the zeros behind them. Only prefixes
    of whole digits: the others would take as many states as all formats together.
    """
    digit = "[0-9A-Fa-f]"
    yield IPV6
    for prefix in range(0, 129, 4):
        whole, digits = divmod(prefix // 4, 4)
        groups = [f"{digit}{{1,4}}"] * whole
        groups += [f"{digit}{{{digits}}}{'0' * (4 - digits)}"] if digits else []
        yield ":".join(groups) + ("" if len(groups) == 8 else "::") + f"/{prefix}"


def _either(texts: Iterator[str]) -> str:
    return f"(?:{'|'.join(texts)})"


_IPV4_NETWORK, _IPV6_NETWORK = _either(_ipv4_networks()), _either(_ipv6_networks())
_IPV4_INTERFACE = f"{IPV4}(?:/(?:3[0-2]|[12]?[0-9]))?"
_IPV6_INTERFACE = f"{IPV6}(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"

_HOST = rf"(?:{IPV4}|(?:{LABEL}\.)*[A-Za-z][A-Za-z0-9]{{0,62}})"
"""An address or a name. Not one whose last label begins with a digit: it would be taken for an
address (WHATWG URL, section 3.6).
"""
_PORT = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4})"
_QUERY_CHAR = "(?:[A-Za-z0-9._~!$&()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"  # an apostrophe would be escaped
_URL_CHAR = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_URL = (
    rf"[a-z][a-z0-9+.-]*://{_HOST}(?::{_PORT})?(?:/{_URL_CHAR}*)?"
    rf"(?:\?{_QUERY_CHAR}*)?(?:#{_QUERY_CHAR}*)?"
)
"""RFC 3986 with a host that every reader of URLs takes for one, and without a user."""


def _base64(others: str) -> str:
    """RFC 4648, section 4, with padding and without bits behind the last byte."""
    digit = f"[A-Za-z0-9{others}]"
    last = f"(?:{digit}[AQgw]==|{digit}{{2}}[AEIMQUYcgkosw048]=)"
    return f"(?:{digit}{{4}})*{last}?"


PATTERNS: dict[str, str] = {
    "timedelta": _SPAN,
    "ipv4network": _IPV4_NETWORK,
    "ipv6network": _IPV6_NETWORK,
    "ipv4interface": _IPV4_INTERFACE,
    "ipv6interface": _IPV6_INTERFACE,
    "ipvanyaddress": f"(?:{IPV4}|{IPV6})",
    "ipvanyinterface": f"(?:{_IPV4_INTERFACE}|{_IPV6_INTERFACE})",
    "ipvanynetwork": f"(?:{_IPV4_NETWORK}|{_IPV6_NETWORK})",
    "url": _URL,
    "base64": _base64("+/"),
    "base64url": _base64("_-"),
    "hex": "(?:[0-9A-Fa-f]{2})*",
}
