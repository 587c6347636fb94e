"""Judges behind the chat-completions protocol: OpenAI, Mistral and every compatible server; base of Azure's.

One request per call: retries belong to the scheduler. What a server says it does not support (``max_tokens``,
``temperature``, a JSON schema) is left out or replaced from then on, for the life of the judge, and every reply says
what it was asked without.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import weakref
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_choice, check_int, check_number, check_type
from valor_gpu.errors import InputError, ValorError
from valor_gpu.judge.completions import failure_of, reply_of, unproven, unsupported_parameters
from valor_gpu.judge.endpoint import (
    HeldKey,
    Key,
    async_http,
    bearer,
    check_headers,
    endpoint_of,
    openai_package,
    read_key,
)
from valor_gpu.judge.entra import EntraToken
from valor_gpu.judge.headers import ExtraHeaders
from valor_gpu.judge.protocol import JudgeError, Messages, Reply, Schema, Status
from valor_gpu.judge.requests import FORMATS, Parameters, escaped

MISTRAL_URL = "https://api.mistral.ai/v1"
_PROBE_WAIT = 5.0  # seconds that later calls wait for the first one to find out what the server supports
_TAKEN = ("model", "messages", "response_format", "stream")  # what the judge itself puts into a request
_OF_CLIENT = ("extra_body", "extra_headers", "extra_query", "timeout")


@dataclass
class _Connection:
    """What belongs to one event loop: the client, and whether it is known what the server supports.

    Attributes:
        client: of the ``openai`` package.
        scout: the task whose request finds that out; None when it is the next one's turn.
        known: whether a request has come back whose parameters were all right.
        back: set when a request has come back, or is not sent after all.
    """

    client: Any
    scout: asyncio.Task[Any] | None = None
    known: bool = False
    back: asyncio.Event = field(default_factory=asyncio.Event)

    def over(self) -> None:
        """It is the next one's turn to find out, unless it is known."""
        self.scout = None
        self.back.set()
        self.back = asyncio.Event()


