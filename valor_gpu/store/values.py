"""Texts and JSON values as SQLite keeps them: every Python text comes back as it was, and JSON is strict.

SQLite's text is UTF-8, which has no lone surrogates. A text that holds one is kept as a BLOB of the same encoding with
``surrogatepass``; all others are kept as text, so that they can be searched.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from json import encoder
from typing import Any

from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import kind

_ERRORS = "surrogatepass"
_DECODER: Any = json.JSONDecoder()
_SCAN = _DECODER.scan_once  # of a text that begins with its value, as ours do: half the calls of json.loads
_FLAT = frozenset((str, float, int, bool, type(None)))  # values without keys of their own


def packed(text: str) -> str | bytes:
    r"""Returns a text as it is bound to a statement.

    Example:
        >>> packed("plain"), packed("lone \ud800")
        ('plain', b'lone \xed\xa0\x80')
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors=_ERRORS)
    return text


def unpacked(kept: str | bytes) -> str:
    r"""Returns the text that :func:`packed` was given.

    Example:
        >>> unpacked(packed("lone \ud800")) == "lone \ud800"
        True
    """
    return kept if isinstance(kept, str) else _from_bytes(kept)


def _from_bytes(kept: object) -> str:
    """Returns the text of bytes, which hold a lone surrogate: others are kept as texts.

    Raises:
        DamageError: it cannot be what was written.
    """
    if type(kept) is bytes:
        with contextlib.suppress(UnicodeDecodeError):
            text = kept.decode(errors=_ERRORS)
            if packed(text) == kept:
                return text
    if isinstance(kept, bytes):
        raise DamageError("", "a text is not UTF-8")
    raise DamageError("", f"a text is kept as {kind(kept)}")


def json_text(name: str, value: object) -> str:
    """Returns strict JSON of a value.

    Args:
        name: of the value, for messages.
        value: mappings with text keys, lists, tuples, texts, finite numbers, booleans and None.

    Raises:
        InputError: something that JSON cannot express, such as NaN.

    Example:
        >>> json_text("config", {"metrics": ("f1_score",), "name": "é"})
        '{"metrics": ["f1_score"], "name": "é"}'
    """
    if value == {} and type(value) is dict:  # outputs without a target
        return "{}"
    try:
        _check_keys(name, value)
        return encoded(value)
    except InputError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} must hold JSON values: {error}") from error


def packed_json(name: str, value: object) -> str | bytes:
    """Returns strict JSON of a value as it is bound to a statement."""
    return packed(json_text(name, value))


def unpacked_json(kept: str | bytes) -> Any:
    r"""Returns the value that :func:`packed_json` was given; tuples are lists.

    Example:
        >>> unpacked_json(packed_json("inputs", {"a": (1, "\x00")}))
        {'a': [1, '\x00']}
    """
    text = unpacked(kept)
    try:
        value, end = _SCAN(text, 0)
        if end == len(text):
            return value
    except (StopIteration, ValueError, RecursionError):
        pass  # the words of the error are those of json.loads
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamageError("", f"its JSON cannot be read: {error}") from error


def unpacked_mapping(kept: str | bytes) -> dict[str, Any]:
    """Returns the mapping that :func:`packed_json` was given; another value is a :class:`DamageError`."""
    value = unpacked_json(kept)
    if type(value) is not dict:
        raise DamageError("", f"its JSON is no object but {type(value).__name__}")
    return value


def _check_keys(name: str, value: object) -> None:
    """Raises for keys that are no texts: ``json`` would turn 1 into "1", perhaps beside another "1"."""
    if type(value) is dict or isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InputError(f"{name} must have texts as keys but has the {type(key).__name__} {key!r}")
            if type(item) not in _FLAT:
                _check_keys(name, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if type(item) not in _FLAT:
                _check_keys(name, item)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _encoder() -> Callable[[Any], str]:
    """``JSONEncoder.encode`` with its C part set up once: for every value anew, that takes a third of the time.

    A value that holds itself is a RecursionError.
    """
    plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain)
    try:
        # markers, default, encoder of texts, indent, signs between, sort_keys, skipkeys, allow_nan
        make: Any = encoder.c_make_encoder  # type: ignore[attr-defined]  # which type stubs do not know
        parts = make(None, _plain, encoder.encode_basestring, None, ": ", ", ", False, False, False)
        if "".join(parts({"a": [1, 0.5, "é"]}, 0)) == plain.encode({"a": [1, 0.5, "é"]}):
            return lambda value: "".join(parts(value, 0))
    except (AttributeError, TypeError):  # a Python without it
        pass
    return plain.encode


encoded = _encoder()
"""Strict JSON of a value with texts as keys; TypeError, ValueError or RecursionError for what is none."""
