"""Runs of an evaluation in one SQLite file: rows, scores, summaries, evaluators, data sets. Standard library alone.

Any number of threads and processes of one machine may read and write a store at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.errors import LeaseError, StoreError
    from valor_gpu.store.datasets import StoredDataset
    from valor_gpu.store.evaluators import EvaluatorVersion
    from valor_gpu.store.heads import RunHead
    from valor_gpu.store.leases import Lease
    from valor_gpu.store.records import Feedback, StoredRow, StoredScore
    from valor_gpu.store.runs import Run
    from valor_gpu.store.saved import SavedImage, SavedRun
    from valor_gpu.store.search import FoundRows
    from valor_gpu.store.stores import Store
    from valor_gpu.store.summaries import EvaluatorSummary, Histogram
    from valor_gpu.store.traces import StoredTrace, keep_traces, size_of_traces, traces_of

__all__ = [
    "EvaluatorSummary",
    "EvaluatorVersion",
    "Feedback",
    "FoundRows",
    "Histogram",
    "Lease",
    "LeaseError",
    "Run",
    "RunHead",
    "SavedImage",
    "SavedRun",
    "Store",
    "StoreError",
    "StoredDataset",
    "StoredRow",
    "StoredScore",
    "StoredTrace",
    "keep_traces",
    "size_of_traces",
    "traces_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EvaluatorSummary": "valor_gpu.store.summaries",
        "EvaluatorVersion": "valor_gpu.store.evaluators",
        "Feedback": "valor_gpu.store.records",
        "FoundRows": "valor_gpu.store.search",
        "Histogram": "valor_gpu.store.summaries",
        "Lease": "valor_gpu.store.leases",
        "LeaseError": "valor_gpu.errors",
        "Run": "valor_gpu.store.runs",
        "RunHead": "valor_gpu.store.heads",
        "SavedImage": "valor_gpu.store.saved",
        "SavedRun": "valor_gpu.store.saved",
        "Store": "valor_gpu.store.stores",
        "StoreError": "valor_gpu.errors",
        "StoredDataset": "valor_gpu.store.datasets",
        "StoredRow": "valor_gpu.store.records",
        "StoredScore": "valor_gpu.store.records",
        "StoredTrace": "valor_gpu.store.traces",
        "keep_traces": "valor_gpu.store.traces",
        "size_of_traces": "valor_gpu.store.traces",
        "traces_of": "valor_gpu.store.traces",
    },
)
