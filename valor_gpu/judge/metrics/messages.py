"""Conversations as users have them: which values are lists of messages, who speaks, and what is said. No torch.

Messages are ``{"role", "content"}`` as OpenAI writes them, or ``{"from", "value"}`` as ShareGPT does. A list of them
may stand in a mapping under ``messages``, whose ``context`` belongs to the whole conversation, as azure-ai-evaluation
has it; list and mapping may be JSON text, as in a cell of csv.

Example:
    >>> spoken({"from": "gpt", "value": "At nine."})
    Spoken(role='assistant', content='At nine.')
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError

USER, ASSISTANT = "user", "assistant"
_NAMES = {
    USER: ("user", "human", "prompter", "customer"),
    ASSISTANT: ("assistant", "ai", "gpt", "chatgpt", "bot", "chatbot", "model", "agent"),
}
_ROLES = {name: role for role, names in _NAMES.items() for name in names}
LEFT_OUT = frozenset(
    ("system", "developer", "tool", "function", "function_call", "function_response", "tool_call", "tool_response",
     "observation")
)  # fmt: skip
"""Roles whose messages are no part of what user and assistant say to each other."""


class Spoken(NamedTuple):
    """Who speaks in a message, and what is said.

    Attributes:
        role: ``user`` or ``assistant`` where it is a name of either; one of :data:`LEFT_OUT`; else as it stands.
        content: of the message, as it stands; None without any.
    """

    role: Any
    content: Any


def spoken(message: Mapping[str, Any]) -> Spoken:
    """Role and content of a message, whatever the keys and the case of the role.

    Example:
        >>> spoken({"role": "Human", "content": "When?"}).role, spoken({"role": "narrator"}).role
        ('user', 'narrator')
    """
    shared = "role" not in message and "from" in message
    role, content = (message.get(name) for name in (("from", "value") if shared else ("role", "content")))
    if isinstance(role, str):
        plain = role.strip().casefold().replace("-", "_").replace(" ", "_")
        role = _ROLES.get(plain, plain if plain in LEFT_OUT else role)
    return Spoken(role, content)


def has_role(message: Any) -> bool:
    """Whether a value is a message that says who speaks."""
    return isinstance(message, Mapping) and isinstance(spoken(message).role, str)


def messages_of(value: Any) -> tuple[Sequence[Any], Any]:
    """The messages of a conversation as they stand, and the context of the whole of it, None without any.

    Args:
        value: a list of messages, a mapping that has one under ``messages``, or the JSON text of either.

    Raises:
        InputError: it is none of these.

    Example:
        >>> messages_of('{"messages": [{"role": "user", "content": "When?"}], "context": "It leaves at nine."}')
        ([{'role': 'user', 'content': 'When?'}], 'It leaves at nine.')
    """
    context = None
    if isinstance(value, str):
        try:
            value = json.loads(value, object_pairs_hook=keys_once)
        except (ValueError, RecursionError) as error:
            if re.match(r"\s*[\[{]\s*\{?\s*'", value):
                raise InputError(
                    "messages must be a list or JSON but are as Python prints them, which is how pandas writes csv: use"
                    " df.to_json(path, orient='records', lines=True)"
                ) from None
            raise InputError(f"messages must be a list or JSON but are no JSON: {error}") from None
    if isinstance(value, Mapping):
        if "messages" not in value:
            there = ", ".join(map(repr, list(value)[:20])) or "no key"
            raise InputError(f"messages must be a list of messages, or have one under 'messages', but have {there}")
        value, context = value["messages"], value.get("context")
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InputError(f"messages must be a list of messages but are {type(value).__name__}")
    return value, context
