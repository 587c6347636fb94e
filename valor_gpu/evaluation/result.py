"""EvaluationResult: what evaluate() returns, read from the store. No torch, no pandas."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valor_gpu.evaluation.artifacts import write_artifacts
from valor_gpu.evaluation.results.failures import Failures
from valor_gpu.evaluation.results.files import ARTIFACTS, REPORT, artifact_paths
from valor_gpu.evaluation.results.result_rows import result_rows
from valor_gpu.evaluation.results.result_text import result_html, result_text
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store.runs import Run
from valor_gpu.store.serving import run_address
from valor_gpu.store.stores import Store

if TYPE_CHECKING:
    from valor_gpu.evaluation.results.comparison import Comparison


class EvaluationResult:
    """The result of a run. Every number comes from the store, so that it is the same wherever the run is looked at.

    Args:
        store: that holds the run.
        run: of the store.
        output_path: folder with the files of the run, or None.
        thresholds: instead of those of the run; see :meth:`with_thresholds`.

    Attributes:
        store: that holds the run.
        run: of the store.
        run_id: by which the store knows the run.
        name: of the run.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     added = run.add_rows([StoredRow(1, "fr", {"question": "France?"}, {"answer": "Paris"})])
        ...     added = run.add_scores([StoredScore(1, "f1_score", 0, 1.0)])
        ...     EvaluationResult(store, run).metrics_summary
        {'mean_f1_score': 1.0}
    """

    def __init__(
        self,
        store: Store,
        run: Run,
        output_path: str | os.PathLike[str] | None = None,
        *,
        thresholds: Mapping[str, float | str] | None = None,
    ) -> None:
        self.store, self.run = store, run
        self.run_id, self.name = run.id, run.name
        self._output_path = output_path
        self._thresholds = thresholds
        self._summary: tuple[str, dict[str, Any]] | None = None

    @property
    def state(self) -> str:
        """``finished``, ``stopped``, ``failed``, ``running`` or ``draft``."""
        return self.run.state

    @property
    def summary(self) -> dict[str, Any]:
        """All numbers, as :func:`~valor_gpu.evaluation.results.summary.run_summary` computes them; strict JSON."""
        state = self.run.state
        if self._summary is None or self._summary[0] != state or state == "running":
            self._summary = state, run_summary(self.run, thresholds=self._thresholds)
        return self._summary[1]

    @property
    def metrics_summary(self) -> dict[str, float]:
        """``mean_<metric>``, pooled metrics, defect and pass rates. NaN where no row has a number: ``str`` says why."""
        return {name: math.nan if value is None else value for name, value in self.summary["metrics"].items()}

    @property
    def metric_summary(self) -> dict[str, float]:
        """The same as :attr:`metrics_summary`."""
        return self.metrics_summary

    @property
    def provenance(self) -> dict[str, Any]:
        """Data and version of the run, by the names of :attr:`valor_gpu.result.Result.provenance`.

        Returns:
            ``version`` of the package that made the run; ``hashed``: ``data``; ``ground_truth``: SHA-256 of the data
            set, of the bytes of a file, unpacked, or of rows as JSON in their order; ``predictions``: the same where
            the data set holds the answers, None where a target gave them; ``reasons``: why a hash is None.
        """
        return run_provenance(self.run)

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, one at a time; :mod:`valor_gpu.evaluation.results.result_rows` explains their keys."""
        return result_rows(self.run, self._thresholds)

    @property
    def errors(self) -> Failures:
        """Rows without an answer and scores without a value; it has a length and is read as often as one likes."""
        return Failures(self.run)

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens: ``prompt``, ``completion``, ``cached``, ``total``, and the same for ``judge`` and ``target``."""
        found: dict[str, Any] = self.summary["usage"]
        return found

    @property
    def cost(self) -> float | None:
        """What judge and target cost; None where no price is known."""
        found: float | None = self.summary["cost"]
        return found

    @property
    def artifacts(self) -> dict[str, str]:
        """Name to path of the files of the run; without an output path to an address ``runs:/<id>/<name>``.

        :meth:`download_evaluation_artifacts` writes the files anywhere.
        """
        if self._output_path is None:
            return {name: f"runs:/{self.run_id}/{name}" for name in ARTIFACTS}
        paths = artifact_paths(self._output_path)
        return {name: str(path) for name, path in paths.items() if name != REPORT or path.exists()}

    @property
    def tracking_uri(self) -> str | None:
        """Address of the MLflow server that the run was logged to, or None."""
        return self._tracking().get("uri")

    @property
    def studio_url(self) -> str | None:
        """Address of the run's page in Studio while it serves the store; else that in MLflow, or None."""
        return run_address(self.run) or self._tracking().get("url")

    def _tracking(self) -> dict[str, Any]:
        return (self.run.finished_summary or {}).get("tracking") or {}

    def download_evaluation_artifacts(self, path: str | os.PathLike[str]) -> Path:
        """Writes the files of the run into a folder, which is made, in place of what is there under their names.

        Returns:
            The folder.
        """
        write_artifacts(self.run, path, thresholds=self._thresholds)
        return Path(path)

    def to_html(self, path: str | os.PathLike[str], *, baseline: EvaluationResult | Run | None = None) -> Path:
        """Writes the run as one HTML file that needs no script and no network (extra ``eval``).

        Args:
            path: of the file.
            baseline: run to compare with; by default that of the run's configuration.

        Returns:
            The path.
        """
        from valor_gpu.evaluation.report import write_report

        other = baseline.run if isinstance(baseline, EvaluationResult) else baseline
        return write_report(self.run, path, baseline=other, thresholds=self._thresholds)

    def to_dict(self) -> dict[str, Any]:
        """The summary with ``run_id``, ``name``, ``state``, ``tags`` and ``config`` of the run; strict JSON."""
        run = self.run
        about = {"run_id": run.id, "name": run.name, "state": run.state, "tags": run.tags, "config": run.config}
        return {**about, **self.summary}

    def with_thresholds(self, thresholds: Mapping[str, float | str]) -> EvaluationResult:
        """The same run with other thresholds; nothing is judged again, and the run keeps its own.

        Args:
            thresholds: evaluator to a number, or to a level for severities.
        """
        return EvaluationResult(self.store, self.run, self._output_path, thresholds=thresholds)

    def compare(self, other: EvaluationResult | Run, **options: Any) -> Comparison:
        """Compares this run with a baseline, row by row.

        Args:
            other: the baseline, of any store.
            options: of :func:`~valor_gpu.evaluation.results.comparison.compare_runs`.
        """
        from valor_gpu.evaluation.results.comparison import compare_runs

        return compare_runs(self, other, **options)

    def __str__(self) -> str:
        return result_text(self.run, self.summary)

    def __repr__(self) -> str:
        return f"EvaluationResult(run_id={self.run_id!r}, name={self.name!r}, state={self.state!r})"

    def _repr_html_(self) -> str:
        return result_html(self.run, self.summary)


def run_provenance(run: Run) -> dict[str, Any]:
    """Returns the provenance of a run; see :attr:`EvaluationResult.provenance`.

    Args:
        run: of texts.
    """
    config = run.config
    found = (config.get("data") or {}).get("hash")
    reasons = {} if found else dict.fromkeys(("ground_truth", "predictions"), "the run keeps no hash of its data")
    answers = found if config.get("target") is None else None
    if found and answers is None:
        reasons["predictions"] = "a target gave the answers"
    return {
        "version": config.get("valor_gpu"),
        "hashed": "data" if found else None,
        "ground_truth": found,
        "predictions": answers,
        "reasons": reasons,
    }
