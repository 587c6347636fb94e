# ruff: noqa: E501, I001
# fmt: off
"""Metrics of the texts or tokens of one batch. See the class of each for its definition.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.text import bert_score as bert_score
from valor_gpu.compat.torchmetrics.functional.text import bleu_score as bleu_score
from valor_gpu.compat.torchmetrics.functional.text import char_error_rate as char_error_rate
from valor_gpu.compat.torchmetrics.functional.text import chrf_score as chrf_score
from valor_gpu.compat.torchmetrics.functional.text import edit_distance as edit_distance
from valor_gpu.compat.torchmetrics.functional.text import extended_edit_distance as extended_edit_distance
from valor_gpu.compat.torchmetrics.functional.text import infolm as infolm
from valor_gpu.compat.torchmetrics.functional.text import match_error_rate as match_error_rate
from valor_gpu.compat.torchmetrics.functional.text import perplexity as perplexity
from valor_gpu.compat.torchmetrics.functional.text import rouge_score as rouge_score
from valor_gpu.compat.torchmetrics.functional.text import sacre_bleu_score as sacre_bleu_score
from valor_gpu.compat.torchmetrics.functional.text import squad as squad
from valor_gpu.compat.torchmetrics.functional.text import translation_edit_rate as translation_edit_rate
from valor_gpu.compat.torchmetrics.functional.text import word_error_rate as word_error_rate
from valor_gpu.compat.torchmetrics.functional.text import word_information_lost as word_information_lost
from valor_gpu.compat.torchmetrics.functional.text import word_information_preserved as word_information_preserved

__all__: list[str]
