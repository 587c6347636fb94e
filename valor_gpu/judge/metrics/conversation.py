"""Conversations: messages in, turns of a question and its answer out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.metrics.fields import JudgedTexts, is_blank, one_text, texts
from valor_gpu.judge.metrics.messages import ASSISTANT, LEFT_OUT, USER, messages_of, spoken


@dataclass(frozen=True)
class Conversation:
    """Turns of a conversation.

    Attributes:
        turns: one for each message of the assistant that has a text; ``context`` holds the texts of the conversation's
            context, then those of its questions, then its own.
        notes: what was left out, in words.
    """

    turns: tuple[JudgedTexts, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Message:
    role: str
    text: str
    context: tuple[str, ...] = ()


def read_conversation(value: Any, context: Any = None) -> Conversation:
    r"""Reads the messages of a conversation.

    Each message has ``role`` (``user`` or ``assistant``, or another name of either: ``human``, ``ai``, ``gpt``) and
    ``content``: text, or a list of parts of which those of type ``text`` count; or, as ShareGPT has them, ``from`` and
    ``value``. A message may have ``context``: a text, a list of texts or of ``{"id", "content"}``, or a mapping with
    such a list under ``citations``; a mapping without it is left out. Messages of other known roles, of the assistant
    without content (calls of tools) and unknown keys are left out. The older form with
    ``{"user", "assistant", "retrieved_documents"}`` for each turn is read, too.

    Several user messages in a row are one question. A question at the end that has no answer is left out with a note.

    Args:
        value: a list of messages, a mapping that has one under ``messages`` (and perhaps ``context``, of the whole
            conversation), or the JSON text of either.
        context: more context of the whole conversation, in the same forms.

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
    listed, shared = messages_of(value)
    whole = (*_context("context", context), *_context("messages.context", shared))
    messages = [one for index, raw in enumerate(listed) for one in _messages(index, raw, left_out)]
    turns: list[JudgedTexts] = []
    history: list[tuple[str, str]] = []
    question: list[_Message] = []
    answered = True
    for message in messages:
        if message.role == USER:
            question = [*([] if answered else question), message]
            answered = False
        else:
            # A second answer in a row is an answer to the same question: both are in the later history.
            earlier = history[: len(history) - len(question)] if not answered else history
            asked = "\n".join(each.text for each in question if each.text)
            known = (*whole, *(text for each in question for text in each.context), *message.context)
            turns.append(JudgedTexts(asked, message.text, "", known, (), tuple(earlier)))
            answered = True
        history.append((message.role, message.text))
    notes = [f"{count} {what} left out" for what, count in left_out.items()]
    return Conversation(tuple(turns), (*notes, *(() if answered else ("the last question has no answer",))))


def _messages(index: int, raw: Any, left_out: Counter[str]) -> Iterator[_Message]:
    """The messages of one entry: one, none, or both of a turn in the older form."""
    name = f"messages[{index}]"
    if not isinstance(raw, Mapping):
        raise InputError(f"{name} must be an object with role and content but is {type(raw).__name__}")
    if "role" not in raw and "assistant" in raw:
        if raw.get("user") is not None:
            yield _Message(USER, one_text(f"{name}.user", raw["user"]))
        documents = texts(f"{name}.retrieved_documents", raw.get("retrieved_documents"))
        yield _Message(ASSISTANT, one_text(f"{name}.assistant", raw["assistant"]), documents)
        return
    role, content = spoken(raw)
    if role in LEFT_OUT:
        left_out[f"messages of role {role}"] += 1
    elif role not in (USER, ASSISTANT):
        raise InputError(f"{name}.role must be user or assistant but is {role!r:.80}")
    elif role == ASSISTANT and content is None:
        left_out["messages of the assistant without content"] += 1
    else:
        yield _Message(role, _content(f"{name}.content", content), _context(f"{name}.context", raw.get("context")))


def _content(name: str, content: Any) -> str:
    """Text of a message; parts of other types than text have none."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        if content is None:
            raise InputError(f"{name} must be text but is missing")
        return one_text(name, content)
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    found = [part for part in parts if isinstance(part, str) and not is_blank(part)]
    return "\n".join(found)


def _context(name: str, context: Any) -> tuple[str, ...]:
    """The texts of a context; of a mapping its citations alone, since other keys hold what no answer is drawn from."""
    if isinstance(context, Mapping):
        return texts(f"{name}.citations", context.get("citations"))
    return texts(name, context)
