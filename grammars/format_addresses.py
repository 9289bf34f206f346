"""Formats of hosts, addresses and mailboxes. Owns their patterns; see `formats` for the dialect."""

from __future__ import annotations

_ALNUM = "[A-Za-z0-9]"
_INNER = "[A-Za-z0-9-]"

LABEL = (
    rf"{_ALNUM}(?:{_INNER}{{0,2}}{_ALNUM}"
    rf"|{_INNER}(?:{_ALNUM}{_INNER}|-{_ALNUM}){_INNER}{{0,58}}{_ALNUM})?"
)
"""RFC 1123, section 2.1 (RFC 952 with a digit in front), of at most 63 characters (RFC 1035,
section 2.3.4). Without those that have `--` as their third and fourth character: they are reserved
(RFC 5890, section 2.3.1), and whether one of the form `xn--...` is a name takes decoding it.
"""

HOSTNAME = rf"{LABEL}(?:\.{LABEL})*"
HOSTNAME_LENGTH = 253
"""RFC 1035, section 2.3.4: 255 octets, with the length in front of each label and the root."""

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
"""RFC 2673, section 3.2: dotted quad, without leading zeros."""

_GROUP = "[0-9A-Fa-f]{1,4}"


def _ipv6(elided: int) -> str:
    """RFC 3986, appendix A: RFC 4291, section 2.2, in which `::` stands for `elided` groups of
    zeros or more. The last two groups may be written as a dotted quad.
    """
    forms = [rf"(?:{_GROUP}:){{6}}(?:{_GROUP}:{_GROUP}|{IPV4})"]
    for before in range(9 - elided):  # groups before the `::`
        left = "" if before == 0 else rf"{_GROUP}(?::{_GROUP}){{{before - 1}}}"
        after = 8 - elided - before  # at most, behind it
        ends = [rf"(?:{_GROUP}:){{0,{after - 2}}}{IPV4}"] if after >= 2 else []
        ends += [rf"(?:{_GROUP}:){{0,{after - 1}}}{_GROUP}"] if after else []
        right = f"(?:{'|'.join(ends)})?" if ends else ""
        forms.append(f"{left}::{right}")
    return f"(?:{'|'.join(forms)})"


IPV6 = _ipv6(1)

_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{_ipv6(2)})\]"


def _mailbox(others: str) -> str:
    """A mailbox in whose local part these characters are plain as well."""
    atom = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{others}-]+"
    quoted = rf'"(?:[ !#-\[\]-~{others}]|\\[ -~])*"'
    local_part = rf"(?:{atom}(?:\.{atom})*|{quoted})"
    return rf"{local_part}@(?:{LABEL}(?:\.{LABEL})+|{_LITERAL})"


EMAIL = _mailbox("")
"""RFC 5321, section 4.1.2, Mailbox. A domain has a dot: it is fully qualified (section 2.3.5)."""

IDN_EMAIL = _mailbox("\x80-\U0010ffff")
"""RFC 6531, section 3.3: all beyond ASCII is plain in a local part. Without domains beyond ASCII:
whether one is a name takes encoding it (see `formats.UNSUPPORTED`).
"""
