"""Judges behind the chat-completions protocol: OpenAI, Azure OpenAI, Mistral and every compatible server.

One request a call: retries belong to the scheduler. What a server does not know (``max_tokens``, ``temperature``, a
JSON schema) is left out or replaced once it has said so, and stays so for the life of the judge.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
import json
import os
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.completions import failure_of, reply_of
from valor_gpu.judge.protocol import JudgeError, Messages, Reply, Schema, Status

OPENAI_URL = "https://api.openai.com/v1"
MISTRAL_URL = "https://api.mistral.ai/v1"
_FORMATS = ("json_schema", "json_object", "text")
_FORMAT_WORDS = re.compile(
    r"response_format|json_schema|json_object|word 'json'|structured output|guided", re.IGNORECASE
)
_ADAPTED = ("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs")
_PROBE_WAIT = 5.0  # seconds that later calls wait for the first one to find out what the server knows


@dataclass
class _Line:
    """What belongs to one event loop: the client, and whether the first reply has come."""

    client: Any
    begun: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)


class OpenAIJudge:
    """A model of OpenAI or of a compatible server (vLLM, llama.cpp, Ollama, LM Studio, gateways).

    Args:
        model: its name at the server.
        base_url: address up to ``/v1``; None for the environment variable OPENAI_BASE_URL, else OpenAI's.
        api_key_env: the NAME of the environment variable with the key, which is read when a connection is made and
            kept nowhere. None: OPENAI_API_KEY at OpenAI's own address, no key elsewhere.
        temperature: 0 for the likeliest reply; None for the server's default.
        max_tokens: most tokens of a reply, hidden reasoning included; None for the server's default.
        seed: of the server's sampling; None for none.
        top_logprobs: number of likeliest tokens whose log-probabilities are asked for, at most 20; 0 for none.
        extra: further parameters of the request, for example ``{"reasoning_effort": "low"}``.

    Raises:
        InputError: a parameter that cannot be.
        MissingExtraError: at the first call, without the ``openai`` package.

    Example:
        >>> OpenAIJudge("qwen", base_url="http://127.0.0.1:8000/v1")
        OpenAIJudge('qwen', base_url='http://127.0.0.1:8000/v1')
    """

    _name = "OpenAIJudge"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = 1024,
        seed: int | None = None,
        top_logprobs: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InputError(f"model must be a name but got {model!r}")
        if not 0 <= top_logprobs <= 20:
            raise InputError(f"top_logprobs must lie in 0 to 20 but got {top_logprobs!r}")
        self.model = model
        self.base_url = _address("base_url", base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
        at_openai = urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname
        self.api_key_env = _variable(api_key_env or ("OPENAI_API_KEY" if at_openai else None))
        self._wanted: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        self._wanted |= {"logprobs": True, "top_logprobs": top_logprobs} if top_logprobs else {}
        self._wanted = {name: value for name, value in self._wanted.items() if value is not None} | dict(extra or {})
        self._known = dict(self._wanted)
        self._renamed: set[str] = set()
        self._format = 0
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = weakref.WeakKeyDictionary()

    @classmethod
    def mistral(
        cls, model: str = "mistral-small-latest", *, api_key_env: str = "MISTRAL_API_KEY", seed: int | None = None
    ) -> OpenAIJudge:
        """A model of Mistral's own service, whose seed has another name.

        Example:
            >>> OpenAIJudge.mistral()
            OpenAIJudge('mistral-small-latest', base_url='https://api.mistral.ai/v1')
        """
        extra = {} if seed is None else {"extra_body": {"random_seed": seed}}
        return cls(model, base_url=MISTRAL_URL, api_key_env=api_key_env, extra=extra)

    def __repr__(self) -> str:
        return f"{self._name}({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lines"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lines=weakref.WeakKeyDictionary())

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, address and the parameters asked for. Parameters that the server refused count as asked for."""
        return {"kind": "openai", "model": self.model, "base_url": self.base_url, "parameters": self._wanted}

    async def ready(self) -> None:
        """Connect, and let the first request find out what the server knows before others follow.

        Without it everything works too; several requests may then be refused for the same parameter.
        """
        line = self._line()
        if line.begun and not line.answered.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(line.answered.wait(), _PROBE_WAIT)
        line.begun = True

    async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
        """One request.

        Raises:
            JudgeError: no reply; with ``retry_now`` when the judge has adapted its parameters to the server.
        """
        line = self._line()
        sent, form = dict(self._known), self._format
        request = {"model": self.model, "messages": [dict(message) for message in messages], **sent}
        if schema is not None:
            _ask_for_json(request, schema, _FORMATS[form])
        adapted = False
        try:
            completion = await line.client.chat.completions.create(**request)
            return reply_of(completion, self.model)
        except JudgeError:
            raise
        except Exception as error:
            failure = failure_of(error, self.api_key_env)
            adapted = failure.status is Status.BAD_REQUEST and self._adapt(str(failure), sent, form, schema is not None)
            if not adapted:
                raise failure from None  # the original holds the request with its headers
        finally:
            if adapted:
                line.begun = False  # the next call finds out whether the server wants more
            else:
                line.answered.set()
        raise JudgeError(Status.BAD_REQUEST, f"adapted to the server: {failure}", retry_now=True)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.client.close()

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            self._lines[loop] = _Line(self._client())
        return self._lines[loop]

    def _client(self) -> Any:
        package = _openai(self._name)
        http = package.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=not _is_loopback(self.base_url))
        key = _key(self.api_key_env)
        return package.AsyncOpenAI(api_key=key, base_url=self.base_url, max_retries=0, http_client=http)

    def _adapt(self, text: str, sent: Mapping[str, Any], form: int, json_wanted: bool) -> bool:
        """Change what a failure complains about, each thing once; whether to ask again."""
        if sent != self._known or form != self._format:
            return True  # another call has adapted meanwhile
        named = {name for name in _ADAPTED if re.search(rf"(?<!\w){name}(?!\w)", text)}
        if json_wanted and form + 1 < len(_FORMATS) and _FORMAT_WORDS.search(text):
            self._format += 1
        elif "max_tokens" in sent and "max_completion_tokens" in named:
            self._rename("max_tokens", "max_completion_tokens")
        elif "max_completion_tokens" in sent and named & {"max_tokens", "max_completion_tokens"}:
            self._rename("max_completion_tokens", "max_tokens")
        else:
            gone = (named & sent.keys()) - {"max_tokens", "max_completion_tokens"}
            gone |= {"top_logprobs", "logprobs"} if gone & {"top_logprobs", "logprobs"} else set()
            self._known = {name: value for name, value in self._known.items() if name not in gone}
        return sent != self._known or form != self._format

    def _rename(self, old: str, new: str) -> None:
        if old not in self._renamed:
            self._renamed.add(old)
            self._known[new] = self._known.pop(old)


