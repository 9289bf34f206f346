"""Patterns and grammars, in the syntax that all engines share."""

from __future__ import annotations

from benchmarks.corpus.case import Case

ARITHMETIC = r"""
start: sum
sum: product (("+" | "-") product)*
product: atom (("*" | "/") atom)*
atom: NUMBER | call | NAME | "(" sum ")" | "-" atom
call: NAME "(" (sum ("," sum)*)? ")"
NUMBER: /[0-9]+(\.[0-9]+)?/
NAME: /[a-z][a-z0-9_]*/
"""

JSON = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
array: "[" (value ("," value)*)? "]"
STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
"""

PROGRAM = r"""
start: statement+
statement: NAME " = " expression ";\n" | "if (" expression ") " block | "return " expression ";\n"
block: "{\n" statement* "}\n"
expression: term ((" + " | " < " | " == ") term)*
term: NAME | NUMBER | TEXT | NAME "(" (expression (", " expression)*)? ")" | "(" expression ")"
NAME: /[a-z][a-z_]{0,15}/
NUMBER: /[0-9]{1,9}/
TEXT: /"[^"\\\n]*"/
"""

_PATTERNS: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = [
    (
        "semver",
        r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?",
        ("1.20.3", "0.0.1-rc.1"),
        ("1.2", "1.2.3-"),
    ),
    (
        "iso_date",
        r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
        ("2024-02-29",),
        ("2024-13-01", "24-1-1"),
    ),
    (
        "ipv4",
        r"((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])",
        ("10.0.0.255", "1.2.3.4"),
        ("256.1.1.1", "1.2.3"),
    ),
    ("phone", r"\+[1-9][0-9]{0,2}( [0-9]{2,4}){2,4}", ("+49 30 1234 56",), ("030 1234", "+49 3")),
    ("colour", r"#([0-9a-f]{3}|[0-9a-f]{6})", ("#fff", "#00ff7a"), ("#ff", "#gggggg")),
    (
        "uuid",
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        ("0b0f2d2a-8d0f-4a9e-9a51-0c2c8d1d7b11",),
        ("0b0f2d2a-8d0f-4a9e-9a51", "x"),
    ),
    (
        "mail",
        r"[a-z0-9._-]+@[a-z0-9-]+(\.[a-z]{2,})+",
        ("ada.l@example.co.uk",),
        ("ada@", "ada@example"),
    ),
    (
        "url",
        r"https?://[a-z0-9.-]+(:[0-9]{1,5})?(/[^ ?#]*)?(\?[^ #]*)?",
        ("https://example.org:8080/a/b?c=d", "http://x"),
        ("ftp://x", "https://a b"),
    ),
    (
        "time",
        r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?",
        ("23:59", "00:00:00"),
        ("24:00", "1:00"),
    ),
    (
        "money",
        r"[$€£][1-9][0-9]{0,2}(,[0-9]{3})*\.[0-9]{2}",
        ("€1,234.50", "$9.99"),
        ("€1234.50", "9.99"),
    ),
    ("heading", r"#{1,6} [^\n]{1,80}\n", ("## Où est-ce ?\n",), ("####### x\n", "#x\n")),
    (
        "log_line",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} (DEBUG|INFO|WARN|ERROR) [a-z.]+: [^\n]{0,200}",
        ("2024-01-01 INFO app.main: started in 3 ms",),
        ("2024-01-01 NOTE app: x", "INFO a: b"),
    ),
    (
        "roman",
        r"M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})",
        ("MCMXCIV", "III"),
        ("IIII", "VX"),
    ),
    ("mac", r"([0-9A-F]{2}:){5}[0-9A-F]{2}", ("00:1A:2B:3C:4D:5E",), ("00:1A:2B:3C:4D", "0:1")),
    ("identifier", r"[A-Za-z_][A-Za-z0-9_]{0,30}", ("snake_case", "_x1"), ("1x", "a-b")),
    (
        "sentence",
        r"[A-Z][a-z]{1,14}( [a-z]{1,15}){2,12}[.!?]",
        ("The quick brown fox jumps over it.",),
        ("the fox.", "The fox."),
    ),
    (
        "csv",
        r'("([^"]|"")*"|[^",\n]*)(,("([^"]|"")*"|[^",\n]*)){2}',
        ('a,"b ""c"" d",', ",,"),
        ("a,b", 'a,"b,c'),
    ),
    ("anything_50", r"(.|\n){0,50}", ("", "é日🐢 and more"), ("x" * 51,)),
    ("counted_tail", r"[ab]*a[ab]{10}", ("ba" + "b" * 10, "a" * 11), ("b" * 11, "ab")),
    ("greek", r"[α-ω]{1,20}( [α-ω]{1,20}){0,4}", ("καλημερα κοσμε",), ("kalimera", "")),
    ("nested_counts", r"((a{0,20}b){0,20}c){0,20}", ("aabbc", "ccc"), ("a", "c" * 21)),
]

_GRAMMARS: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = [
    (
        "arithmetic",
        ARITHMETIC,
        ("1+2*(3-x)", "f(a,g(1.5),-h())/2", "((((1))))"),
        ("1+", "f(a,)", "(1", "2 + 2"),
    ),
    (
        "json",
        JSON,
        ('{"a":[1,-2.5e3,{"b":"c\\n"}],"d":null}', "[]", '"é"'),
        ('{"a":}', "[1,]", "01", '"a'),
    ),
    (
        "program",
        PROGRAM,
        ('x = f(1, "a b") + y;\nif (x < 3) {\nreturn x;\n}\n', "return (a == b);\n"),
        ("x = 1\n", "if (x) {\n", "return ;\n"),
    ),
]


def cases() -> list[Case]:
    """Patterns, then grammars."""
    patterns = [
        Case(f"re_{name}", "regex", spec, valid, invalid)
        for name, spec, valid, invalid in _PATTERNS
    ]
    grammars = [
        Case(f"cfg_{name}", "grammar", spec, valid, invalid)
        for name, spec, valid, invalid in _GRAMMARS
    ]
    return patterns + grammars
