"""Choices of an evaluation of classifications, and those of each of Valor's releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from valor_gpu.checks import check_choice
from valor_gpu.valor.columns import Pair

COMPAT = (None, "valor-api", "valor-core", "valor-lite")


@dataclass(frozen=True)
class Rules:
    """The choices of one release.

    Attributes:
        sum_tolerance: how far the scores of a datum and a key may sum from 1; None: they need not sum to 1.
        bounded: scores must lie in [0, 1], give or take ``sum_tolerance``.
        count_unpredicted: a ground truth whose datum has no prediction of the key counts, as wrong. Otherwise it is
            left out of everything, and a key where nothing is left has zeros.
        count_untrue: predictions of datums without any ground truth are false positives of the curves.
        count_pairs: a prediction is compared with every ground truth of its datum and key: beside another one it is a
            false positive as well, in curves and in ROC AUC.
        count_rows: every row counts, of ground truths that are equal and of labels that a label map made one; in curves
            without any true positive nothing is a false negative; labels that win on a datum without ground truths
            have precision, recall and F1 of -1; of equal scores the label wins whose place in the annotation comes
            first as text, 10 before 8.
        roc: ``exact``, as scikit-learn, a label that a datum does not list has score 0; ``api`` and ``core``: only the
            scores that are there, and no point (0, 0).
        report_one_sided: fill ``ignored_pred_labels`` and ``missing_pred_labels``, which the releases left empty in
            classification.
    """

    sum_tolerance: float | None = 1e-5
    bounded: bool = True
    count_unpredicted: bool = True
    count_untrue: bool = True
    count_pairs: bool = False
    count_rows: bool = False
    roc: str = "exact"
    report_one_sided: bool = True


_PRESETS = {
    None: Rules(),
    "valor-api": Rules(bounded=False, count_unpredicted=False, count_pairs=True, roc="api", report_one_sided=False),
    "valor-core": Rules(
        sum_tolerance=1e-6,
        bounded=False,
        count_untrue=False,
        count_pairs=True,
        count_rows=True,
        roc="core",
        report_one_sided=False,
    ),
    "valor-lite": Rules(sum_tolerance=None, bounded=False, roc="lite"),
}


def rules_of(compat: str | None) -> Rules:
    """The rules of a preset; None: those of this library.

    Raises:
        InputError: no such preset.
    """
    check_choice("compat", compat, COMPAT)
    return _PRESETS[compat]


@dataclass(frozen=True)
class Request:
    """Choices of an evaluation, checked.

    Attributes:
        label_map: labels that count as another, by (key, value).
        metrics: names of those to return.
        max_examples: of each kind of observation.
        compat: the preset.
        score_thresholds, hardmax: of valor-lite.
    """

    label_map: Mapping[Pair, Pair]
    metrics: tuple[str, ...]
    max_examples: int
    compat: str | None
    score_thresholds: tuple[float, ...]
    hardmax: bool

    @property
    def rules(self) -> Rules:
        """The rules of the preset."""
        return rules_of(self.compat)
