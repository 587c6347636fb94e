"""Similarity of texts by the cosine of their embeddings, from any source of vectors.

torch and transformers are imported when a :class:`LocalEncoder` is made; nothing else here needs them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.text.tokens import Ints, check_size, texts_of

Floats = NDArray[np.float64]
Embed = Callable[[list[str]], Any]


@arguments_of(texts_of)
def embedding_similarity(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], embed: Embed | tuple[Any, Any]
) -> Floats:
    """Computes the cosine between the embeddings of prediction and reference, float64 ``[rows]`` in [-1, 1].

    The best of several references counts. A vector of zeros has no direction: the value is NaN where the prediction,
    or every reference, has one; a reference with one is passed over where the row has others.

    Source: G. Salton and M. McGill, "Introduction to Modern Information Retrieval" (1983).

    Args:
        embed: a function from a list of texts to their vectors, real numbers ``[texts, size]``, such as
            `valor_gpu.text.OpenAIEmbedder` and :class:`LocalEncoder`; it is called once, with every distinct text once,
            and not at all without rows. Or a tuple of vectors: of the predictions ``[rows, size]``, and of the
            references ``[references, size]`` one after another, row by row. Arrays, tensors and nested lists are taken.

    Raises:
        InputError: rows that are no texts; vectors of another shape, or that hold NaN or infinity.

    Example:
        >>> def letters(texts):
        ...     return [[text.count("a"), text.count("b")] for text in texts]
        >>> embedding_similarity(["ab", "a"], [["a", "abab"], "b"], letters).round(3)
        array([1., 0.])
        >>> vectors, reference_vectors = [[3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]
        >>> embedding_similarity(["cat"], [["dog", "tom"]], (vectors, reference_vectors)).round(3)
        array([0.8])
    """
    texts, rows = texts_of(predictions, references)
    counts = np.diff(rows) - 1
    if not len(counts):
        return np.zeros(0)
    first = np.zeros(len(texts), bool)
    first[rows[:-1]] = True
    predicted, true = (
        _embedded(texts, first, embed) if callable(embed) else _given(embed, len(counts), int(counts.sum()))
    )
    return _best_cosines(predicted, true, counts)


def _embedded(texts: list[str], first: NDArray[np.bool_], embed: Embed) -> tuple[Floats, Floats]:
    """Directions of predictions and references by a function, each text asked for once."""
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    units = _directions(vectors_of("embed(texts)", embed(list(numbers)), len(numbers)))
    return units[index[first]], units[index[~first]]


def _given(embed: object, rows: int, references: int) -> tuple[Floats, Floats]:
    if not isinstance(embed, tuple) or len(embed) != 2:
        kind = f"a tuple of {len(embed)}" if isinstance(embed, tuple) else type(embed).__name__
        raise InputError(f"embed must be a callable or a tuple (vectors, reference_vectors) but got {kind}")
    vectors, true = vectors_of("vectors", embed[0], rows), vectors_of("reference_vectors", embed[1], references)
    if vectors.shape[1] != true.shape[1]:
        raise InputError(f"reference_vectors must have the {vectors.shape[1]} columns of vectors but got {true.shape}")
    return _directions(vectors), _directions(true)


def vectors_of(name: str, values: Any, count: int) -> Floats:
    """The values as float64 ``[count, size]``."""
    if hasattr(values, "detach"):  # a tensor on any device, of any dtype
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} must give vectors of one size but their sizes differ") from None
    if array.ndim != 2 or len(array) != count or not array.shape[1]:
        raise InputError(f"{name} must have shape [{count}, size] with size at least 1 but got {list(array.shape)}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers but got dtype {array.dtype}")
    array = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(array).all(1))
    if len(bad):
        raise InputError(f"{name} must be finite but row {bad[0]} holds NaN or infinity")
    return array


def _directions(vectors: Floats) -> Floats:
    """Vectors of length 1; NaN for those of length 0."""
    largest = np.abs(vectors).max(1, keepdims=True)  # divided out first, so that no square leaves the range
    with np.errstate(invalid="ignore"):
        scaled = vectors / largest
    return np.asarray(scaled / np.sqrt((scaled * scaled).sum(1, keepdims=True)))


def _best_cosines(predicted: Floats, true: Floats, counts: Ints) -> Floats:
    """The best reference of each row, whose directions lie one after another in ``true``."""
    row = np.repeat(np.arange(len(counts)), counts)
    cosines = np.clip(np.einsum("ij,ij->i", predicted[row], true), -1.0, 1.0)
    return np.asarray(np.fmax.reduceat(cosines, np.cumsum(counts) - counts))


class LocalEncoder:
    """A ``transformers`` encoder on this machine; call it with a list of texts. Nothing is downloaded.

    The hidden states of the last layer become one vector per text: their mean over the tokens, or that of the first
    token. A text without any token gets zeros. Of an encoder-decoder the encoder is used.

    Args:
        model: a folder, or a model that is loaded already; it is put into evaluation mode.
        tokenizer: of the model; None for the one in the folder.
        pooling: ``"mean"`` or ``"cls"``, as the model was trained.
        batch: number of texts that are computed together.
        max_length: tokens after which a text is cut; None for the limit that tokenizer and model state.
        device: where to move the model; None to leave it.

    Raises:
        InputError: a parameter that cannot be, or a model that cannot be loaded or is no encoder.
        MissingExtraError: without ``torch`` or ``transformers``.

    Example:
        >>> from tokenizers import Tokenizer, models
        >>> from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1, "dog": 2}, unk_token="[UNK]"))
        >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
        >>> model = BertModel(BertConfig(vocab_size=3, **sizes))
        >>> encoder = LocalEncoder(model, PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"))
        >>> encoder(["cat", "dog"]).shape
        (2, 8)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        pooling: str = "mean",
        *,
        batch: int = 32,
        max_length: int | None = None,
        device: Any = None,
    ) -> None:
        check_choice("pooling", pooling, ("mean", "cls"))
        check_size("batch", batch)
        if max_length is not None:
            check_size("max_length", max_length)
        _package("torch")
        self.name = type(model).__name__
        if isinstance(model, (str, os.PathLike)):
            self.name = os.fspath(model)
            model, tokenizer = _load(self.name, tokenizer)
        if tokenizer is None:
            raise InputError("tokenizer must be given with a model that is already loaded but got None")
        if getattr(model.config, "is_encoder_decoder", False):
            model = model.get_encoder()
        self.pooling, self.batch = pooling, batch
        self.max_length = _longest(tokenizer, model) if max_length is None else max_length
        self._model = (model if device is None else model.to(device)).eval()
        self._tokenizer = tokenizer
        self._pad = getattr(tokenizer, "pad_token_id", None) or 0

    def __repr__(self) -> str:
        return f"LocalEncoder({self.name!r}, pooling={self.pooling!r})"

    def __call__(self, texts: Sequence[str]) -> Floats:
        """float64 ``[texts, size]``, in the order of the texts."""
        cut = {} if self.max_length is None else {"truncation": True, "max_length": self.max_length}
        ids = self._tokenizer(list(texts), **cut)["input_ids"] if texts else []
        order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: len(ids[i]))  # little padding
        result = np.zeros((len(texts), self._model.config.hidden_size))
        for start in range(0, len(order), self.batch):
            part = order[start : start + self.batch]
            result[part] = self._pooled([ids[i] for i in part])
        return result

    def tokens(self, texts: Sequence[str]) -> list[tuple[list[int], Any]]:
        """Token numbers and float32 embeddings ``[tokens, size]`` of each text, without special tokens.

        For :class:`valor_gpu.text.BERTScore`, on the device of the model.
        """
        torch = _package("torch")
        cut = {} if self.max_length is None else {"truncation": True, "max_length": self.max_length}
        found = self._tokenizer(list(texts), return_special_tokens_mask=True, **cut) if texts else {}
        ids, special = found.get("input_ids", []), found.get("special_tokens_mask", [])
        none = torch.zeros((0, self._model.config.hidden_size), device=next(self._model.parameters()).device)
        result: list[tuple[list[int], Any]] = [([], none)] * len(ids)
        order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: len(ids[i]))
        for start in range(0, len(order), self.batch):
            part = order[start : start + self.batch]
            states, _ = self._states([ids[i] for i in part])
            for i, rows in zip(part, states):
                kept = [place for place, mark in enumerate(special[i]) if not mark]
                result[i] = [ids[i][place] for place in kept], rows[kept].float()
        return result

    def _states(self, ids: list[list[int]]) -> tuple[Any, Any]:
        """Hidden states of texts of at least one token each, padded behind their ends, and the mask of tokens."""
        torch = _package("torch")
        longest, device = max(map(len, ids)), next(self._model.parameters()).device
        tokens = torch.tensor([row + [self._pad] * (longest - len(row)) for row in ids], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids], device=device)
        with torch.inference_mode():
            states = getattr(self._model(input_ids=tokens, attention_mask=mask), "last_hidden_state", None)
        if states is None:
            raise InputError(f"model must give last_hidden_state but {self.name!r} does not")
        return states, mask

    def _pooled(self, ids: list[list[int]]) -> Any:
        """Vectors of texts of at least one token each."""
        states, mask = self._states(ids)
        with _package("torch").inference_mode():
            states = states.double()
            if self.pooling == "cls":
                return states[:, 0].cpu().numpy()
            weights = mask[:, :, None].to(states.dtype)
            return ((states * weights).sum(1) / weights.sum(1)).cpu().numpy()


def _longest(tokenizer: Any, model: Any) -> int | None:
    """Tokens that tokenizer and model take; None where neither says."""
    limits = (getattr(tokenizer, "model_max_length", None), getattr(model.config, "max_position_embeddings", None))
    return min((int(limit) for limit in limits if limit is not None and 0 < limit < 10**9), default=None)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(name, "local", "LocalEncoder") from None


def _load(folder: str, tokenizer: Any) -> tuple[Any, Any]:
    transformers = _package("transformers")
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(folder, **options)
        return transformers.AutoModel.from_pretrained(folder, **options), tokenizer
    except (OSError, ValueError) as error:
        why = unloaded(folder, error)
        raise InputError(f"model must be a folder with an encoder but {folder!r} cannot be loaded: {why}") from None


def unloaded(folder: str, error: Exception) -> str:
    """Returns why a model is not there: of a name, ``transformers`` says that it could not reach the internet."""
    return str(error) if os.path.isdir(folder) else "it is no folder, and no model of that name has been downloaded"
