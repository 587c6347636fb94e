"""Replies of a judge that are made to take long, at any size."""

from __future__ import annotations

from collections.abc import Callable

SIZES = 250_000, 1_000_000
"""Characters of the replies that tests and benchmarks read."""

HOSTILE: dict[str, Callable[[int], str]] = {
    "score and spaces": lambda n: "score" + " " * (n - 5),
    "score and line ends": lambda n: "score" + "\n" * (n - 5),
    "scores without numbers": lambda n: "score:" + "*_ score :" * (n // 10),
    "digits": lambda n: "1" * n,
    "fractions without ends": lambda n: "1 / x" * (n // 5),
    "thoughts that are not closed": lambda n: "<think>" * (n // 7),
    "tags that are not closed": lambda n: "<S1>" * (n // 8) + "<S2>" * (n // 8),
    "objects in objects, open": lambda n: '{"a":' * (n // 5),
    "objects in objects, closed": lambda n: '{"a":' * (n // 6) + "}" * (n // 6),
    "broken objects in broken objects": lambda n: "{x" * (n // 3) + "}" * (n // 3),
    "lists in lists": lambda n: '{"a":' + "[" * (n - 5),
    "quotes and backslashes": lambda n: "{" + '"\\' * (n // 2),
    "escaped quotes": lambda n: '{"' + '\\"' * (n // 2),
    "single quotes": lambda n: "{'" + "\\'" * (n // 2) + "'}",
    "commas": lambda n: "{" + ", " * (n // 2) + "}",
    "equal objects": lambda n: '{"a":1}' * (n // 7),
    "braces": lambda n: "{}" * (n // 2),
    "fences": lambda n: "```" * (n // 3) + "{",
}
"""Kinds of replies by name, each a function of the number of characters; none of them holds a rating."""
