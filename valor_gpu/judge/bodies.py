"""Bodies of HTTP replies, read as their headers declare them: media type, charset, JSON. No torch.

Shared by targets, judges and embedders. A body that is not what it declares is an error, never a text with signs in
place of what could not be read. Sources: RFC 9110, section 8.3 (content type); RFC 8259 (JSON).
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.judge.json_text import ParseError

UNREADABLE = "valor_gpu.unreadable"
"""Key in the extensions of a response whose body could not be unpacked; its value is why."""
_AS_IT_IS = ("", "identity", "none", "utf-8", "utf8")  # content encodings that change no byte, some of them misnomers
_GZIP = ("gzip", "x-gzip")
_CHARSET = re.compile(r"[A-Za-z0-9][\w.:+-]{0,39}", re.ASCII)
_PARAMETER = re.compile(r';[ \t]*([^\s;="]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^;\s]*)')
_PYTHONS_OWN = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem")
_MARKS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
_LONGEST_INTEGER = 1000  # digits; converting takes time that grows as their square does
_LONGEST_NAME = 80  # characters
_BLANK = " \t\r\n"


class BodyError(ParseError):
    """A body that is not what it declares; the message begins with ``it`` or ``its``."""


@dataclass(frozen=True)
class ContentType:
    """What the header ``content-type`` says.

    Attributes:
        media_type: in lower case, such as ``application/json``; empty where there is no header.
        charset: as it was written; None where there is none, which means UTF-8.

    Example:
        >>> ContentType.of('Application/JSON; charset="utf-8"')
        ContentType(media_type='application/json', charset='utf-8')
    """

    media_type: str = ""
    charset: str | None = None

    @classmethod
    def of(cls, value: str) -> ContentType:
        """Reads the value of a header."""
        named = {name.lower(): text.strip('"') for name, text in reversed(_PARAMETER.findall(value))}
        return cls(value.partition(";")[0].strip().lower(), named.get("charset"))

    @property
    def is_json(self) -> bool:
        """Whether the body is declared as JSON: ``application/json``, ``text/json``, ``application/x+json``."""
        kind = self.media_type.partition("/")[2]
        return kind in ("json", "x-json") or kind.endswith("+json")

    @property
    def is_text(self) -> bool:
        """Whether the body is declared as text of any kind, JSON left aside."""
        return self.media_type.startswith("text/") and not self.is_json


def declared_types(response: Any) -> list[ContentType]:
    """The content types that a response declares: one, unless it has several headers that differ in meaning."""
    found = [ContentType.of(value) for value in response.headers.get_list("content-type")]
    return list({(each.media_type, _name_of(each)): each for each in found}.values()) or [ContentType()]


def _name_of(declared: ContentType) -> str:
    """Python's name of a charset, or as it was written where it is not known."""
    charset = declared.charset or "utf-8"
    try:
        return codec_of(charset)
    except BodyError:
        return charset


def json_of(response: Any) -> Any:
    """The JSON value of a reply of a server of the OpenAI protocols, whatever media type it declares.

    Servers send JSON as ``text/plain`` and as ``text/html``, too. NaN and Infinity, which servers written in Python
    send as log-probabilities, are read: whoever uses a number of such a reply checks it.

    Raises:
        BodyError: bytes that are not of the declared charset, or no JSON.
    """
    if problem := response.extensions.get(UNREADABLE):
        raise BodyError(problem)
    charsets = {_name_of(each) for each in declared_types(response)}
    if len(charsets) > 1:
        raise BodyError(f"its charset is declared as {' and '.join(sorted(charsets))}")
    return json_value(text_of(response.content, charsets.pop()), non_finite=True)


def text_of(content: bytes, charset: str | None) -> str:
    r"""Decodes a body strictly; a byte order mark at its beginning is left out.

    Args:
        content: the bytes.
        charset: that was declared; None for UTF-8.

    Raises:
        BodyError: a charset that is not known, bytes that are not of it, UTF-16 or UTF-32 without the byte order mark
            that tells the order of its bytes.

    Example:
        >>> text_of(b"caf\xe9", "iso-8859-1"), text_of(b"\xef\xbb\xbf4", None)
        ('café', '4')
    """
    name = codec_of(charset or "utf-8")
    if content and name in _MARKS and not content.startswith(_MARKS[name]):
        raise BodyError(f"its charset {charset} needs a byte order mark but it begins without one")
    try:
        return content.decode(name).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BodyError(f"its byte {error.start + 1:,} of {len(content):,} is no {name.upper()}") from None
    except UnicodeError:  # codecs that do not tell the place
        raise BodyError(f"its bytes are no {name.upper()}") from None


