"""Formats of URIs, IRIs, their templates, and JSON pointers. Owns their patterns; see `formats` for
the dialect.
"""

from __future__ import annotations

from grammars.format_addresses import IPV6

_ENCODED = "%[0-9A-Fa-f]{2}"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"
_SUB_DELIMS = "!$&'()*+,;="
_FUTURE = rf"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9._~{_SUB_DELIMS}:-]+"

_UCSCHAR = (
    "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd"
)
_IPRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
"""RFC 3987, section 2.2: the characters of an IRI that a URI has not; the latter in a query."""


def _patterns(others: str, private: str) -> tuple[str, str]:
    """A URI and a reference to one, in which these characters are unreserved as well (`private`: in
    a query).

    RFC 3986, appendix A, and RFC 3987, section 2.2. An IPv4 address is a registered name, too.
    """
    plain = f"A-Za-z0-9._~{_SUB_DELIMS}{others}"  # the dash goes last, in front of `]`

    def some(more: str) -> str:
        return f"(?:[{plain}{more}-]|{_ENCODED})"

    segment = some(":@")
    host = rf"(?:\[(?:{IPV6}|{_FUTURE})\]|{some('')}*)"
    authority = f"//(?:{some(':')}*@)?{host}(?::[0-9]*)?"
    no_colon = some("@")  # at the start of a reference it would end a scheme
    more = f"(?:/{segment}*)*"
    ending = rf"(?:\?{some(f':@/?{private}')}*)?(?:#{some(':@/?')}*)?"
    absolute = f"{_SCHEME}:(?:(?:{authority}|/?{segment}+){more}|/)?{ending}"
    rooted = f"(?:{_SCHEME}:)?(?:{authority}|/{segment}+)"
    rootless = f"{_SCHEME}:{segment}+|{no_colon}+"
    return absolute, f"(?:(?:{rooted}|{rootless}){more}|(?:{_SCHEME}:)?/?){ending}"


URI, URI_REFERENCE = _patterns("", "")
IRI, IRI_REFERENCE = _patterns(_UCSCHAR, _IPRIVATE)

_LITERALS = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCSCHAR}{_IPRIVATE}]|{_ENCODED})"
_VARCHAR = f"(?:[A-Za-z0-9_]|{_ENCODED})"
_VARSPEC = rf"{_VARCHAR}(?:\.?{_VARCHAR})*(?::[1-9][0-9]{{0,3}}|\*)?"

URI_TEMPLATE = rf"(?:{_LITERALS}|\{{[+#./;?&]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"
"""RFC 6570, section 2, with the apostrophe of erratum 6937. Without the operators that section 2.2
reserves for the future, which nobody expands yet.
"""

JSON_POINTER = "(?:/(?:[^/~]|~[01])*)*"
"""RFC 6901, section 3."""

RELATIVE_JSON_POINTER = f"(?:0|[1-9][0-9]*)(?:#|{JSON_POINTER})"
"""draft-bhutton-relative-json-pointer-00, section 3, without its new manipulation of an index
(`0+1`), which readers do not know.
"""
