"""The state of the metrics of retrieval: every scored document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from valor_gpu.inputs.documents import DocumentRule, need_of, wrong_targets
from valor_gpu.state import State, check_elements, check_rows, joined


@dataclass(frozen=True)
class Documents(State):
    """Every scored document.

    Attributes:
        indexes: int64 ``[N]``, the query of each.
        preds: float64 ``[N]``, the scores.
        target: float64 ``[N]``, grades or 0 and 1; NaN of ignored documents, -1 of unjudged ones.
    """

    indexes: Tensor = joined()
    preds: Tensor = joined()
    target: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("indexes", "preds", "target")
    truth_fields: ClassVar[tuple[str, ...]] = ("indexes", "target")

    def check(self, rule: DocumentRule) -> None:
        """Raises :class:`InputError` unless the rows are such as ``update`` leaves."""
        for name in ("preds", "target"):
            check_rows(name, getattr(self, name), len(self.indexes), "indexes")
        check_elements("target", self.target, ~wrong_targets(self.target, rule), f"be {need_of(rule)}")
        good = ~self.preds.isnan() | self.target.isnan()
        check_elements("preds", self.preds, good, "not be NaN")
