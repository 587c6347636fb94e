"""report.html: a run as one file that a browser shows without script and without any address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.evaluation.report.page import write_report

__all__ = ["write_report"]

__getattr__, __dir__ = lazy_names(__name__, {"write_report": "valor_gpu.evaluation.report.page"})
