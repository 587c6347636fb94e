"""Metrics of the texts or tokens of one batch. See the class of each for its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu import text
from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.functional.once import alone, chosen_pair
from valor_gpu.text.metric_base import as_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

    from valor_gpu.metric import Metric
    from valor_gpu.text.bert_score import Encoder, IdfWeights

__all__ = MODULES["text"]

Texts = str | Sequence[str]
References = str | Sequence[str | Sequence[str]]
Records = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def _once(metric: Metric[Any], preds: Texts, target: References) -> Any:
    """``compute`` after one ``update``; a text alone is a batch of one row."""
    alone(metric).update(_rows(preds), _rows(target))
    return metric.compute()


def _rows(texts: Any) -> Any:
    return [texts] if isinstance(texts, str) else texts


def _with_rows(value: Tensor | tuple[Tensor, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
    """The scores of rows with their dimension, which ``compute`` of a metric takes from a single one."""
    return (value[0], value[1].reshape(-1)) if isinstance(value, tuple) else value


def word_error_rate(preds: Texts, target: References) -> Tensor:
    """Returns what :class:`valor_gpu.text.WordErrorRate` computes of one batch, float64 ``[]``.

    Example:
        >>> word_error_rate("the cat sat", "the cat sat down")
        tensor(0.2500, dtype=torch.float64)
    """
    value: Tensor = _once(text.WordErrorRate(), preds, target)
    return value


def char_error_rate(preds: Texts, target: References) -> Tensor:
    """Returns what :class:`valor_gpu.text.CharErrorRate` computes of one batch, float64 ``[]``."""
    value: Tensor = _once(text.CharErrorRate(), preds, target)
    return value


def match_error_rate(preds: Texts, target: References) -> Tensor:
    """Returns what :class:`valor_gpu.text.MatchErrorRate` computes of one batch, float64 ``[]``."""
    value: Tensor = _once(text.MatchErrorRate(), preds, target)
    return value


def word_information_lost(preds: Texts, target: References) -> Tensor:
    """Returns what :class:`valor_gpu.text.WordInfoLost` computes of one batch, float64 ``[]``."""
    value: Tensor = _once(text.WordInfoLost(), preds, target)
    return value


def word_information_preserved(preds: Texts, target: References) -> Tensor:
    """Returns what :class:`valor_gpu.text.WordInfoPreserved` computes of one batch, float64 ``[]``."""
    value: Tensor = _once(text.WordInfoPreserved(), preds, target)
    return value


def edit_distance(
    preds: Texts, target: References, substitution_cost: int = 1, reduction: str | None = "mean"
) -> Tensor:
    """Returns what :class:`valor_gpu.text.EditDistance` computes of one batch."""
    value: Tensor = _once(text.EditDistance(substitution_cost, reduction), preds, target)
    return value


def bleu_score(
    preds: Texts,
    target: References,
    n_gram: int = 4,
    smooth: bool = False,
    weights: Sequence[float] | None = None,
) -> Tensor:
    """Returns BLEU of the words at white space, float64 ``[]``; see :class:`valor_gpu.text.BLEU`.

    Args:
        preds: a text, or one per row.
        target: for each row one text or several.
        n_gram: the longest n-gram that counts.
        smooth: add 1 to all counts from n = 2 on.
        weights: of the precisions of n = 1 to ``n_gram``, not negative, with the sum 1; default: equal ones.
    """
    return sacre_bleu_score(preds, target, n_gram, smooth, "none", weights=weights)


@arguments_of(bleu_score)
def sacre_bleu_score(
    preds: Texts,
    target: References,
    n_gram: int = 4,
    smooth: bool = False,
    tokenize: str = "13a",
    lowercase: bool = False,
    weights: Sequence[float] | None = None,
) -> Tensor:
    """Returns BLEU with a tokenizer of sacreBLEU, float64 ``[]``; see :class:`valor_gpu.text.BLEU`.

    Args:
        tokenize: ``13a``, ``intl``, ``zh``, ``char`` or ``none``.
        lowercase: compare in lower case.
    """
    value: Tensor = _once(text.SacreBLEUScore(n_gram, smooth, tokenize, lowercase, weights), preds, target)
    return value


def chrf_score(
    preds: Texts,
    target: References,
    n_char_order: int = 6,
    n_word_order: int = 2,
    beta: float = 2.0,
    lowercase: bool = False,
    whitespace: bool = False,
    return_sentence_level_score: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns chrF of a corpus, float64 ``[]``; with ``return_sentence_level_score`` also of rows, ``[N]``.

    Arguments are those of :class:`valor_gpu.text.CHRFScore`.
    """
    choices = (n_char_order, n_word_order, beta, lowercase, whitespace, return_sentence_level_score)
    return _with_rows(_once(text.CHRFScore(*choices), preds, target))


