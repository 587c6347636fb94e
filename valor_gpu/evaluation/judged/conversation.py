"""Conversations: messages in, turns of a question and its answer out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.judged.fields import JudgedTexts, is_blank, one_text, texts

_LEFT_OUT = ("system", "developer", "tool", "function")


@dataclass(frozen=True)
class Conversation:
    """Turns of a conversation.

    Attributes:
        turns: one for each message of the assistant that has a text; ``context`` holds its citations.
        notes: what was left out, in words.
    """

    turns: tuple[JudgedTexts, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Message:
    role: str
    text: str
    citations: tuple[str, ...] = ()


def read_conversation(value: Any) -> Conversation:
    r"""Reads the messages of a conversation.

    Each message has ``role`` (``user`` or ``assistant``) and ``content``: text, or a list of parts of which those of
    type ``text`` count. Messages of the assistant may have ``context.citations``, a list of ``{"id", "content"}``.
    Messages of other known roles, of the assistant without content (calls of tools) and unknown keys are left out. The
    older form with ``{"user", "assistant", "retrieved_documents"}`` for each turn is read, too.

    Several user messages in a row are one question. A question at the end that has no answer is left out with a note.

    Args:
        value: a list of messages, a mapping that has one under ``messages``, or the JSON text of either.

    Raises:
        InputError: it is none of these, or a message has no role that is known or no text; its number is named.

    Example:
        >>> cited = {"citations": [{"id": "1", "content": "9:00"}]}
        >>> found = read_conversation([
        ...     {"role": "user", "content": "Is there a ferry?"},
        ...     {"role": "assistant", "content": "At nine.", "context": cited},
        ...     {"role": "user", "content": "And back?"},
        ... ])
        >>> found.turns[0].question, found.turns[0].context, found.notes
        ('Is there a ferry?', ('1\n9:00',), ('the last question has no answer',))
    """
    left_out: Counter[str] = Counter()
    messages = [one for index, raw in enumerate(_list_of(value)) for one in _messages(index, raw, left_out)]
    turns: list[JudgedTexts] = []
    history: list[tuple[str, str]] = []
    question: list[str] = []
    answered = True
    for message in messages:
        if message.role == "user":
            question = [*([] if answered else question), message.text]
            answered = False
        else:
            # A second answer in a row is an answer to the same question: both are in the later history.
            earlier = history[: len(history) - len(question)] if not answered else history
            asked = "\n".join(text for text in question if text)
            turns.append(JudgedTexts(asked, message.text, "", message.citations, (), tuple(earlier)))
            answered = True
        history.append((message.role, message.text))
    notes = [f"{count} {what} left out" for what, count in left_out.items()]
    return Conversation(tuple(turns), (*notes, *(() if answered else ("the last question has no answer",))))


def _list_of(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InputError(f"messages must be a list or JSON but are no JSON: {error}") from None
    if isinstance(value, Mapping):
        value = value.get("messages")
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InputError(f"messages must be a list of messages but are {type(value).__name__}")
    return value


def _messages(index: int, raw: Any, left_out: Counter[str]) -> Iterator[_Message]:
    """The messages of one entry: one, none, or both of a turn in the older form."""
    name = f"messages[{index}]"
    if not isinstance(raw, Mapping):
        raise InputError(f"{name} must be an object with role and content but is {type(raw).__name__}")
    if "role" not in raw and "assistant" in raw:
        if raw.get("user") is not None:
            yield _Message("user", one_text(f"{name}.user", raw["user"]))
        documents = texts(f"{name}.retrieved_documents", raw.get("retrieved_documents"))
        yield _Message("assistant", one_text(f"{name}.assistant", raw["assistant"]), documents)
        return
    role, content = raw.get("role"), raw.get("content")
    if role in _LEFT_OUT:
        left_out[f"messages of role {role}"] += 1
    elif role not in ("user", "assistant"):
        raise InputError(f"{name}.role must be user or assistant but is {role!r}")
    elif role == "assistant" and content is None:
        left_out["messages of the assistant without content"] += 1
    else:
        yield _Message(role, _content(f"{name}.content", content), _citations(name, raw) if role == "assistant" else ())


def _content(name: str, content: Any) -> str:
    """Text of a message; parts of other types than text have none."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        if content is None:
            raise InputError(f"{name} must be text but is missing")
        return one_text(name, content)
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    found = [part for part in parts if isinstance(part, str) and not is_blank(part)]
    return "\n".join(found)


def _citations(name: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    context = raw.get("context")
    return texts(f"{name}.context.citations", context.get("citations")) if isinstance(context, Mapping) else ()
