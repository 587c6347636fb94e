"""Answers judged as they come: no ground truths, one row of results an answer."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.text.judged.prompts import Prompts
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.evaluation import Evaluation
from valor_gpu.valor.text import NAMES, WITH_TRUTH, check_metrics, check_same_question, evaluate_text_generation
from valor_gpu.valor.text_judge import judge_of

if TYPE_CHECKING:
    import pandas as pd

    from valor_gpu.valor.schemas import Prediction

_COLUMNS = ("datum_uid", "datum_text", "datum_metadata", "prediction_text", "context_list", "prediction_metadata")


class ValorTextGenerationStreamingManager:
    """Judges answers a part at a time and keeps a row of results for each.

    Args:
        metrics_to_return: of AnswerRelevance, Bias, Coherence, ContextRelevance, Faithfulness, Hallucination,
            SummaryCoherence, Toxicity: those that need no ground truth.
        llm_api_params: which judge, as :func:`~valor_gpu.valor.text.evaluate_text_generation` takes it.
        metric_params: likewise.
        joint_df: what :meth:`get_results` of an earlier manager gave, to go on from; a frame of pandas or the mapping
            of :meth:`columns`.
        judge: a judge or a callable instead of ``llm_api_params``.
        compat: None, or the release whose rules apply.
        prompts: the user's own.
        limits: how the judge may be asked.
        cache: keeps replies.

    Attributes:
        datum_uids: uids that were added.

    Choices are fixed once the manager is made: setting one raises AttributeError.

    Raises:
        InputError: choices that cannot be.

    Example:
        >>> from valor_gpu.valor import Annotation, Datum, Prediction
        >>> manager = ValorTextGenerationStreamingManager(["Coherence"], judge=lambda messages: "5")
        >>> answer = Prediction(Datum("q1", text="Why?"), [Annotation(text="It rained. So we stayed.")])
        >>> manager.add_and_evaluate_prediction([answer]).metrics[0]["value"]
        5.0
        >>> manager.columns()["Coherence"], manager.columns()["Coherence_status"]
        ([5.0], ['success'])
    """

    _locked = False

    def __init__(
        self,
        metrics_to_return: Sequence[MetricType | str],
        llm_api_params: Mapping[str, Any] | None = None,
        metric_params: Mapping[str, Mapping[str, Any]] | None = None,
        joint_df: pd.DataFrame | Mapping[str, Sequence[Any]] | None = None,
        *,
        judge: Any = None,
        compat: str | None = None,
        prompts: Prompts | str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
        cache: JudgeCache | str | None = None,
    ) -> None:
        self._names = check_metrics(metrics_to_return, [name for name in NAMES if name not in WITH_TRUTH])
        self.metrics_to_return = [MetricType(name) for name in self._names]
        self.llm_api_params = llm_api_params
        self.metric_params = metric_params or {}
        self.datum_uids: set[str] = set()
        self._choices = {"llm_api_params": llm_api_params, "metric_params": metric_params, "judge": judge,
                         "compat": compat, "prompts": prompts, "limits": limits, "cache": cache}  # fmt: skip
        judge_of(llm_api_params, judge)
        evaluate_text_generation([], self._names, **self._choices)  # choices that cannot be are told now
        self._columns: dict[str, list[Any]] = {name: [] for name in (*_COLUMNS, *self._result_columns())}
        self._questions: dict[str | None, str] = {}
        if joint_df is not None:
            self._go_on_from(joint_df)
        self._locked = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._locked:
            raise AttributeError(f"{name} is fixed when the manager is made; make another manager")
        super().__setattr__(name, value)

    def _result_columns(self) -> list[str]:
        return [column for name in self._names for column in (name, f"{name}_status")]

    def _go_on_from(self, earlier: Any) -> None:
        missing = [name for name in self._columns if name not in earlier]
        if missing and len(earlier):
            raise InputError(
                f"joint_df must have the columns {', '.join(self._columns)} but lacks {', '.join(missing)}"
            )
        if not missing:
            for name, column in self._columns.items():
                column.extend(None if value != value else value for value in earlier[name])  # NaN of pandas
        for uid, text in zip(self._columns["datum_uid"], self._columns["datum_text"]):
            self.datum_uids.add(uid)
            if text is not None:
                self._questions.setdefault(uid, text)

    def add_and_evaluate_prediction(self, predictions: Sequence[Prediction]) -> Evaluation:
        """Judge some answers and keep their results.

        Args:
            predictions: answers to questions. A question may come again, with further answers.

        Raises:
            InputError: data that cannot be evaluated; nothing is asked or kept then.
            MismatchingTextGenerationDatumError: a uid that was added before has another text.
        """
        added = list(predictions)
        questions = copy.copy(self._questions)
        for prediction in added:
            check_same_question(prediction.datum, questions)
        evaluation = evaluate_text_generation(added, self._names, **self._choices)
        self._questions.update(questions)
        self._keep(added, evaluation)
        return evaluation

    def _keep(self, predictions: Sequence[Prediction], evaluation: Evaluation) -> None:
        found = iter(evaluation.metrics)
        for prediction in predictions:
            datum = prediction.datum
            if datum.uid is not None:
                self.datum_uids.add(datum.uid)
            for annotation in prediction.annotations:
                about = (datum.uid, datum.text, datum.metadata, annotation.text, annotation.context_list,
                         annotation.metadata)  # fmt: skip
                row = dict(zip(_COLUMNS, about))
                for name in self._names:
                    metric = next(found)
                    row |= {name: metric["value"], f"{name}_status": metric["status"]}
                for name, value in row.items():
                    self._columns[name].append(value)

    def columns(self) -> dict[str, list[Any]]:
        """Results as lists by column: the answer, and value and status of every metric."""
        return {name: list(column) for name, column in self._columns.items()}

    def get_results(self) -> pd.DataFrame:
        """Results as a frame of pandas, a row an answer; :meth:`columns` needs no pandas.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "pandas", "get_results") from error
        return pandas.DataFrame(self.columns())

    @property
    def joint_df(self) -> pd.DataFrame:
        """As :meth:`get_results`."""
        return self.get_results()
