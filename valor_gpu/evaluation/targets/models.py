"""Language models as targets: a prompt is filled with the fields of a row, the reply is the answer. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from valor_gpu.checks import check_type, near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.connections import CONFIG_KEYS, VALUE_KEYS
from valor_gpu.evaluation.models import connection_facts, judge_from_config, prices_of
from valor_gpu.evaluation.prompts.prompty import read_prompt
from valor_gpu.evaluation.prompts.templates import MessageTemplate, Template
from valor_gpu.evaluation.rows._source_rows import plain_row
from valor_gpu.evaluation.rows.fields import ANSWER, MESSAGES, QUESTION
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets.asked import RETRIES, Asked, AskedReply, AskedTarget
from valor_gpu.evaluation.targets.base import TargetAnswer
from valor_gpu.judge.calls import describe_target
from valor_gpu.judge.entra import DEFAULT
from valor_gpu.judge.metrics.messages import ASSISTANT, has_role, messages_of, spoken
from valor_gpu.judge.protocol import Judge, Messages, Reply

KEYS = ("name", "prompt", "prompt_file", "system", "retries")
"""What such a target may have beside what names the model."""


class ModelTarget(AskedTarget):
    """A model behind the chat-completions protocol.

    Without a prompt, the message is the column ``question``, or the messages are those of the column ``messages`` up to
    the last that is not the assistant's; the answer to these is put behind them as the output ``messages``.

    Args:
        given: what :func:`~valor_gpu.evaluation.models.judge_from_config` takes, and ``prompt``, a template, or
            ``prompt_file``, a file with one; ``system``, a template too, for the system message; ``retries``, 5;
            ``name``. Without ``temperature`` and ``max_tokens`` the server's own are used.
        prices: of tokens.
        parameters: given with every row; those that ``given`` may have, such as ``prompt``, ``model`` and
            ``temperature``, take the place of what it has.

    Raises:
        InputError: what cannot be; a prompt that is no template.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        secrets: Secrets,
        timeout: float | None,
        prices: Any = None,
        parameters: Mapping[str, Any] | None = None,
        max_concurrency: int = 8,
    ) -> None:
        known = (*CONFIG_KEYS, *KEYS)
        rows = {key: value for key, value in (parameters or {}).items() if key not in known}
        given = {**given, **{key: value for key, value in (parameters or {}).items() if key in known}}
        for key in given:
            if key not in known:
                raise InputError(
                    f"target must not have {key!r:.80}{near_names(key, known)}; it may have {', '.join(known)}"
                )
        self._prompt, given = _prompt(given)
        config = {"temperature": None, "max_tokens": None, **{k: v for k, v in given.items() if k not in KEYS}}
        self._asked_judge = judge_from_config(config, secrets=secrets, name="target")
        self.model = str(getattr(self._asked_judge, "model", ""))
        super().__init__(
            given.get("name") or self.model, secrets, timeout, rows, max_concurrency, given.get("retries", RETRIES)
        )
        self._prices = prices_of(prices, self.model)
        self.tells_cost = self._prices is not None
        self._given_as = plain_row("target", _storable(given))
        objects = (given.get(key) for key in (*VALUE_KEYS, "credential") if key not in self._given_as)
        self._has_held_key = any(each not in (None, False) for each in objects)
        self._system = None if given.get("system") is None else Template(given["system"], "target['system']")
        self._name_columns()

    def _name_columns(self) -> None:
        system = frozenset() if self._system is None else self._system.variables
        if self._prompt is None:
            self.accepts, self.requires = frozenset({QUESTION, MESSAGES}) | system, system
        else:
            self.accepts = self.requires = self._prompt.variables | system
            self.outputs = (ANSWER,)
        unused = [name for name in self.parameters if name not in self.accepts]
        if unused:
            raise InputError(f"target must show the parameter {unused[0]!r} in its prompt but does not")

    def check_columns(self, columns: Any) -> None:
        """Raises :class:`InputError` unless the columns of the data give what the prompt shows."""
        super().check_columns(columns)
        if self._prompt is None and not self.arguments_of(dict.fromkeys(columns, "")).keys() & {QUESTION, MESSAGES}:
            shown = ", ".join(map(repr, sorted(columns)[:50]))
            raise InputError(f"target {self.name} needs 'question' or 'messages', or a prompt; columns: {shown}")

    def _described(self) -> dict[str, Any]:
        """What was given; ``masked`` says whether a secret came by value. The prompt of a file is in it as text."""
        given = dict(self._given_as)
        shown = self._secrets.mask_json({**given, "parameters": self.parameters})
        masked = self._has_held_key or shown != {**given, "parameters": self.parameters}
        return {"kind": "model", **shown, "name": self.name, "masked": masked}

    def _judge(self) -> Asked:
        judge: Judge = self._asked_judge

        async def ask(messages: Messages) -> Reply:
            return await judge(messages, None)

        return Asked(ask, self.attempt_timeout, judge)

    async def _answer(self, arguments: dict[str, Any]) -> TargetAnswer:
        describe_target(**{**(self._asked_judge.identity or {}), **connection_facts(self._asked_judge)})
        messages, chat = self._messages(arguments), self._prompt is None and arguments.get(MESSAGES) is not None

        def parse(reply: AskedReply) -> dict[str, Any]:
            outputs: dict[str, Any] = {ANSWER: reply.text}
            if chat:
                asked, context = _asked_part(arguments[MESSAGES])
                said = [*asked, {"role": ASSISTANT, "content": reply.text}]
                outputs[MESSAGES] = said if context is None else {MESSAGES: said, "context": context}
            ended = reply.ended
            return outputs if ended == "stop" else {**outputs, "finish_reason": ended}

        judgement = await self._ask(messages, parse)
        known = self._prices is not None and judgement.usage.total
        return self._given(judgement, self._prices.cost(judgement.usage) if known and self._prices else None)

    def _messages(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._prompt is not None:
            messages: list[dict[str, Any]] = [*self._prompt.messages(arguments)]
        elif arguments.get(MESSAGES) is not None:
            messages = [spoken(each)._asdict() for each in _asked_part(arguments[MESSAGES])[0]]
        else:
            question = arguments.get(QUESTION)
            if not isinstance(question, str) or not question.strip():
                raise InputError("the row has no question")
            messages = [{"role": "user", "content": question}]
        if self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system.render(arguments)})
        return messages


