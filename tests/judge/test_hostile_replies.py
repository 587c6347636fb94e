"""Replies that are made to take long: the work of reading one grows as its length does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testing.hostile_replies import HOSTILE
from valor_gpu.judge import choices, json_text, lenient, parse, phrases, prose, thoughts
from valor_gpu.judge.parse import ParseError, parse_score

SIZES = 50_000, 200_000

PASSES = 32  # times that a text is read: 20 patterns once each, and the rest of a text beside its only number


class Counted:
    """A pattern that counts the characters it is given to read.

    The patterns of the package never give back what they took, but for a few characters that their quantifiers bound,
    so that the count is their work.
    """

    def __init__(self, wrapped: Any, steps: list[int]) -> None:
        self.wrapped, self.steps = wrapped, steps

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found = getattr(self.wrapped, name)(*arguments)
            text = next(one for one in arguments if isinstance(one, str) and (name != "sub" or one is arguments[1]))
            read = len(text)
            if name in ("match", "search"):
                begin = arguments[1] if len(arguments) > 1 else 0
                read = (found.end() if found else len(text)) - begin
            self.steps.append(1 + read)
            return self.counted(found) if name == "finditer" else found

        return call

    def counted(self, matches: Iterator[Any]) -> Iterator[Any]:
        for match in matches:
            self.steps.append(1)
            yield match


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled with what each call of a pattern or decoder has read."""
    found: list[int] = []
    for module in (choices, json_text, lenient, parse, phrases, prose, thoughts):
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                monkeypatch.setattr(module, name, Counted(value, found))
    return found


@pytest.mark.parametrize("kind", HOSTILE)
def test_work_grows_as_the_length_does(kind: str, steps: list[int]) -> None:
    work = []
    for size in SIZES:
        steps.clear()
        text = HOSTILE[kind](size)
        assert 0.95 * size <= len(text) <= size + 100
        with pytest.raises(ParseError, match=r"the (reply|tag) must|score must"):
            parse_score(text, 1, 5)
        work.append(sum(steps))
    assert work[1] <= 4.1 * work[0] + 1000
    assert work[1] <= PASSES * SIZES[1]


def test_a_small_reply_may_have_many_broken_braces() -> None:
    text = " ".join(f"{{step {i}}}" for i in range(100))
    assert parse_score(text + ' {"score": 4}', 1, 5).value == 4.0
    with pytest.raises(ParseError, match="too many braces"):
        parse_score("{x}" * 2000 + '{"score": 4}', 1, 5)
