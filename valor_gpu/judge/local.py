"""Judges on this machine: chat models of ``transformers``, by generated text or by one forward pass over the ratings.

torch and transformers are imported when a judge is made. Nothing is downloaded unless that is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_int, check_type
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.batches import Batcher
from valor_gpu.judge.protocol import JudgeError, Messages, Reply, Schema, Status, Usage
from valor_gpu.judge.requests import escaped


class _LocalJudge:
    """Model, tokenizer and batches; what to do with a batch is left to the judges below."""

    _kind = ""

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        batch_size: int = 8,
        device: Any = None,
        dtype: Any = None,
        download: bool = False,
        name: str | None = None,
    ) -> None:
        check_int("batch_size", batch_size, 1)
        check_type("name", name, (str, type(None)))
        transformers = _package("transformers", type(self).__name__)
        _package("torch", type(self).__name__)
        self.name = name
        if isinstance(model, (str, os.PathLike)):
            self.name = name or str(model)
            model, loaded = _load(transformers, str(model), dtype, download)
            tokenizer = tokenizer or loaded
        if tokenizer is None:
            raise InputError("tokenizer must be given with a model that is already loaded but got None")
        self._model = (model if device is None else model.to(device)).eval()
        self._tokenizer = tokenizer
        self._pad = next(i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id, 0) if i is not None)
        self._batcher: Batcher[Messages, Reply | JudgeError] = Batcher(self._answers, batch_size)
        self.concurrency = 2 * batch_size  # the next batch gathers while one is computed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or type(self._model).__name__!r})"

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """Name, revision, dtype and parameters; None, so that nothing is cached, for a loaded model without a name."""
        if self.name is None:
            return None
        revision = getattr(getattr(self._model, "config", None), "_commit_hash", None)
        identity = {"kind": self._kind, "model": self.name, "revision": revision, "dtype": str(self._model.dtype)}
        return identity | self._parameters()

    def _parameters(self) -> dict[str, Any]:
        raise NotImplementedError

    def _batch(self, inputs: Mapping[str, Any]) -> Sequence[Reply | JudgeError]:
        raise NotImplementedError

    async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
        """The reply, from a batch with the calls that wait beside this one."""
        answer = await self._batcher(messages)
        if isinstance(answer, JudgeError):
            raise answer
        return answer

    def _answers(self, batch: list[Messages]) -> list[Reply | JudgeError]:
        """A reply or a failure for each: a prompt that is too long does not spoil its batch."""
        prompts = [self._prompt(messages) for messages in batch]
        fitting = [prompt for prompt in prompts if not isinstance(prompt, JudgeError)]
        try:
            replies = iter(self._replies(fitting))
        except Exception as error:
            failure = JudgeError(Status.JUDGE_ERROR, f"the model raised {type(error).__name__}: {error}", max_retries=0)
            replies = iter([failure] * len(fitting))
        return [prompt if isinstance(prompt, JudgeError) else next(replies) for prompt in prompts]

    def _prompt(self, messages: Messages) -> list[int] | JudgeError:
        """Token ids of the conversation up to where the judge begins to write."""
        try:
            plain = escaped([dict(message) for message in messages])
            if getattr(self._tokenizer, "chat_template", None):
                text = self._tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
                ids = self._tokenizer(text + self._beginning(), add_special_tokens=False)["input_ids"]
            else:
                lines = [f"{message['role']}: {message['content']}\n" for message in plain]
                ids = self._tokenizer("".join(lines) + "assistant: " + self._beginning())["input_ids"]
        except Exception as error:
            message = f"the messages do not fit the chat template: {type(error).__name__}: {error}"
            return JudgeError(Status.BAD_REQUEST, message)
        limit = getattr(self._model.config, "max_position_embeddings", None)
        if limit is not None and len(ids) + self._reply_tokens() > limit:
            needed = f"the prompt has {len(ids)} tokens and the reply needs {self._reply_tokens()}"
            return JudgeError(Status.BAD_REQUEST, f"{needed}, but the model takes {limit} together")
        return list(ids)

    def _beginning(self) -> str:
        return ""

    def _reply_tokens(self) -> int:
        return 1

    def _replies(self, prompts: list[list[int]]) -> list[Reply | JudgeError]:
        """Replies; a batch that does not fit into the memory of the device is halved."""
        torch = importlib.import_module("torch")
        if not prompts:
            return []
        try:
            with torch.inference_mode():
                return list(self._batch(self._padded(prompts)))
        except torch.cuda.OutOfMemoryError:
            if len(prompts) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(prompts) // 2
        return self._replies(prompts[:half]) + self._replies(prompts[half:])

    def _padded(self, prompts: list[list[int]]) -> dict[str, Any]:
        """Padded on the left, so that all prompts end, and all replies begin, in one column."""
        torch = importlib.import_module("torch")
        longest = max(map(len, prompts))
        rows = [[self._pad] * (longest - len(prompt)) + prompt for prompt in prompts]
        mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        device = self._model.device
        return {"input_ids": torch.tensor(rows, device=device), "attention_mask": torch.tensor(mask, device=device)}


class TransformersJudge(_LocalJudge):
    """A local chat model that writes its judgement, always the likeliest token.

    Args:
        model: a folder, or the name of a model in the local cache of the hub; or a loaded model, with ``tokenizer``.
        tokenizer: of a loaded model.
        max_new_tokens: limit on the tokens of a reply; a reply that needs more is ``truncated``.
        batch_size: number of prompts that are computed together; halved when the device runs out of memory.
        device: where to move the model; None to leave it.
        dtype: of the weights when the model is loaded here; None for the model's own.
        download: whether a model that is not there may be fetched from the hub.
        name: names a loaded model in the cache; without it its replies are not cached.

    Raises:
        MissingExtraError: without ``transformers``.
        InputError: the model cannot be loaded, or a number is out of range.
    """

    _kind = "transformers"

    def __init__(self, model: Any, tokenizer: Any = None, *, max_new_tokens: int = 512, **loading: Any) -> None:
        check_int("max_new_tokens", max_new_tokens, 1)
        super().__init__(model, tokenizer, **loading)
        self._max_new_tokens = max_new_tokens

    def _parameters(self) -> dict[str, Any]:
        return {"max_new_tokens": self._max_new_tokens}

    def _reply_tokens(self) -> int:
        return self._max_new_tokens

    def _batch(self, inputs: Mapping[str, Any]) -> list[Reply]:
        longest = inputs["input_ids"].shape[1]
        limits = {"max_new_tokens": self._max_new_tokens, "pad_token_id": self._pad}
        plain = {"temperature": None, "top_p": None, "top_k": None}  # else models that sample by default warn
        written = self._model.generate(**inputs, do_sample=False, **limits, **plain)[:, longest:].tolist()
        ends = self._model.generation_config.eos_token_id
        stops = set(ends if isinstance(ends, list) else [ends]) - {None}
        sent = inputs["attention_mask"].sum(1).tolist()
        return [self._reply(tokens, count, stops) for tokens, count in zip(written, sent)]

    def _reply(self, tokens: list[int], sent: int, stops: set[int]) -> Reply:
        end = next((index for index, token in enumerate(tokens) if token in stops), None)
        kept = tokens if end is None else tokens[:end]
        text = self._tokenizer.decode(kept, skip_special_tokens=True).strip()
        count = len(tokens) if end is None else end + 1
        return Reply(text, Usage(sent, count), None, "length" if end is None else "stop", self.name or "")


class LogitsJudge(_LocalJudge):
    """A local chat model that rates by one forward pass: the probabilities of the ratings as the next token.

    The reply is ``{"score": n}`` with the likeliest rating, and its ``logprobs`` hold the log-probability of every
    rating among all tokens, for :func:`valor_gpu.judge.expected_score`. Prompts should ask for the bare number.

    Args:
        model: as in :class:`TransformersJudge`.
        tokenizer: of a loaded model.
        low: the least rating, at least 0.
        high: the greatest, at most 9.
        beginning: what the judge is taken to have written already, ``Score: `` say.
        batch_size: number of prompts that are computed together.
        loading: ``device``, ``dtype``, ``download`` and ``name`` of :class:`TransformersJudge`.

    Raises:
        MissingExtraError: without ``transformers``.
        InputError: no such range, or a tokenizer that does not give each rating a token of its own.
    """

    _kind = "transformers logits"

    def __init__(
        self, model: Any, tokenizer: Any = None, *, low: int = 1, high: int = 5, beginning: str = "", **loading: Any
    ) -> None:
        check_int("low", low, 0)
        check_int("high", high, 0)
        check_type("beginning", beginning, str)
        if not 0 <= low < high <= 9:
            raise InputError(f"low and high must satisfy 0 <= low < high <= 9 but got {low!r} and {high!r}")
        super().__init__(model, tokenizer, **loading)
        self._written = beginning
        self._range = range(low, high + 1)
        self._tokens = {rating: _tokens_of(self._tokenizer, rating) for rating in self._range}
        known = inspect.signature(self._model.forward).parameters
        self._forward_options = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self._takes_positions = "position_ids" in known

    def _parameters(self) -> dict[str, Any]:
        return {"low": self._range[0], "high": self._range[-1], "beginning": self._written}

    def _beginning(self) -> str:
        return self._written

    def _batch(self, inputs: Mapping[str, Any]) -> list[Reply | JudgeError]:
        torch = importlib.import_module("torch")
        mask = inputs["attention_mask"]
        positions = {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)} if self._takes_positions else {}
        logits = self._model(**inputs, **positions, **self._forward_options, use_cache=False).logits[:, -1].double()
        logprobs = torch.log_softmax(logits, 1)
        columns = [logprobs[:, tokens].logsumexp(1) for tokens in self._tokens.values()]
        rows = torch.stack(columns, 1).tolist()
        return [self._reply(row, count) for row, count in zip(rows, mask.sum(1).tolist())]

    def _reply(self, row: list[float], sent: int) -> Reply | JudgeError:
        if any(map(math.isnan, row)):  # of weights or activations beyond the range of their dtype
            return JudgeError(Status.JUDGE_ERROR, "the model gave NaN as the logit of a token", max_retries=0)
        logprobs = dict(zip(self._range, row))
        best = max(logprobs, key=logprobs.__getitem__)
        named = {str(rating): value for rating, value in logprobs.items()}
        return Reply(json.dumps({"score": best}), Usage(sent, 1), (named,), "stop", self.name or "")


def _tokens_of(tokenizer: Any, rating: int) -> list[int]:
    """Ids of the tokens that write a rating alone, with or without a space before it."""
    tokens = set()
    for text in (str(rating), f" {rating}"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            tokens.add(ids[0])
        elif len(ids) == 2 and not tokenizer.decode(ids[:1]).strip():
            tokens.add(ids[1])  # a token for the space, then the digit
    tokens.discard(getattr(tokenizer, "unk_token_id", None))
    if not tokens:
        raise InputError(f"tokenizer must have a token for each rating but has none for {rating}")
    return sorted(tokens)


def _package(name: str, purpose: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(name, "local", purpose) from None


def _load(transformers: Any, name: str, dtype: Any, download: bool) -> tuple[Any, Any]:
    options = {"local_files_only": not download, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
        modern = int(transformers.__version__.partition(".")[0]) >= 5
        weights = {} if dtype is None else {"dtype" if modern else "torch_dtype": dtype}
        return transformers.AutoModelForCausalLM.from_pretrained(name, **options, **weights), tokenizer
    except (OSError, ValueError) as error:
        hint = "" if download else "; download=True fetches models of the hub"
        raise InputError(
            f"model must be a folder or a cached model but {name!r} cannot be loaded{hint}: {error}"
        ) from None
