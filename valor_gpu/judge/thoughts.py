"""What a model thinks before it replies, by the marks around it. No torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.lenient import PLACEHOLDER, ParseError, find_fences, find_objects, quoted
from valor_gpu.judge.places import STANDS, InOrder, Places

VARIABLE = "VALOR_GPU_THOUGHT_MARKS"
"""Environment variable with further marks, for commands: an opening and a closing one, and so on, between spaces."""
_TAGS = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "antThinking",
         "seed:think", "S0")  # fmt: skip
_MARKS: dict[str, str] = {
    **{f"<{tag}>".lower(): f"</{tag}>".lower() for tag in _TAGS},
    "[think]": "[/think]",
    "\u25c1think\u25b7": "\u25c1/think\u25b7",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|start_thinking|>": "<|end_thinking|>",
}
"""Closing mark by the opening one, in lower case."""
_CHANNEL = re.compile(r"<\|(start|channel|message|constrain|end|return|call)\|>", re.IGNORECASE)
# The harmony format where a server leaves its marks out: "analysisThe answer ...assistantfinal4".
_UNMARKED = re.compile(r"\s{0,8}analysis(?=[A-Z\W_])")
_FINAL = re.compile(r"assistantfinal(?![a-z])")
_OPENED_QUOTE = re.compile("(?:^|[\\s(\\[:])[\"'`\u201c\u2018\u00ab]$")
_ONLY_OBJECT = re.compile(rf"(?:\s|```|~~~|json\b|{PLACEHOLDER})*", re.IGNORECASE)
_MOST_SAID = 8  # texts beside the verdict that are read
_COUNTS, _IN_QUOTES, _IN_JSON = "counts", "in quotes", "in JSON"
_FIRST = ("<|begin_of_solution|>", "<|begin_of_box|>", "<answer>")
_LAST = ("<|end_of_solution|>", "<|end_of_box|>", "</answer>", "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end|>",
         "<|return|>", "</s>", "<end_of_turn>", "<\uff5cend\u2581of\u2581sentence\uff5c>")  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """A reply without its thoughts.

    Attributes:
        verdict: what the judge says when it has thought; empty when the thoughts have no end.
        before: texts outside of its thoughts before that. They give no verdict, but may contradict one.
        cut: whether the thoughts have no end.
    """

    verdict: str
    before: tuple[str, ...] = ()
    cut: bool = False


def _pattern() -> re.Pattern[str]:
    """The opening marks as the first group, the closing ones as the second."""
    groups = (sorted(marks, key=len, reverse=True) for marks in (_MARKS, set(_MARKS.values())))
    return re.compile("|".join(f"({'|'.join(map(re.escape, marks))})" for marks in groups), re.IGNORECASE)


_MARK = _pattern()


def add_thought_marks(opening: str, closing: str) -> None:
    """Adds marks around what a model thinks, for all replies of this process; upper and lower case are alike.

    Commands and Studio take them from the environment: ``VALOR_GPU_THOUGHT_MARKS="<plan> </plan>"``.

    Args:
        opening: the mark before a thought.
        closing: the mark behind it.

    Raises:
        InputError: a mark that is blank or a word, two that are equal, or one that is known in another pair.

    Example:
        >>> add_thought_marks("<ponder>", "</ponder>")
        >>> without_thoughts("<ponder>Score: 2?</ponder>Score: 4")
        'Score: 4'
    """
    global _MARK
    for name, mark in {"opening": opening, "closing": closing}.items():
        check_type(name, mark, str)
        if len(mark) < 2 or mark != mark.strip() or mark.isalnum():
            raise InputError(f"{name} must be a mark of two or more signs such as <plan> but is {mark!r}")
    begin, end = opening.lower(), closing.lower()
    known = next((pair for pair in _MARKS.items() if {begin, end} & {*pair} and pair != (begin, end)), None)
    if begin == end or known is not None:
        taken = "are equal" if known is None else f"are of the pair {known[0]!r}, {known[1]!r}"
        raise InputError(f"opening and closing must be marks of their own but {opening!r}, {closing!r} {taken}")
    _MARKS[begin] = end
    _MARK = _pattern()


def _add_from_environment() -> None:
    marks = os.environ.get(VARIABLE, "").split()
    if len(marks) % 2:
        raise InputError(f"{VARIABLE} must be pairs of an opening and a closing mark between spaces but is {marks}")
    for opening, closing in zip(marks[::2], marks[1::2]):
        add_thought_marks(opening, closing)


_add_from_environment()


def without_thoughts(text: str) -> str:
    """Returns what stands behind the last mark that ends a thought; nothing when a thought has no end.

    Example:
        >>> without_thoughts("<think>4?</think>5"), without_thoughts("4?</think>5"), without_thoughts("<think>Score: 4")
        ('5', '5', '')
    """
    return split_thoughts(text).verdict


def has_thoughts(text: str) -> bool:
    """Whether a reply has thoughts before its verdict, or nothing else.

    Example:
        >>> has_thoughts("<think>4?</think>5"), has_thoughts("5")
        (True, False)
    """
    parts = split_thoughts(text)
    return parts.cut or parts.verdict != _bare(text)


def split_thoughts(text: str) -> Parts:
    """Splits a reply at the marks around its thoughts, which do not count in texts of JSON, quotes and code fences.

    Raises:
        ParseError: it holds too many braces.
    """
    parts = _at_channels(text)
    last = _at_marks(parts.verdict)
    hidden = _hidden_messages(last.verdict) if parts.verdict == text else ()
    return Parts(_bare(last.verdict), (*parts.before, *last.before, *hidden), parts.cut or last.cut)


def _at_marks(text: str) -> Parts:
    before: list[str] = []
    begin, open_at, quoted, hidden = 0, -1, False, []
    opened = ended = 0
    for match, place in _marks(_MARK, text):
        opens = match[1] is not None
        if place == _IN_JSON:
            hidden += [] if opens else [match.end()]
        elif place == _IN_QUOTES:
            quoted = quoted or opens
        elif opens:
            opened += 1
            open_at = match.start() if open_at < 0 else open_at
        elif open_at < 0 and quoted:  # what ends a quoted mark is quoted as well
            quoted = False
        else:
            if open_at >= 0:
                before.append(text[begin:open_at])
            elif ended and ended >= opened:  # a further mark without an opening one: what it ends may be the verdict
                before.append(text[begin : match.start()])
            # Else the thought has others within it, or began with the reply, where the model's template has opened it.
            ended += 1
            begin, open_at, quoted = match.end(), -1, False
    if open_at >= 0:
        return Parts("", cut=True)
    return Parts(text[begin:], _said("\n".join(before), *(text[end:] for end in _that_hide(text, begin, hidden))))


def _said(*texts: str) -> tuple[str, ...]:
    """Different texts that are not blank.

    Raises:
        ParseError: there are many of them, each of which would have to be read.
    """
    found = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(found) > _MOST_SAID:
        raise ParseError(f"the reply must give its verdict once but gives too many: {quoted(found[0])}")
    return found


def _that_hide(text: str, begin: int, ends: Sequence[int]) -> list[int]:
    """Ends of marks in texts of JSON: a draft that was cut within such a text hides the mark that ends it.

    What stands behind them may contradict the verdict. Where an object is all that a reply has, there are none.
    """
    ends = [end for end in ends if end > begin]
    if not ends or _ONLY_OBJECT.fullmatch(find_objects(text[begin:]).prose) is not None:
        return []
    return ends[: _MOST_SAID + 2]  # more than can be read


def _at_channels(text: str) -> Parts:
    """The last message of the channel ``final``, where a text has channels of the harmony format."""
    signs = [match for match, place in _marks(_CHANNEL, text) if place == _COUNTS]
    if not any(sign[1].lower() == "channel" for sign in signs):
        return _without_channels(text)
    ends = [sign.start() for sign in signs[1:]] + [len(text)]
    before, finals, channel = [text[: signs[0].start()]], [], ""
    for sign, end in zip(signs, ends):
        kind, said = sign[1].lower(), text[sign.end() : end]
        if kind == "channel":
            channel = said.strip().lower()
        elif kind == "message":
            finals += [said] if channel == "final" else []
        elif kind in ("end", "return", "call"):  # nothing belongs behind these
            before.append(said)
    *earlier, last = finals or [""]
    return Parts(last, _said("\n".join(before), *earlier), cut=not finals)


def _without_channels(text: str) -> Parts:
    """The last message behind ``assistantfinal``, where a text begins with ``analysis``; others can contradict it."""
    if _UNMARKED.match(text) is None:
        return Parts(text)
    finals = [match for match, place in _marks(_FINAL, text) if place == _COUNTS]
    if not finals:
        return Parts(text)
    earlier = [text[match.end() : other.start()] for match, other in pairwise(finals)]
    return Parts(text[finals[-1].end() :], _said(*earlier))


def _hidden_messages(text: str) -> tuple[str, ...]:
    """Messages of channels that begin in texts of JSON, see :func:`_that_hide`."""
    marks = list(_marks(_CHANNEL, text))
    after = {sign.end(): other.start() for (sign, _), (other, _) in pairwise(marks)}
    ends = [sign.end() for sign, place in marks if place == _IN_JSON and sign[1].lower() == "message"]
    return _said(*(text[end : after.get(end)] for end in _that_hide(text, 0, ends)))


def _marks(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The marks of a text and the kind of their place: marks in texts of JSON, code fences and quotes are no ends."""
    matches = list(pattern.finditer(text))
    if not matches:
        return
    objects = find_objects(text)
    fences = [fence for fence in find_fences(objects.prose) if fence[1] < len(text) or text.endswith(("```", "~~~"))]
    texts = InOrder([span for one in objects.found if one.closed for span in one.texts])
    places = Places(objects.prose, fences)
    for match in matches:
        begin = match.start()
        if texts.holds(begin):
            yield match, _IN_JSON
        else:
            opened = _OPENED_QUOTE.search(text[max(0, begin - 2) : begin]) is not None
            yield match, _IN_QUOTES if opened or places.weight(begin) != STANDS else _COUNTS


def _bare(text: str) -> str:
    """A verdict without the marks that templates put around it."""
    text = text.strip()
    for mark in _FIRST:
        text = text.removeprefix(mark).lstrip()
    for _ in _LAST:
        text = next((text.removesuffix(mark).rstrip() for mark in _LAST if text.endswith(mark)), text)
    return text