class AzureOpenAIJudge(OpenAIJudge):
    """A deployment of Azure OpenAI.

    Args:
        deployment: its name.
        endpoint: ``https://NAME.openai.azure.com``; None for the environment variable AZURE_OPENAI_ENDPOINT.
        api_version: None for the environment variable OPENAI_API_VERSION.
        api_key_env: the NAME of the environment variable with the key.
        parameters: ``temperature``, ``max_tokens``, ``seed``, ``top_logprobs`` and ``extra`` of :class:`OpenAIJudge`.

    Raises:
        InputError: no endpoint or no version.

    Example:
        >>> AzureOpenAIJudge("gpt", endpoint="https://name.openai.azure.com", api_version="2024-10-21")
        AzureOpenAIJudge('gpt', base_url='https://name.openai.azure.com')
    """

    _name = "AzureOpenAIJudge"

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        api_version: str | None = None,
        api_key_env: str = "AZURE_OPENAI_API_KEY",
        **parameters: Any,
    ) -> None:
        endpoint = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
        self.api_version = api_version or os.environ.get("OPENAI_API_VERSION")
        if not endpoint:
            raise InputError("endpoint must be an address but neither it nor AZURE_OPENAI_ENDPOINT is set")
        if not self.api_version:
            raise InputError("api_version must be a date but neither it nor OPENAI_API_VERSION is set")
        super().__init__(deployment, base_url=endpoint, api_key_env=api_key_env, **parameters)

    @property
    def identity(self) -> Mapping[str, Any]:
        """That of :class:`OpenAIJudge` with the version."""
        return {**super().identity, "kind": "azure", "api_version": self.api_version}

    def _client(self) -> Any:
        package = _openai(self._name)
        http = package.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=not _is_loopback(self.base_url))
        return package.AsyncAzureOpenAI(
            api_key=_key(self.api_key_env),
            azure_endpoint=self.base_url,
            api_version=self.api_version,
            max_retries=0,
            http_client=http,
        )


def _openai(purpose: str) -> Any:
    try:
        return importlib.import_module("openai")
    except ImportError:
        raise MissingExtraError("openai", "llm", purpose) from None


def _address(name: str, address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{name} must begin with http:// or https:// but got {address.rpartition('@')[2]!r}")
    if parts.username or parts.password:
        raise InputError(f"{name} must hold no user name or password; keys belong into an environment variable")
    return address.rstrip("/")


def _variable(name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise InputError("api_key_env must be the name of an environment variable but is no such name")
    return name


def _key(variable: str | None) -> str:
    if variable is None:
        return "none"  # the client wants one; servers without keys ignore it
    key = os.environ.get(variable)
    if not key:
        message = f"the environment variable {variable} must hold the API key but is not set"
        raise JudgeError(Status.UNAUTHORIZED, message)
    return key


def _is_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ask_for_json(request: dict[str, Any], schema: Schema, form: str) -> None:
    """Ask for JSON by the protocol when the server can, else in words."""
    if form == "json_schema":
        named = {"name": "judgement", "schema": dict(schema), "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": named}
        return
    if form == "json_object":
        request["response_format"] = {"type": "json_object"}
    wish = f"Reply with one JSON object and nothing else. It must follow this JSON schema: {_compact(schema)}"
    messages = request["messages"]
    if messages and messages[0].get("role") == "system" and isinstance(messages[0].get("content"), str):
        messages[0] = {**messages[0], "content": f"{messages[0]['content']}\n\n{wish}"}
    else:
        messages.insert(0, {"role": "system", "content": wish})


def _compact(schema: Schema) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
