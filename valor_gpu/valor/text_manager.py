"""Answers judged as they come: no ground truths, one row of results per answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.evaluation import Evaluation
from valor_gpu.valor.exceptions import MismatchingTextGenerationDatumError
from valor_gpu.valor.text_choices import NAMES, WITH_TRUTH, check_metrics
from valor_gpu.valor.text_generation import evaluate_plan, make_plan

if TYPE_CHECKING:
    import pandas as pd

    from valor_gpu.valor.schemas import Prediction

_COLUMNS = ("datum_uid", "datum_text", "datum_metadata", "prediction_text", "prediction_context_list")
_METADATA = "prediction_metadata"
_EMPTY_COLUMNS = ("prediction_id", "prediction_annotation_id")  # valor_core has them and leaves them empty

_About = tuple[str | None, dict[str, Any] | None]


class ValorTextGenerationStreamingManager:
    """Judges answers a part at a time and keeps a row of results for each.

    Args:
        metrics_to_return: of AnswerRelevance, Bias, Coherence, ContextRelevance, Faithfulness, Hallucination,
            SummaryCoherence, Toxicity: those that need no ground truth.
        llm_api_params: which judge, as :func:`~valor_gpu.valor.text_generation.evaluate_text_generation` takes it.
        metric_params: metric name to the choices of that metric, as a dict.
        joint_df: what :meth:`get_results` of an earlier manager, also of valor_core, gave, to go on from: a frame of
            pandas or the mapping of :meth:`columns`. Columns of the status and of the prediction's metadata may lack.
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
        5
        >>> manager.columns()["Coherence"], manager.columns()["Coherence_status"]
        ([5], ['success'])
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
        prompts: OwnPrompts = None,
        limits: Limits | None = None,
        cache: JudgeCache | str | None = None,
    ) -> None:
        self._names = check_metrics(metrics_to_return, [name for name in NAMES if name not in WITH_TRUTH])
        self.metrics_to_return = [MetricType(name) for name in self._names]
        self.llm_api_params = llm_api_params
        self.metric_params = metric_params or {}
        self.datum_uids: set[str] = set()
        self._plan = make_plan(self._names, llm_api_params, metric_params, judge, compat, prompts, None, limits)
        self._cache = cache
        self._columns: dict[str, list[Any]] = {name: [] for name in (*_COLUMNS, _METADATA, *self._result_columns())}
        self._known: dict[str, _About] = {}
        if joint_df is not None:
            self._go_on_from(joint_df)
        self._locked = True

    def __repr__(self) -> str:
        answers = len(self._columns["datum_uid"])
        return (
            f"{type(self).__name__}({', '.join(self._names)}; judge={self._plan.judge!r}; "
            f"{answers} answers to {len(self.datum_uids)} datums)"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if self._locked:
            raise AttributeError(f"{name} is fixed when the manager is made; make another manager")
        super().__setattr__(name, value)

    def _result_columns(self) -> list[str]:
        return [column for name in self._names for column in (name, f"{name}_status")]

    def _go_on_from(self, earlier: Any) -> None:
        """Takes over the rows of an earlier manager.

        Raises:
            InputError: columns that are missing or unknown, or a row without uid or without text and contexts.
            MismatchingTextGenerationDatumError: one uid with two texts or metadata.
        """
        names = [str(name) for name in earlier]
        if not names:
            return
        lacking = [name for name in (*_COLUMNS, *self._names) if name not in names]
        unknown = [name for name in names if name not in self._columns and name not in _EMPTY_COLUMNS]
        if lacking or unknown:
            raise InputError(
                f"joint_df must have the columns {', '.join((*_COLUMNS, *self._names))} but lacks "
                f"{', '.join(lacking) or 'none'} and has besides {', '.join(unknown) or 'none'}"
            )
        # NaN is what pandas has for None.
        columns: dict[str, list[Any]] = {name: [_or_none(value) for value in earlier[name]] for name in names}
        rows = len(columns["datum_uid"])
        for name in self._columns:
            if name in columns and len(columns[name]) != rows:
                raise InputError(f"joint_df must have {rows} rows in every column but {name} has {len(columns[name])}")
        for metric in self._names:
            status = ["error" if value is None else "success" for value in columns[metric]]
            columns.setdefault(f"{metric}_status", status)
        columns.setdefault(_METADATA, [None] * rows)
        for row, (uid, text, metadata, answer, contexts) in enumerate(zip(*(columns[name] for name in _COLUMNS))):
            if not isinstance(uid, str):
                raise InputError(f"joint_df must have a datum_uid in every row but row {row} has {uid!r}")
            if answer is None and contexts is None:
                raise InputError(f"joint_df must have a text or contexts in every row but row {row} has none")
            _check_about(self._known, uid, (text, metadata))
        self.datum_uids.update(self._known)
        for name, column in self._columns.items():
            column.extend(columns[name])

    def add_and_evaluate_prediction(self, predictions: Sequence[Prediction]) -> Evaluation:
        """Judge some answers and keep their results.

        Args:
            predictions: a list of answers to questions. A question may come again, with further answers.

        Raises:
            InputTypeError: no list of predictions.
            InputError: data that cannot be evaluated, or an empty list; nothing is asked or kept then.
            MismatchingTextGenerationDatumError: a uid that was added before has another text or other metadata.
        """
        from valor_gpu.valor.schemas import Prediction

        check_type("predictions", predictions, (list, tuple))
        known = dict(self._known)
        for prediction in predictions:
            check_type("predictions", prediction, Prediction)
            datum = prediction.datum
            if datum.uid is not None:
                _check_about(known, datum.uid, (datum.text, datum.metadata))
        evaluation = evaluate_plan(self._plan, predictions, cache=self._cache)
        self._known.update(known)
        self._keep(predictions, evaluation)
        return evaluation

    def _keep(self, predictions: Sequence[Prediction], evaluation: Evaluation) -> None:
        metrics = iter(evaluation.metrics)
        for prediction in predictions:
            datum = prediction.datum
            if datum.uid is not None:
                self.datum_uids.add(datum.uid)
            for annotation in prediction.annotations:
                about = (datum.uid, datum.text, datum.metadata, annotation.text, annotation.context_list)
                row: dict[str, Any] = {**dict(zip(_COLUMNS, about)), _METADATA: annotation.metadata}
                for name in self._names:
                    metric = next(metrics)
                    row |= {name: metric["value"], f"{name}_status": metric["status"]}
                for name, value in row.items():
                    self._columns[name].append(value)

    def columns(self) -> dict[str, list[Any]]:
        """Results as lists by column: the answer, and value and status of every metric."""
        return {name: list(column) for name, column in self._columns.items()}

    def get_results(self) -> pd.DataFrame:
        """Results as a frame of pandas, one row per answer; :meth:`columns` needs no pandas.

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


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def _check_about(known: dict[str, _About], uid: str, about: _About) -> None:
    """Remembers text and metadata of a datum; raises when its uid had others."""
    earlier = known.setdefault(uid, about)
    for name, before, now in zip(("text", "metadata"), earlier, about):
        if before != now:
            raise MismatchingTextGenerationDatumError(f"datums of uid {uid!r} must have one {name} but have several")