def _storable(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, without keys and tokens by value and without credentials that are objects."""
    found = {key: value for key, value in given.items() if key not in (*VALUE_KEYS, "credential")}
    is_named = given.get("credential") is True or given.get("credential") == DEFAULT
    return {**found, "credential": DEFAULT} if is_named else found


def _prompt(given: Mapping[str, Any]) -> tuple[MessageTemplate | None, dict[str, Any]]:
    """The prompt, and what is given with its text, and what its file says of the model, in it."""
    if given.get("prompt") is not None and given.get("prompt_file") is not None:
        raise InputError("target must have 'prompt' or 'prompt_file' but has both")
    rest = {key: value for key, value in given.items() if key not in ("prompt", "prompt_file")}
    if given.get("prompt_file") is not None:
        check_type("target['prompt_file']", given["prompt_file"], (str, Path))
        file = read_prompt(Path(given["prompt_file"]))
        return file.template, {**file.parameters, **rest, "prompt": file.template.text}
    if given.get("prompt") is None:
        return None, rest
    check_type("target['prompt']", given["prompt"], str)
    return MessageTemplate(given["prompt"], "target['prompt']"), {**rest, "prompt": given["prompt"]}


def _asked_part(value: Any) -> tuple[list[Mapping[str, Any]], Any]:
    """What the model is asked, up to the last message that is not the assistant's, and the conversation's context."""
    messages, context = messages_of(value)
    if not all(map(has_role, messages)):
        raise InputError("messages must be a list of messages with a role")
    kept = list(messages)
    while kept and spoken(kept[-1]).role == ASSISTANT:
        kept.pop()
    if not kept:
        raise InputError("messages must have one that is not the assistant's but have none")
    return kept, context
