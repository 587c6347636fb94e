"""Gates: conditions on numbers by which commands and tests decide. Standard library alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.gates.decisions import Decision, decide, failing
    from valor_gpu.gates.grammar import Condition, Gate, parse_gate
    from valor_gpu.gates.junit import junit_xml
    from valor_gpu.gates.markdown import markdown_summary

__all__ = ["Condition", "Decision", "Gate", "decide", "failing", "junit_xml", "markdown_summary", "parse_gate"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Condition": "valor_gpu.gates.grammar",
        "Decision": "valor_gpu.gates.decisions",
        "Gate": "valor_gpu.gates.grammar",
        "decide": "valor_gpu.gates.decisions",
        "failing": "valor_gpu.gates.decisions",
        "junit_xml": "valor_gpu.gates.junit",
        "markdown_summary": "valor_gpu.gates.markdown",
        "parse_gate": "valor_gpu.gates.grammar",
    },
)