def translation_edit_rate(
    preds: Texts,
    target: References,
    normalize: bool = False,
    no_punctuation: bool = False,
    lowercase: bool = True,
    asian_support: bool = False,
    return_sentence_level_score: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the edit rate of a corpus, float64 ``[]``; with ``return_sentence_level_score`` also of rows, ``[N]``.

    Arguments are those of :class:`valor_gpu.text.TranslationEditRate`.
    """
    choices = (normalize, no_punctuation, lowercase, asian_support, return_sentence_level_score)
    return _with_rows(_once(text.TranslationEditRate(*choices), preds, target))


def extended_edit_distance(
    preds: Texts,
    target: References,
    language: str = "en",
    return_sentence_level_score: bool = False,
    alpha: float = 2.0,
    rho: float = 0.3,
    deletion: float = 0.2,
    insertion: float = 1.0,
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the mean extended edit distance of rows, float64 ``[]``; with ``return_sentence_level_score`` also rows.

    Arguments are those of :class:`valor_gpu.text.ExtendedEditDistance`.

    Example:
        >>> extended_edit_distance(["this is the prediction"], ["this is the reference"])
        tensor(0.3835, dtype=torch.float64)
    """
    choices = (language, return_sentence_level_score, alpha, rho, deletion, insertion)
    return _with_rows(_once(text.ExtendedEditDistance(*choices), preds, target))


def rouge_score(
    preds: Texts,
    target: References,
    accumulate: str = "best",
    use_stemmer: bool = False,
    normalizer: Callable[[str], str] | None = None,
    tokenizer: str | Callable[[str], Sequence[str]] | None = None,
    rouge_keys: str | tuple[str, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum"),
) -> dict[str, Tensor]:
    """Returns what :class:`valor_gpu.text.ROUGE` computes of one batch, float64 ``[]`` by name.

    For a single text ``target`` is one text, a list of its references, or a list that holds that list.
    """
    preds, target = as_rows(preds, target)
    metric = text.ROUGE(_rows(rouge_keys), use_stemmer, accumulate, normalizer, tokenizer)
    values: dict[str, Tensor] = _once(metric, preds, target)
    return values


def squad(preds: Records, target: Records) -> dict[str, Tensor]:
    """Returns what :class:`valor_gpu.text.SQuAD` computes of one batch, float64 ``[]`` by name."""
    metric: text.SQuAD = alone(text.SQuAD())
    metric.update(preds, target)
    return metric.compute()


def perplexity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``Perplexity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    from valor_gpu.text.perplexity import perplexity_of  # its kernels, of which texts have no need

    return perplexity_of(*chosen_pair((preds, target, y_true, y_pred)), ignore_index)


def bert_score(
    preds: Sequence[Any],
    target: Sequence[Any],
    encoder: Encoder | None = None,
    idf: IdfWeights | None = None,
    baseline: Sequence[float] | None = None,
) -> dict[str, Tensor]:
    """Returns what ``BERTScore`` computes of one batch; see :class:`valor_gpu.text.BERTScore`."""
    metric: text.BERTScore = alone(text.BERTScore(encoder, idf, baseline))
    metric.update(preds, target)
    return metric.compute()


def infolm(
    preds: Texts,
    target: Texts,
    model_name_or_path: Any = "bert-base-uncased",
    temperature: float = 0.25,
    information_measure: str = "kl_divergence",
    idf: bool = True,
    alpha: float | None = None,
    beta: float | None = None,
    device: Any = None,
    max_length: int | None = None,
    batch_size: int = 64,
    num_threads: int = 0,
    verbose: bool = True,
    return_sentence_level_score: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns InfoLM of one batch, float64 ``[]``; with ``return_sentence_level_score`` also of rows, ``[N]``.

    Arguments are those of :class:`valor_gpu.text.InfoLM`.
    """
    choices = (temperature, information_measure, idf, alpha, beta, device, max_length, batch_size, num_threads, verbose)
    return _with_rows(_once(text.InfoLM(model_name_or_path, *choices, return_sentence_level_score), preds, target))
