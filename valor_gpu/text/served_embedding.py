"""Embeddings that a server computes, by the protocol of OpenAI. No torch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.addresses import EMBEDDINGS
from valor_gpu.judge.bodies import BodyError, json_of
from valor_gpu.judge.calls import VectorRequest, add_vectors, recorded_vectors
from valor_gpu.judge.causes import SHARED_FAILURES
from valor_gpu.judge.completions import failure_of, masked, unproven
from valor_gpu.judge.endpoint import (
    CUT,
    HeldKey,
    Key,
    bearer,
    check_headers,
    endpoint_of,
    openai_package,
    read_key,
    sync_http,
)
from valor_gpu.judge.entra import EntraToken
from valor_gpu.judge.headers import ExtraHeaders
from valor_gpu.judge.limits import FATAL
from valor_gpu.judge.protocol import JudgeError, Status, Usage
from valor_gpu.judge.requests import escaped
from valor_gpu.judge.tls import UntrustedServer
from valor_gpu.text.embedding import Floats
from valor_gpu.text.tokens import check_size

_MAX_REPLY_BYTES = 256_000_000  # 128 vectors of 65,536 numbers
_FORM = "the form of the reply"
_NUMBER = "x-stainless-retry-count"  # of the openai package
SILENT = 3
"""Failures in a row after which a request is not sent again: the server is down."""
PAUSE = 30.0  # seconds without a request after SHARED_FAILURES, the last by a shared cause or by a timeout


class SomeFailed(JudgeError):
    """Some texts have no embedding.

    Args:
        vectors: float64 ``[texts, size]``; zeros for the texts without one.
        failures: number of the text to the reason.
    """

    def __init__(self, vectors: Floats, failures: Mapping[int, JudgeError]) -> None:
        first = next(iter(failures.values()))
        count = f"{len(failures)} of {len(vectors)} texts have no embedding"
        super().__init__(first.status, f"{count}: {first}")
        self.vectors, self.failures = vectors, failures


class OpenAIEmbedder:
    """Embeddings of OpenAI or of a compatible server; call it with a list of texts.

    Rate limits, server errors and lost connections are tried again by the client of the ``openai`` package. A batch
    that fails while the server answers others is divided until the texts are alone that cannot be embedded. An empty
    text, which the protocol does not allow, is not sent: its vector is zeros.

    Args:
        model: its name at the server.
        base_url: address up to ``/v1``, perhaps with ``/embeddings`` behind it; None for the environment variable
            OPENAI_BASE_URL, else OpenAI's.
        api_key_env: the NAME of the environment variable with the key, which is read at each call and kept nowhere.
            None: OPENAI_API_KEY at OpenAI's own address, no key elsewhere.
        batch: largest number of texts of a request.
        dimensions: size of the vectors, for models that can shorten them; None for the model's own.
        retries: how often the client tries a request again.
        timeout: seconds that the client waits for an answer.
        organization, extra_headers: as of :class:`~valor_gpu.judge.OpenAIJudge`.

    Raises:
        InputError: a parameter that cannot be.
        MissingExtraError: at the first call, without the ``openai`` package.
        JudgeError: at a call, when the server gives no embeddings; its ``status`` is the kind of failure.
        SomeFailed: at a call, when it gives those of some texts: the error has them.

    Example:
        >>> OpenAIEmbedder("nomic-embed-text", base_url="http://127.0.0.1:11434/v1")
        OpenAIEmbedder('nomic-embed-text', base_url='http://127.0.0.1:11434/v1')
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: Key = None,
        *,
        batch: int = 128,
        dimensions: int | None = None,
        retries: int = 4,
        timeout: float = 60.0,
        organization: str | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InputError(f"model must be a name but got {model!r}")
        check_size("batch", batch)
        if dimensions is not None:
            check_size("dimensions", dimensions)
        check_int("retries", retries)
        check_number("timeout", timeout, 0.0)
        check_type("organization", organization, (str, type(None)))
        self.model = model
        self.base_url, self.api_key_env = endpoint_of(base_url, api_key_env, EMBEDDINGS)
        self.organization, self.extra_headers = organization, ExtraHeaders(extra_headers)
        self.batch, self.dimensions, self.retries, self.timeout = batch, dimensions, retries, timeout
        self._failed, self._asks_again = 0, -1.0  # requests that failed in a row
        self._sent_again = 0  # tries of the present request behind the first
        self._last: JudgeError | None = None
        self._sample: str | None = None  # the shortest text that was answered

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.model!r}, base_url={self.base_url!r})"

    def __call__(self, texts: Sequence[str]) -> Floats:
        """float64 ``[texts, size]``, in the order of the texts.

        Raises:
            SomeFailed: some texts have no vector, others have.
            JudgeError: no text has one.
        """
        sent = [number for number, text in enumerate(texts) if text]
        if not sent:
            return np.zeros((len(texts), 1))
        found: dict[int, Any] = {}
        failures: dict[int, JudgeError] = {}
        with self._client() as client:
            for start in range(0, len(sent), self.batch):
                self._collect(client, texts, sent[start : start + self.batch], found, failures)
        _take_out(found, self.dimensions, failures)
        if not found:
            raise next(iter(failures.values()))
        vectors = np.asarray(list(found.values()), np.float64)
        result = np.zeros((len(texts), vectors.shape[1]))
        result[list(found)] = vectors
        if failures:
            raise SomeFailed(result, failures)
        return result

    def _collect(
        self,
        client: Any,
        texts: Sequence[str],
        numbers: list[int],
        found: dict[int, Any],
        failures: dict[int, JudgeError],
    ) -> None:
        """Asks for the vectors of one batch; a batch that fails while the server answers others is divided."""
        pending = [(numbers, self.retries if self._failed < SILENT else 0)]
        alive = False
        while pending:
            part, retries = pending.pop()
            outcome = self._tried(client, [texts[number] for number in part], retries)
            if not isinstance(outcome, JudgeError):
                found.update(zip(part, outcome))
                continue
            divisible = len(part) > 1 and outcome.status not in FATAL and outcome.shared_cause is None
            alive = alive or (divisible and self._answers(client, texts, part))
            if not (divisible and alive):
                failures.update(dict.fromkeys(part, outcome))
                continue
            half = len(part) // 2
            pending += [(piece, min(len(piece) == 1, self.retries)) for piece in (part[half:], part[:half])]

    def _answers(self, client: Any, texts: Sequence[str], part: list[int]) -> bool:
        """Whether the server answers now: asked with a text that it has answered before, or the shortest ones."""
        candidates = [self._sample] if self._sample is not None else sorted((texts[at] for at in part), key=len)[:2]
        with recorded_vectors():  # of no row: the record of the texts goes without
            return any(not isinstance(self._tried(client, [text], 0), JudgeError) for text in candidates)

    def _tried(self, client: Any, texts: list[str], retries: int) -> list[Any] | JudgeError:
        """The vectors of one request, or its failure; after failures that all share nothing is asked for a while."""
        if self._last is not None and self._failed >= SHARED_FAILURES and time.monotonic() < self._asks_again:
            told = f"{self._last} (not asked after {SHARED_FAILURES} failures in a row)"
            return JudgeError(self._last.status, told)
        outcome = self._asked(client.with_options(max_retries=retries), texts)
        if not isinstance(outcome, JudgeError):
            self._failed, self._last = 0, None
            self._sample = min([*texts, *([self._sample] if self._sample else [])], key=len)
            return outcome
        self._failed += 1
        self._last, self._asks_again = outcome, -1.0
        is_shared = outcome.suspect is not None and self._sample is None
        if outcome.status in FATAL or is_shared or outcome.status is Status.TIMEOUT:
            self._asks_again = time.monotonic() + PAUSE
        return outcome

    def _client(self) -> Any:
        package = openai_package("OpenAIEmbedder")
        headers = {"organization": self.organization, "default_headers": self.extra_headers.read()}
        options = {"max_retries": self.retries, "timeout": self.timeout, **headers}
        client = self._made(package, http_client=sync_http(package, self.base_url, _MAX_REPLY_BYTES), **options)
        check_headers(client)
        return client

    def _made(self, package: Any, **options: Any) -> Any:
        return package.OpenAI(base_url=self.base_url, api_key=read_key(self.api_key_env), **options)

    def _asked(self, client: Any, texts: list[str]) -> list[Any] | JudgeError:
        """The vectors of one request in the order of its texts, or its failure; a record gets the request."""
        begun, self._sent_again = time.perf_counter(), 0
        options = {} if self.dimensions is None else {"dimensions": self.dimensions}
        reply = self._outcome(client, {"model": self.model, "input": texts, "encoding_format": "float", **options})
        found = reply if isinstance(reply, JudgeError) else self._read(reply, texts)
        if isinstance(found, JudgeError):
            status, error, size = str(found.status), str(found), 0
        else:
            status, error, size = str(Status.OK), "", len(found[0]) if isinstance(found[0], list) else 0
        seconds, said = time.perf_counter() - begun, _model_and_usage(reply)
        add_vectors(VectorRequest(tuple(texts), status, error, seconds, self._sent_again, *said, size))
        return found

    def _read(self, reply: Any, texts: list[str]) -> list[Any] | JudgeError:
        """The vectors of a reply in the order of its texts, or what is wrong with it."""
        vectors = _by_index(reply)
        if vectors is None:
            return JudgeError(Status.SERVER_ERROR, "the reply was no list of embeddings", shared_cause=_FORM)
        given = sorted(index for index, _ in vectors)
        if given != list(range(len(texts))):
            message = f"the reply must have an embedding for each of {len(texts)} texts but has {given}"
            return JudgeError(Status.SERVER_ERROR, message[:500], shared_cause=_FORM)
        return [vector for _, vector in sorted(vectors, key=itemgetter(0))]

    def _outcome(self, client: Any, request: dict[str, Any]) -> Any:
        """The JSON value of the reply, or the failure; a token of Entra ID that is rejected is renewed once."""
        key = self.api_key_env
        if not isinstance(key, EntraToken):
            return self._answer(client, request, key)
        return key.asked(
            lambda token: self._answer(client, {**request, "extra_headers": bearer(token)}, HeldKey(token))
        )

    def _answer(self, client: Any, request: dict[str, Any], key: Key) -> Any:
        """The JSON value of the reply, or the failure: raised here it would carry the request with its headers."""
        try:
            raw = client.embeddings.with_raw_response.create(**escaped(request))
            response = raw.http_response
            self._sent_again += _sent_again(response)
        except UntrustedServer as error:
            return error.failure
        except Exception as error:
            self._sent_again += _sent_again(error)
            failure = failure_of(error, key)
            failure = failure if self._sample is not None else unproven(failure, self.base_url)
            failure.args = (self.extra_headers.masked(str(failure)),)
            return failure
        if response.extensions.get(CUT):
            return JudgeError(Status.TRUNCATED, f"the reply was cut off after {_MAX_REPLY_BYTES:,} bytes: lower batch")
        try:
            return json_of(response)
        except BodyError as error:
            message = masked(f"the reply was no list of embeddings: {error}", key)
            return JudgeError(Status.SERVER_ERROR, message)


