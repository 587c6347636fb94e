# ruff: noqa: E501, I001
# fmt: off
"""Metrics of retrieval: how well documents are ranked for each query.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.retrieval.curves import RetrievalPrecisionRecallCurve as RetrievalPrecisionRecallCurve
from valor_gpu.retrieval.curves import RetrievalRecallAtFixedPrecision as RetrievalRecallAtFixedPrecision
from valor_gpu.retrieval.found import RetrievalFallOut as RetrievalFallOut
from valor_gpu.retrieval.found import RetrievalHitRate as RetrievalHitRate
from valor_gpu.retrieval.found import RetrievalPrecision as RetrievalPrecision
from valor_gpu.retrieval.found import RetrievalRPrecision as RetrievalRPrecision
from valor_gpu.retrieval.found import RetrievalRecall as RetrievalRecall
from valor_gpu.retrieval.graded import RetrievalExpectedReciprocalRank as RetrievalExpectedReciprocalRank
from valor_gpu.retrieval.graded import RetrievalNormalizedDCG as RetrievalNormalizedDCG
from valor_gpu.retrieval.judgements import RetrievalHoles as RetrievalHoles
from valor_gpu.retrieval.judgements import RetrievalJudged as RetrievalJudged
from valor_gpu.retrieval.ranked import RetrievalAUROC as RetrievalAUROC
from valor_gpu.retrieval.ranked import RetrievalBPref as RetrievalBPref
from valor_gpu.retrieval.ranked import RetrievalMAP as RetrievalMAP
from valor_gpu.retrieval.ranked import RetrievalMRR as RetrievalMRR
from valor_gpu.retrieval.ranked import RetrievalRBP as RetrievalRBP
from valor_gpu.retrieval.tables import QueryTable as QueryTable
from valor_gpu.retrieval.tables import query_table as query_table

__all__: list[str]
