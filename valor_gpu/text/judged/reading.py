"""Values of the judge's replies, and the JSON schemas that ask for them. A reply that breaks a rule is a ParseError."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from valor_gpu.judge.json_text import with_keys
from valor_gpu.judge.parse import ParseError, object_schema, parse_object, parse_score, score_schema
from valor_gpu.judge.protocol import Schema

YES_NO = ("yes", "no")
YES_NO_IDK = ("yes", "no", "idk")
RATING_SCHEMA = score_schema(1, 5)
_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIRST_WHOLE = re.compile(r"-?\d+")


class Sorted(NamedTuple):
    """Numbers of statements: borne out, not borne out, missing."""

    tp: int
    fp: int
    fn: int


def texts_schema(*keys: str) -> Schema:
    """Schema of an object of lists of texts.

    Example:
        >>> sorted(texts_schema("TP", "FP")["properties"])
        ['FP', 'TP']
    """
    return object_schema(dict.fromkeys(keys, _TEXTS))


def verdicts_schema(allowed: Sequence[str]) -> Schema:
    """Schema of a list of verdicts, each with its analysis before it."""
    verdict = object_schema({"analysis": {"type": "string"}, "verdict": {"type": "string", "enum": list(allowed)}})
    return object_schema({"verdicts": {"type": "array", "items": verdict}})


def read_object(text: str, replies: str, *keys: str) -> dict[str, Any]:
    """The JSON object of a reply.

    Args:
        text: the reply.
        replies: ``tolerant``, by the grammar of :func:`valor_gpu.judge.parse_object`; ``core`` and ``lite``, as the
            releases of Valor read: from the first brace to the last, whatever is thought, quoted or said twice;
            ``core`` adds a brace that is missing at the end.
        keys: what a tolerant reply's object has one of.
    """
    if replies == "tolerant":
        return parse_object(text, *keys)
    first, last = text.find("{"), text.rfind("}")
    if first < 0 or (last < first and replies == "lite"):
        raise ParseError(f"the reply must hold a JSON object but is {text[:80]!r}")
    whole = text[first : last + 1] if last > first else text[first:] + "}"
    try:
        found = json.loads(re.sub(r",\s*(?=[]}])", "", whole) if replies == "core" else whole)
    except ValueError as error:
        raise ParseError(f"the reply is no JSON: {error}") from None
    return dict(found)


def read_texts(text: str, key: str, replies: str) -> list[str]:
    """A list of texts of a reply.

    Example:
        >>> read_texts('{"claims": ["The mill is old."]}', "claims", "tolerant")
        ['The mill is old.']
    """
    return _texts(read_object(text, replies, key), key)


def _texts(found: Mapping[str, Any], key: str) -> list[str]:
    value = found.get(key)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ParseError(f"{key} must be a list of texts but is {str(value)[:80]}")
    return value


def read_verdicts(text: str, count: int, allowed: Sequence[str], replies: str) -> list[str]:
    """The verdicts of a reply, as many as there were questions.

    Example:
        >>> read_verdicts('{"verdicts": [{"verdict": "Yes"}]}', 1, YES_NO, "tolerant")
        ['yes']
    """
    found = read_object(text, replies, "verdicts").get("verdicts")
    if not isinstance(found, list) or len(found) != count:
        got = len(found) if isinstance(found, list) else type(found).__name__
        raise ParseError(f"verdicts must be a list of {count} but is {got}")
    return [_verdict(one, allowed, replies) for one in found]


def _verdict(one: Any, allowed: Sequence[str], replies: str) -> str:
    if not isinstance(one, dict) or (replies == "lite" and set(one) != {"verdict", "analysis"}):
        raise ParseError(f"a verdict must be an object of analysis and verdict but is {str(one)[:80]}")
    verdict = (with_keys(one, ["verdict"]) if replies == "tolerant" else one).get("verdict")
    if replies == "tolerant" and isinstance(verdict, str):
        verdict = verdict.strip(" \n.!*'\"").lower()
    if verdict not in allowed:
        raise ParseError(f"verdict must be {', '.join(allowed)} but is {str(verdict)[:80]!r}")
    return str(verdict)


def read_sorted(text: str, answer: int, correct: int, replies: str) -> Sorted:
    """How the statements of an answer and of a correct one were sorted.

    Args:
        text: the reply.
        answer: number of statements of the answer: each is in TP or FP.
        correct: number of correct statements: FN has no more.
        replies: see :func:`read_object`.
    """
    found = read_object(text, replies, "TP", "FP", "FN")
    tp, fp, fn = (len(_texts(found, key)) for key in ("TP", "FP", "FN"))
    if tp + fp != answer:
        raise ParseError(f"TP and FP must hold the {answer} statements of the answer but hold {tp + fp}")
    if fn > correct:
        raise ParseError(f"FN must hold at most the {correct} correct statements but holds {fn}")
    return Sorted(tp, fp, fn)


def read_rating(text: str, replies: str) -> float:
    """A rating from 1 to 5.

    A JSON object is read alike by all; of other texts ``core`` takes the first character, ``lite`` the first whole
    number.

    Example:
        >>> read_rating("The score is 3 out of 5.", "tolerant"), read_rating("10", "core"), read_rating("4.7", "lite")
        (3.0, 1.0, 4.0)
    """
    if replies == "tolerant" or "{" in text:
        return parse_score(text, 1, 5).value
    if replies == "core":
        number = text.strip()[:1]
    else:
        match = _FIRST_WHOLE.search(text)
        number = match[0] if match else ""
    return parse_score(number, 1, 5).value