def _sent_again(found: Any) -> int:
    """How often the client sent a request again, by the header that it numbers them with; 0 where it has none."""
    try:
        return int(found.request.headers.get(_NUMBER, 0))
    except (AttributeError, RuntimeError, TypeError, ValueError):  # httpx raises RuntimeError without a request
        return 0


def _model_and_usage(reply: Any) -> tuple[str, Usage]:
    """What a reply says of its model and of the tokens of all texts."""
    said = reply if isinstance(reply, dict) else {}
    model, usage = said.get("model"), said.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return model if isinstance(model, str) else "", Usage(prompt=tokens if type(tokens) is int and tokens > 0 else 0)


def _by_index(reply: Any) -> list[tuple[int, Any]] | None:
    """Embeddings with the index of their text; None when the reply holds something else."""
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) and type(one.get("index")) is int for one in data):
        return None
    return [(one["index"], one.get("embedding")) for one in data]


def _take_out(found: dict[int, Any], dimensions: int | None, failures: dict[int, JudgeError]) -> None:
    """Moves what is no vector of the size of the others, or of the one that was asked for, to the failures."""
    sizes = Counter(len(vector) for vector in found.values() if isinstance(vector, list))
    size = dimensions or (sizes.most_common(1)[0][0] if sizes else 0)
    for number, vector in list(found.items()):
        if problem := _problem(vector, size):
            failures[number] = JudgeError(Status.SERVER_ERROR, f"an embedding of the server must {problem}")
            del found[number]


def _problem(vector: Any, size: int) -> str:
    """Why a value is no vector; empty where it is one."""
    if not isinstance(vector, list):
        hint = ", base64 perhaps, which was not asked for" if isinstance(vector, str) else ""
        return f"be a list of numbers but is {type(vector).__name__}{hint}"
    if odd := sorted(kind.__name__ for kind in set(map(type, vector)) - {int, float}):
        return f"be a list of numbers but has {', '.join(odd)} in it"
    if len(vector) != max(size, 1):
        return f"have {max(size, 1):,} numbers, as the others or the argument dimensions, but has {len(vector):,}"
    try:
        return "" if all(map(math.isfinite, vector)) else "be finite but holds NaN or infinity"
    except OverflowError:
        return "be finite but holds an integer beyond 1.8e308"