def codec_of(charset: str) -> str:
    """Returns Python's name of a charset.

    Raises:
        BodyError: there is no such charset. Codecs of Python that are no charset, such as ``zlib``, count as none.

    Example:
        >>> codec_of("Latin1"), codec_of("UTF8")
        ('iso8859-1', 'utf-8')
    """
    try:
        name = codecs.lookup(charset).name if _CHARSET.fullmatch(charset) else ""
        if name and name not in _PYTHONS_OWN and isinstance(b"0".decode(name, errors="replace"), str):
            return name
    except (LookupError, UnicodeError):
        pass
    raise BodyError(f"its charset {quoted(charset)} is not known")


def quoted(name: str) -> str:
    """A name that a server sent, for messages; a long one is not shown: a secret that was cut could not be masked.

    Example:
        >>> quoted("br"), quoted("k" * 200)
        ("'br'", 'of 200 characters')
    """
    return repr(name) if len(name) <= _LONGEST_NAME else f"of {len(name):,} characters"


def json_value(text: str, non_finite: bool = False) -> Any:
    """Reads a text of JSON strictly.

    Args:
        text: the whole text.
        non_finite: whether NaN and Infinity are read, which are no JSON.

    Raises:
        BodyError: no JSON, a key that an object has twice, an integer of more than 1,000 digits, nesting that Python
            cannot read.

    Example:
        >>> json_value('{"answer": [4]}')
        {'answer': [4]}
    """
    if not text.strip(_BLANK):
        raise BodyError("it is empty")
    try:
        return (_TOLERANT if non_finite else _STRICT).decode(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip(_BLANK)) or error.msg.startswith("Unterminated"):
            raise BodyError(f"it ends too early, after {len(text):,} characters") from None
        raise BodyError(f"it is no JSON at character {error.pos + 1:,} of {len(text):,} ({error.msg})") from None
    except RecursionError:
        raise BodyError("it has too many lists and objects within one another") from None


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise BodyError(f"it has a number of {len(text):,} digits")
    return int(text)


def _constant(text: str) -> float:
    raise BodyError(f"it has {text}, which is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise BodyError(f"it has the key {quoted(twice)} more than once")
    return result


_STRICT = json.JSONDecoder(parse_constant=_constant, parse_int=_integer, object_pairs_hook=_object)
_TOLERANT = json.JSONDecoder(parse_int=_integer, object_pairs_hook=_object)


def readable(content: bytes, declared: Sequence[ContentType]) -> str:
    """The text of an error's body, for messages: what cannot be decoded is replaced."""
    try:
        name = codec_of(declared[0].charset or "utf-8")
        return content.decode(name, errors="replace").removeprefix("\ufeff")
    except (BodyError, UnicodeError):
        return content.decode(errors="replace")


def unpacked(body: bytes, coding: str, max_bytes: int, cut: bool = False) -> tuple[bytes, str]:
    """A body without its content encoding, of at most one byte more than ``max_bytes``, and why there is none.

    Args:
        body: as it travelled.
        coding: the header ``content-encoding``.
        max_bytes: of the result.
        cut: whether the end of the body is missing.

    Example:
        >>> unpacked(b"abc", "identity", 10), unpacked(b"abc", "br", 10)
        ((b'abc', ''), (b'', "its content encoding 'br' was not asked for"))
    """
    coding = coding.strip().lower()
    if coding in _AS_IT_IS or not body:
        return body, ""
    if coding not in (*_GZIP, "deflate"):
        return b"", f"its content encoding {quoted(coding)} was not asked for"
    # Of deflate some servers send the bare stream, without the header of zlib.
    for bits in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)[: 2 if coding == "deflate" else 1]:
        decoder = zlib.decompressobj(bits)
        try:
            found = decoder.decompress(body, max_bytes + 1)
        except zlib.error:
            continue
        if cut or len(found) > max_bytes or (decoder.eof and not decoder.unused_data):
            return found, ""
        what = "has more behind its end" if decoder.eof else "ends too early"
        return b"", f"its content encoding {coding} {what}"
    return b"", f"its content encoding {coding} is damaged"
