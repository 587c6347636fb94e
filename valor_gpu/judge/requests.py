"""What a chat-completions request holds: its messages, the wish for JSON, and the parameters that a server takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from valor_gpu.judge.protocol import JudgeError, Messages, Schema, Status

FORMATS = ("json_schema", "json_object", "text")
"""Ways to ask for JSON, the strictest first."""
_DROPPABLE = frozenset(("temperature", "top_p", "seed", "logprobs", "top_logprobs"))
_LENGTHS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_UNSENDABLE = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\x00")


def escaped(value: Any) -> Any:
    r"""Returns a JSON value whose texts every server can read.

    A surrogate without its other half has no UTF-8, and parsers of JSON differ in what they do with its escape; a NUL
    ends the text in some servers. Both become six visible characters: a backslash, ``u`` and four digits. Two halves
    that stand side by side become the character that they are.

    Example:
        >>> print(escaped("a \ud83d"), escaped("\ud83d\ude00"), escaped({"b\x00": 1}))
        a \ud83d 😀 {'b\\u0000': 1}
    """
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else _UNSENDABLE.sub(_visible, value)
    if isinstance(value, Mapping):
        return {escaped(key): escaped(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [escaped(one) for one in value]
    return value


def _visible(match: re.Match[str]) -> str:
    if len(match[0]) == 2:
        return match[0].encode("utf-16", "surrogatepass").decode("utf-16")
    return f"\\u{ord(match[0]):04x}"


def ways_to_send(identity: Mapping[str, Any], schema: Schema | None) -> Iterator[tuple[str, ...]]:
    """Yields the names that a request of a judge may have been sent without, none first.

    Args:
        identity: of the judge, with the parameters that were asked for.
        schema: of the request.

    Example:
        >>> list(ways_to_send({"parameters": {"temperature": 0.0, "max_tokens": 9}}, None))
        [(), ('temperature',)]
    """
    parameters, form = identity.get("parameters"), identity.get("response_format")
    names = sorted(_DROPPABLE & set(parameters)) if isinstance(parameters, Mapping) else []
    first = FORMATS.index(form) if form in FORMATS else len(FORMATS) - 1
    forms = FORMATS[first:-1] if schema is not None else ()
    for count in range(len(forms) + 1):
        for size in range(len(names) + 1):
            yield from ((*forms[:count], *gone) for gone in combinations(names, size))


@dataclass(frozen=True)
class Parameters:
    """Parameters of a request as far as the server is known to take them.

    Attributes:
        values: by name.
        form: how a reply in JSON is asked for, one of ``FORMATS``.
        dropped: names of parameters, and of ways to ask for JSON, that the server rejects.
        renamed: names that were given up for others of the same meaning.
    """

    values: Mapping[str, Any]
    form: str = FORMATS[0]
    dropped: tuple[str, ...] = ()
    renamed: tuple[str, ...] = field(default=(), repr=False)

    def dropped_for(self, schema: Schema | None) -> tuple[str, ...]:
        """Returns the dropped names that change a request with, or without, a schema.

        Example:
            >>> parameters = Parameters({}, "text", dropped=("json_schema", "seed"))
            >>> parameters.dropped_for(None), parameters.dropped_for({"type": "object"})
            (('seed',), ('json_schema', 'seed'))
        """
        return tuple(name for name in self.dropped if schema is not None or name not in FORMATS)

    def without(self, rejected: frozenset[str], schema: Schema | None) -> Parameters:
        """Returns the parameters left after a server has rejected some; the same object when nothing changes.

        Each call that changes something leaves fewer ways to go on, so that asking again comes to an end.

        Args:
            rejected: names that the server does not support.
            schema: of the request.

        Example:
            >>> Parameters({"seed": 7, "max_tokens": 9}).without(frozenset(["seed", "max_tokens"]), None).values
            {'max_completion_tokens': 9}
        """
        values, dropped, renamed = dict(self.values), list(self.dropped), list(self.renamed)
        for old, new in _LENGTHS.items():
            if old in rejected and old in values and old not in renamed:
                renamed.append(old)
                values.setdefault(new, values.pop(old))
                break
        gone = rejected & _DROPPABLE & values.keys()
        if gone & {"logprobs", "top_logprobs"}:
            gone |= {"logprobs", "top_logprobs"} & values.keys()
        values = {name: value for name, value in values.items() if name not in gone}
        form = self.form
        if "response_format" in rejected and schema is not None and form != FORMATS[-1]:
            dropped.append(form)
            form = FORMATS[FORMATS.index(form) + 1]
        if not gone and form == self.form and len(renamed) == len(self.renamed):
            return self
        return replace(self, values=values, form=form, dropped=(*dropped, *sorted(gone)), renamed=tuple(renamed))

    def body(self, model: str, messages: Messages, schema: Schema | None) -> dict[str, Any]:
        """Returns the body of a request, in JSON values that can be sent.

        Raises:
            JudgeError: ``bad_request`` when messages or schema hold something that is no JSON.
        """
        try:
            request = {"model": model, "messages": [dict(message) for message in messages], **self.values}
            if schema is not None:
                _ask_for_json(request, schema, self.form)
            sendable: dict[str, Any] = escaped(request)
            json.dumps(sendable, allow_nan=False)
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            return sendable
        raise JudgeError(Status.BAD_REQUEST, f"the messages must be JSON values: {reason}"[:500], max_retries=0)


def _ask_for_json(request: dict[str, Any], schema: Schema, form: str) -> None:
    """Asks for JSON by the protocol when the server can, else in words."""
    if form == "json_schema":
        named = {"name": "judgement", "schema": dict(schema), "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": named}
        return
    if form == "json_object":
        request["response_format"] = {"type": "json_object"}
    compact = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    wish = f"Reply with one JSON object and nothing else. It must follow this JSON schema: {compact}"
    messages = request["messages"]
    if messages and messages[0].get("role") == "system" and isinstance(messages[0].get("content"), str):
        messages[0] = {**messages[0], "content": f"{messages[0]['content']}\n\n{wish}"}
    else:
        messages.insert(0, {"role": "system", "content": wish})
