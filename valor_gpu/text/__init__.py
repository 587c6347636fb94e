"""Comparison of texts: functions that import no torch, and stateful metrics over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.text.bert_score import BERTScore, IdfWeights
    from valor_gpu.text.bleu import CorpusBleu, bleu_counts, corpus_bleu, gleu_scores, sentence_bleu
    from valor_gpu.text.chrf import chrf_counts, chrf_scores
    from valor_gpu.text.edit_rate import ter_counts, ter_scores
    from valor_gpu.text.embedding import LocalEncoder, embedding_similarity
    from valor_gpu.text.error_rates import (
        CharErrorRate,
        EditDistance,
        ExtendedEditDistance,
        MatchErrorRate,
        TranslationEditRate,
        WordErrorRate,
        WordInfoLost,
        WordInfoPreserved,
    )
    from valor_gpu.text.extended_edits import extended_edit_distances
    from valor_gpu.text.infolm import InfoLM, MaskedModel
    from valor_gpu.text.meteor import meteor_scores
    from valor_gpu.text.metrics import BLEU, CHRF, GLEU, ROUGE, ExactMatch, TokenF1
    from valor_gpu.text.named import BLEUScore, CHRFScore, ROUGEScore, SacreBLEUScore
    from valor_gpu.text.overlap import edit_counts, exact_match, token_f1
    from valor_gpu.text.perplexity import Perplexity
    from valor_gpu.text.rouge import Rouge, rouge_scores
    from valor_gpu.text.served_embedding import OpenAIEmbedder, SomeFailed
    from valor_gpu.text.squad import SQuAD
    from valor_gpu.text.stemmer import stem
    from valor_gpu.text.tokens import plain_answer

__all__ = [
    "BLEU",
    "CHRF",
    "GLEU",
    "ROUGE",
    "BERTScore",
    "BLEUScore",
    "CHRFScore",
    "CharErrorRate",
    "CorpusBleu",
    "EditDistance",
    "ExactMatch",
    "ExtendedEditDistance",
    "IdfWeights",
    "InfoLM",
    "LocalEncoder",
    "MaskedModel",
    "MatchErrorRate",
    "OpenAIEmbedder",
    "Perplexity",
    "ROUGEScore",
    "Rouge",
    "SQuAD",
    "SacreBLEUScore",
    "SomeFailed",
    "TokenF1",
    "TranslationEditRate",
    "WordErrorRate",
    "WordInfoLost",
    "WordInfoPreserved",
    "bleu_counts",
    "chrf_counts",
    "chrf_scores",
    "corpus_bleu",
    "edit_counts",
    "embedding_similarity",
    "exact_match",
    "extended_edit_distances",
    "gleu_scores",
    "meteor_scores",
    "plain_answer",
    "rouge_scores",
    "sentence_bleu",
    "stem",
    "ter_counts",
    "ter_scores",
    "token_f1",
]

_HOMES = {
    "metrics": ("BLEU", "CHRF", "GLEU", "ROUGE", "ExactMatch", "TokenF1"),
    "named": ("BLEUScore", "CHRFScore", "ROUGEScore", "SacreBLEUScore"),
    "error_rates": (
        "CharErrorRate",
        "EditDistance",
        "ExtendedEditDistance",
        "MatchErrorRate",
        "TranslationEditRate",
        "WordErrorRate",
        "WordInfoLost",
        "WordInfoPreserved",
    ),
    "edit_rate": ("ter_counts", "ter_scores"),
    "extended_edits": ("extended_edit_distances",),
    "infolm": ("InfoLM", "MaskedModel"),
    "squad": ("SQuAD",),
    "bert_score": ("BERTScore", "IdfWeights"),
    "bleu": ("CorpusBleu", "bleu_counts", "corpus_bleu", "gleu_scores", "sentence_bleu"),
    "chrf": ("chrf_counts", "chrf_scores"),
    "embedding": ("LocalEncoder", "embedding_similarity"),
    "served_embedding": ("OpenAIEmbedder", "SomeFailed"),
    "meteor": ("meteor_scores",),
    "overlap": ("edit_counts", "exact_match", "token_f1"),
    "perplexity": ("Perplexity",),
    "rouge": ("Rouge", "rouge_scores"),
    "stemmer": ("stem",),
    "tokens": ("plain_answer",),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
