"""Masked language models on this machine, and what they expect at the places of a text. Nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.text.embedding import LocalEncoder, unloaded
from valor_gpu.text.tokens import check_size


class Tokens(NamedTuple):
    """Texts as token numbers, padded behind their ends.

    Attributes:
        ids: int32 ``[texts, longest]``.
        lengths: int64 ``[texts]``, tokens of each text, with those that the tokenizer puts around it.
    """

    ids: Tensor
    lengths: Tensor


@arguments_of(LocalEncoder)
class MaskedModel:
    """A masked language model of ``transformers`` on this machine, for :class:`valor_gpu.text.InfoLM`.

    Args:
        tokenizer: of the model, with a mask token; None for the one in the folder.
        max_length: tokens after which a text is cut; None for ``max_length`` of the model's configuration, or else for
            the limit that tokenizer and model state.

    Raises:
        InputError: a parameter that cannot be, a model that cannot be loaded, or a tokenizer without a mask token.
        MissingExtraError: without ``transformers``.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        max_length: int | None = None,
        batch: int = 64,
        device: Any = None,
    ) -> None:
        check_size("batch", batch)
        self.name = type(model).__name__
        if isinstance(model, (str, os.PathLike)):
            self.name = os.fspath(model)
            model, tokenizer = _load(self.name, tokenizer)
        if tokenizer is None:
            raise InputError("tokenizer must be given with a model that is already loaded but got None")
        if getattr(tokenizer, "mask_token_id", None) is None:
            raise InputError(f"tokenizer must have a mask token but that of {self.name!r} has none")
        if max_length is not None:
            check_size("max_length", max_length)
        self.batch, self.max_length = batch, max_length or _longest(tokenizer, model)
        self._model = (model if device is None else model.to(device)).eval()
        self._tokenizer = tokenizer
        self._mask, self._pad = int(tokenizer.mask_token_id), int(tokenizer.pad_token_id or 0)
        around = (tokenizer.pad_token_id, tokenizer.sep_token_id, tokenizer.cls_token_id)
        self._around = sorted({int(each) for each in around if each is not None})

    def __repr__(self) -> str:
        return f"MaskedModel({self.name!r})"

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the model knows."""
        return int(self._model.config.vocab_size)

    def tokens(self, texts: Sequence[str]) -> Tokens:
        """Returns the tokens of texts, cut at ``max_length``."""
        rows = self._tokenizer(list(texts), truncation=True, max_length=self.max_length)["input_ids"] if texts else []
        ids = torch.full((len(rows), self.max_length), self._pad, dtype=torch.int32)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row, dtype=torch.int32)
        return Tokens(ids, torch.tensor([len(row) for row in rows], dtype=torch.int64))

    def counted(self, tokens: Tokens) -> Tensor:
        """Returns bool ``[texts, longest]``: the tokens of the text itself, not those put around or behind it."""
        around = torch.isin(tokens.ids, torch.tensor(self._around, dtype=torch.int32, device=tokens.ids.device))
        places = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
        return ~around & (places < tokens.lengths[:, None])

    @torch.inference_mode()
    def distributions(self, tokens: Tokens, weights: Tensor, temperature: float) -> Tensor:
        """Returns the mean over the places of a text of what the model expects there, with the place masked.

        Args:
            tokens: of the texts.
            weights: float64 ``[texts, longest]`` of each place in the mean; places of weight 0 are not computed.
            temperature: by which logits are divided, above 0.

        Returns:
            Float64 ``[texts, vocabulary]`` on the CPU; NaN in rows whose weights are all 0.
        """
        found = torch.zeros((len(tokens.ids), self.vocabulary), dtype=torch.float64)
        rows, places = (weights != 0).cpu().nonzero(as_tuple=True)
        order = tokens.lengths.cpu()[rows].argsort(stable=True)  # little padding
        ids, lengths, weights = tokens.ids.cpu().long(), tokens.lengths.cpu(), weights.cpu()
        for part in order.split(self.batch) if len(order) else ():
            row, place = rows[part], places[part]
            given = ids[row, : int(lengths[row].max())]
            given[torch.arange(len(row)), place] = self._mask
            expected = self._expected(given, lengths[row], place, temperature)
            found.index_add_(0, row, expected * weights[row, place, None])
        return found / weights.sum(1, keepdim=True)

    def _expected(self, ids: Tensor, lengths: Tensor, places: Tensor, temperature: float) -> Tensor:
        """Probabilities float64 ``[texts, vocabulary]`` of the tokens at one place of each text."""
        device = next(self._model.parameters()).device
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        logits = getattr(self._model(input_ids=ids.to(device), attention_mask=mask.to(device)), "logits", None)
        if logits is None:
            raise InputError(f"model must give logits of every token but {self.name!r} does not")
        there = logits[torch.arange(len(ids), device=device), places.to(device)].double()
        expected: Tensor = (there / temperature).softmax(-1).cpu()
        return expected


def _longest(tokenizer: Any, model: Any) -> int:
    """Tokens at which texts are cut by default."""
    if given := getattr(model.config, "max_length", None):
        return int(given)
    limits = (getattr(tokenizer, "model_max_length", None), getattr(model.config, "max_position_embeddings", None))
    found = [int(limit) for limit in limits if limit is not None and 0 < limit < 10**9]
    if not found:
        raise InputError("max_length must be given, since neither the tokenizer nor the model states a limit")
    return min(found)


def _load(folder: str, tokenizer: Any) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "local", "MaskedModel") from None
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(folder, **options)
        return transformers.AutoModelForMaskedLM.from_pretrained(folder, **options), tokenizer
    except (OSError, ValueError) as error:
        why = unloaded(folder, error)
        need = "model must be a folder with a masked language model, since nothing is downloaded,"
        raise InputError(f"{need} but {folder!r} cannot be loaded: {why}") from None
