"""The answer that the body of an endpoint's reply holds, by its media type. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.evaluation.targets.base import is_chat
from valor_gpu.judge.bodies import (
    UNREADABLE,
    BodyError,
    ContentType,
    codec_of,
    declared_types,
    json_value,
    quoted,
    text_of,
)
from valor_gpu.judge.json_text import ParseError

_MARKUP = ("text/html", "text/xml")
_PAGE = re.compile(r"\s{0,100}<(!doctype|html)", re.IGNORECASE)
_OBJECT = re.compile(r"\s{0,100}(\[\s{0,100})?\{\s{0,100}(\"|$)")  # how JSON that was cut off begins, too
_ADVICE = "where it is the answer, give the target 'content_type'"


def content_type_of(given: Any) -> ContentType | None:
    """The content type that replies of a target are read by, whatever they declare; None for what they declare.

    Raises:
        InputError: neither text nor JSON, or a charset that is not known.

    Example:
        >>> content_type_of("text/html; charset=latin1")
        ContentType(media_type='text/html', charset='latin1')
    """
    if given is None:
        return None
    check_type("target['content_type']", given, str)
    found = ContentType.of(given)
    if not (found.is_json or found.is_text):
        raise InputError(f"target['content_type'] must be text/... or application/json but is {given!r:.80}")
    if found.charset is not None:
        try:
            codec_of(found.charset)
        except BodyError:
            raise InputError(
                f"target['content_type'] must have a charset that is known but has {found.charset!r:.80}"
            ) from None
    return found


def text_in(response: Any, given: ContentType | None) -> tuple[str, ContentType]:
    """The text of a response, and the content type that it was decoded by.

    Args:
        response: with ``content``, ``headers`` and ``extensions``.
        given: the content type in place of the declared one.

    Raises:
        BodyError: a body that cannot be decoded, or that is declared in two ways.
    """
    if problem := response.extensions.get(UNREADABLE):
        raise BodyError(problem)
    declared = [given] if given is not None else declared_types(response)
    if len(declared) > 1:
        shown = " and ".join(quoted(each.media_type) for each in declared[:3])
        raise BodyError(f"its content type is declared more than once, as {shown}")
    return text_of(response.content, declared[0].charset), declared[0]


def value_in(text: str, declared: ContentType, given: bool, needs_json: bool) -> Any:
    """The JSON value, or the text, that is the answer.

    A text that begins as a JSON object does is read as one: it may have been cut off. Other JSON in a text is the
    answer as it stands, but for a quoted text and messages.

    Args:
        text: of the body.
        declared: its content type.
        given: whether that is the user's own, by whose word every text is an answer.
        needs_json: whether paths lead to the answer.

    Raises:
        BodyError, ParseError: the body is not what it declares, or nothing that can be an answer.

    Example:
        >>> value_in("4", ContentType("text/plain"), False, False), value_in("4", ContentType("text/json"), False, True)
        ('4', 4)
    """
    if not text.strip():
        raise ParseError("the reply is empty")
    kind = declared.media_type
    if declared.is_json or (needs_json and (declared.is_text or not kind)):
        return json_value(text)
    if kind and not declared.is_text:
        raise ParseError(f"the reply must be text or JSON but is {quoted(kind)}: {_ADVICE}")
    try:
        value = json_value(text)
    except BodyError as error:
        if _OBJECT.match(text) and not given:
            raise BodyError(f"{error}; {_ADVICE}") from None
        value = None
    if isinstance(value, (str, Mapping)) or is_chat(value):
        return value
    if not given:
        _check_kind(text, kind)
    return text


def _check_kind(text: str, kind: str) -> None:
    """Raises :class:`ParseError` for text that is hardly an answer: pages of gateways, streams of events."""
    if kind == "text/event-stream":
        raise ParseError(
            "the reply must be whole but is a stream of events: ask for one that is none ('stream': false)"
        )
    if kind in _MARKUP or _PAGE.match(text):
        page = kind if kind in _MARKUP else "text/html"
        raise ParseError(f"the reply must be an answer but is a page of {page}: {_ADVICE}")
