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
    "closing marks of thoughts": lambda n: "</think>" * (n // 8),
    "quoted marks of thoughts": lambda n: '"</think>' * (n // 9),
    "thoughts and words": lambda n: "<think>x</think>a" * (n // 17),
    "channels": lambda n: "<|channel|>" * (n // 11),
    "marks in texts": lambda n: 'x{"a":"' + "</think>" * (n // 8) + '"}',
    "labels that differ": lambda n: "Score: 4 Score: 5 " * (n // 18),
    "fractions": lambda n: "4/5 " * (n // 4),
    "curly quotes": lambda n: "{\u201c" + "\u201dx" * (n // 2),
    "open quotes": lambda n: "\u201c" * n,
    "texts that are not closed": lambda n: '{"a":"' * (n // 6),
    "backslashes": lambda n: '{"a":"' + "\\" * n + '"}',
    "fences": lambda n: "```" * (n // 3) + "{",
}
"""Kinds of replies by name, each a function of the number of characters; none of them holds a rating."""