class OpenAIJudge:
    """A model of OpenAI or of a compatible server (vLLM, llama.cpp, Ollama, LM Studio, gateways).

    Args:
        model: its name at the server.
        base_url: address up to ``/v1``, perhaps with ``/chat/completions`` behind it, without user name, password or
            query; None for the environment variable OPENAI_BASE_URL, else OpenAI's.
        api_key_env: the NAME of the environment variable with the key, which is read when a connection is made and
            kept nowhere. None: OPENAI_API_KEY at OpenAI's own address, no key elsewhere. A
            :class:`~valor_gpu.judge.endpoint.HeldKey` is a key by value, which ties the judge to its process; an
            :class:`~valor_gpu.judge.entra.EntraToken` renews itself.
        temperature: 0 for the likeliest reply; None for the server's default.
        max_tokens: limit on the tokens of a reply, hidden reasoning included; None for the server's default.
        seed: of the server's sampling; None for none.
        top_logprobs: number of likeliest tokens whose log-probabilities are asked for, at most 20; 0 for none.
        extra: further parameters of the request's body, sent as they are, whether the ``openai`` package knows them or
            not: ``{"reasoning_effort": "low"}``, or ``{"top_k": 5, "min_p": 0.1}`` for vLLM.
        response_format: how a reply that follows a JSON schema is asked for: ``json_schema``, ``json_object``, or
            ``text`` for a sentence in the prompt. A server whose error names ``response_format`` as its cause gets
            the next of these.
        max_reply_bytes: size of a reply after which the connection is closed; the row is then ``truncated``.
        organization: at OpenAI, that the requests are billed to; None for the environment variable OPENAI_ORG_ID.
        extra_headers: further headers of every request, for a gateway say; ``${env:NAME}`` in a text stands for an
            environment variable, which is read when a connection is made. Their values are held as a key is.

    Raises:
        InputError: a parameter that cannot be.
        MissingExtraError: at the first call, without the ``openai`` package.

    Example:
        >>> OpenAIJudge("qwen", base_url="http://127.0.0.1:8000/v1", extra={"top_k": 5})
        OpenAIJudge('qwen', base_url='http://127.0.0.1:8000/v1')
    """

    _name = "OpenAIJudge"
    probe_messages = ({"role": "user", "content": "Reply with the word ok."},)
    """Question that tells a server that is down from a prompt that fails, where nothing was answered yet."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: Key = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = 1024,
        seed: int | None = None,
        top_logprobs: int = 0,
        extra: Mapping[str, Any] | None = None,
        response_format: str = "json_schema",
        max_reply_bytes: int = 1_000_000,
        organization: str | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        check_name("model", model)
        check_choice("response_format", response_format, FORMATS)
        _check_numbers(temperature, max_tokens, seed, top_logprobs)
        check_int("max_reply_bytes", max_reply_bytes, 1)
        if organization is not None:
            check_name("organization", organization)
        self.organization, self.extra_headers = organization, ExtraHeaders(extra_headers)
        self.model = model
        self.base_url, self.api_key_env = self._endpoint(base_url, api_key_env)
        if self.api_key_env is not None and "authorization" in self.extra_headers.names():
            raise InputError("extra_headers must not have 'Authorization' beside a key or token, which is sent in it")
        self.max_reply_bytes = max_reply_bytes
        wanted = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        values = {name: value for name, value in wanted.items() if value is not None} | _checked_extra(extra)
        values |= {"logprobs": True, "top_logprobs": top_logprobs} if top_logprobs else {}
        self._wanted = self._parameters = Parameters(values, response_format)
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection]
        self._connections = weakref.WeakKeyDictionary()
        self._answered = False  # whether the server ever has

    @classmethod
    def mistral(
        cls, model: str = "mistral-small-latest", *, api_key_env: str = "MISTRAL_API_KEY", seed: int | None = None
    ) -> OpenAIJudge:
        """A model of Mistral's own service, whose seed has another name.

        Example:
            >>> OpenAIJudge.mistral()
            OpenAIJudge('mistral-small-latest', base_url='https://api.mistral.ai/v1')
        """
        extra = {} if seed is None else {"random_seed": seed}
        return cls(model, base_url=MISTRAL_URL, api_key_env=api_key_env, extra=extra)

    def __repr__(self) -> str:
        return f"{self._name}({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_connections"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _connections=weakref.WeakKeyDictionary())

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, address and the parameters asked for, also those that the server rejects: see :meth:`dropped`."""
        asked = {"parameters": dict(self._wanted.values), "response_format": self._wanted.form}
        return {"kind": "openai", "model": self.model, "base_url": self.base_url, **asked}

    def dropped(self, schema: Schema | None = None) -> tuple[str, ...]:
        """Names of the parameters that a request would now be sent without, since the server rejects them.

        Args:
            schema: of the request; with one, ways to ask for JSON count too.
        """
        return self._parameters.dropped_for(schema)

    async def ready(self) -> None:
        """Connect, and let the first request find out what the server supports before others follow.

        Without it everything works too; several requests may then be rejected for the same parameter.
        """
        try:
            connection = self._connection()
        except JudgeError:
            return  # the call itself reports it
        me, clock = asyncio.current_task(), asyncio.get_running_loop().time
        until = clock() + _PROBE_WAIT
        while not connection.known and connection.scout not in (None, me) and (left := until - clock()) > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(connection.back.wait(), left)
        connection.scout = me

    def unready(self) -> None:
        """Let the next request go first: the one that :meth:`ready` was called for is not sent."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None and connection.scout is asyncio.current_task():
            connection.over()

    async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
        """Sends one request.

        Raises:
            JudgeError: no reply; with ``retry_now`` when the judge has adapted its parameters to the server.
        """
        sent = self._parameters
        request = sent.body(self.model, messages, schema)
        connection = self._connection()
        try:
            outcome = await self._outcome(connection.client, request, sent, schema)
        finally:
            connection.known |= self._parameters is sent  # else the next call finds out whether the server rejects more
            connection.over()
        if isinstance(outcome, JudgeError):
            raise outcome.with_traceback(None)
        return outcome

    async def _outcome(
        self, client: Any, request: dict[str, Any], sent: Parameters, schema: Schema | None
    ) -> Reply | JudgeError:
        """The reply, or why there is none; a token of Entra ID that is rejected is renewed once."""
        key = self.api_key_env
        if not isinstance(key, EntraToken):
            return await self._answer(client, request, sent, schema, key)

        def ask(token: str) -> Awaitable[Reply | JudgeError]:
            return self._answer(client, request, sent, schema, HeldKey(token), bearer(token))

        return await key.asked_async(ask)

    async def _answer(
        self,
        client: Any,
        request: Mapping[str, Any],
        sent: Parameters,
        schema: Schema | None,
        key: Key,
        headers: Mapping[str, str] | None = None,
    ) -> Reply | JudgeError:
        """The reply to one request, or why there is none.

        Failures are given back rather than raised: an exception that is raised while another is handled carries that
        one along, and with it the key in the headers of the request.
        """
        try:
            # All else goes into the body: of arguments the client rejects those that it does not know, and it walks
            # through every message by types of its own, which takes a fifth of a request's processor time.
            completions = client.chat.completions.with_raw_response
            body = {name: value for name, value in request.items() if name != "model"}
            answer = await completions.create(
                model=request["model"], messages=[], extra_body=body, extra_headers=headers
            )
            self._answered = True
            return reply_of(answer.http_response, self.model, sent.dropped_for(schema), key)
        except JudgeError as unusable:
            return unusable
        except Exception as error:
            failure = failure_of(error, key)
            failure.args = (self.extra_headers.masked(str(failure)),)
            self._answered |= hasattr(error, "status_code")
            if failure.status is Status.BAD_REQUEST and self._adapt(sent, error, schema):
                return JudgeError(Status.BAD_REQUEST, f"adapted to the server: {failure}", retry_now=True)
            return failure if self._answered else unproven(failure, self.base_url)

    async def aclose(self) -> None:
        """Closes the connections of the running event loop."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.client.close()

    def _endpoint(self, address: str | None, api_key_env: Key) -> tuple[str, Key]:
        return endpoint_of(address, api_key_env)

    def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            self._connections[loop] = _Connection(self._checked_client())
        return self._connections[loop]

    def _checked_client(self) -> Any:
        try:
            client = self._client(openai_package(self._name))
            check_headers(client)
            return client
        except ValorError:
            raise
        except Exception as error:  # a proxy of the environment that cannot be, say
            failure = failure_of(error, self.api_key_env)
        raise failure

    def _client(self, package: Any) -> Any:
        key = {"api_key": read_key(self.api_key_env)}
        return package.AsyncOpenAI(**key, base_url=self.base_url, **self._of_client(package))

    def _of_client(self, package: Any) -> dict[str, Any]:
        """Arguments of every kind of client."""
        http = async_http(package, self.base_url, self.max_reply_bytes)
        headers = {"organization": self.organization, "default_headers": self.extra_headers.read()}
        return {**headers, "max_retries": 0, "http_client": http}

    def _adapt(self, sent: Parameters, error: Exception, schema: Schema | None) -> bool:
        """Gives up what the server has rejected; whether to ask again."""
        adapted = sent.without(unsupported_parameters(error), schema)
        if self._parameters is sent:  # else another call has adapted meanwhile
            self._parameters = adapted
        return adapted is not sent


def check_name(name: str, value: object) -> None:
    """Raises :class:`InputError` unless a value is a text that can be sent."""
    if not isinstance(value, str) or not value or escaped(value) != value:
        raise InputError(f"{name} must be a name but got {value!r}")


def _check_numbers(temperature: float | None, max_tokens: int | None, seed: int | None, top_logprobs: int) -> None:
    if temperature is not None:
        check_number("temperature", temperature, 0.0, 100.0)
    if max_tokens is not None:
        check_int("max_tokens", max_tokens, 1)
    if seed is not None:
        check_int("seed", seed, -(2**63))
    check_int("top_logprobs", top_logprobs)
    if top_logprobs > 20:
        raise InputError(f"top_logprobs must be at most 20 but got {top_logprobs}")


def _checked_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of the further parameters."""
    if extra is None:
        return {}
    check_type("extra", extra, Mapping)
    for name in extra:
        if not isinstance(name, str) or name in _TAKEN:
            raise InputError(f"extra must hold further parameters but has {name!r}, which the judge sets itself")
        if name in _OF_CLIENT:
            raise InputError(f"extra must hold parameters of the request's body but has {name!r}, of the client")
    try:
        copied = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"extra must hold JSON values: {error}") from error
    return dict(copied)
