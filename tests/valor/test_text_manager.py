"""The streaming manager reads frames of valor_core and rejects what contradicts itself; the mock client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judge.metrics.scripted import ONE_NO_REPAIR, Script, texts
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import Annotation, Datum, GroundTruth, Prediction, text_generation
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.exceptions import MismatchingTextGenerationDatumError
from valor_gpu.valor.managers import ValorTextGenerationStreamingManager
from valor_gpu.valor.text_judge import judge_of

# A frame that valor_core's manager saved, as a mapping.
FRAME: dict[str, list[Any]] = {
    "datum_uid": ["a", "b"],
    "datum_text": ["A?", "B?"],
    "datum_metadata": [{"n": 1}, None],
    "prediction_id": [float("nan"), float("nan")],
    "prediction_annotation_id": [float("nan"), float("nan")],
    "prediction_text": ["one", "two"],
    "prediction_context_list": [["c"], None],
    "Bias": [0.5, float("nan")],
}


def manager(**choices: Any) -> ValorTextGenerationStreamingManager:
    judge = Script(texts("opinions"))
    return ValorTextGenerationStreamingManager([MetricType.Bias], judge=judge, limits=ONE_NO_REPAIR, **choices)


def about(uid: str, text: str = "A?", metadata: dict[str, Any] | None = None) -> Prediction:
    return Prediction(Datum(uid, text=text, metadata=metadata), [Annotation(text="one")])


def test_a_frame_of_valor_core_is_read() -> None:
    later = manager(joint_df=FRAME)
    assert later.columns()["Bias_status"] == ["success", "error"]
    assert later.columns()["prediction_metadata"] == [None, None]
    later.add_and_evaluate_prediction([about("a", metadata={"n": 1})])
    assert later.columns()["datum_uid"] == ["a", "b", "a"]
    assert later.columns()["Bias"] == [0.5, None, 0.0]
    assert (
        repr(later) == f"ValorTextGenerationStreamingManager(Bias; judge={later._plan.judge!r}; 3 answers to 2 datums)"
    )


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"datum_uid": ["a", None]}, InputError, "joint_df must have a datum_uid in every row but row 1 has None"),
        (
            {"prediction_text": [None, "two"], "prediction_context_list": [None, None]},
            InputError,
            "joint_df must have a text or contexts in every row but row 0 has none",
        ),
        (
            {"datum_uid": ["a", "a"]},
            MismatchingTextGenerationDatumError,
            "datums of uid 'a' must have one text but have several",
        ),
        ({"Bias": [0.5]}, InputError, "joint_df must have 2 rows in every column but Bias has 1"),
        ({"Toxicity": [0.5, 0.5]}, InputError, "lacks none and has besides Toxicity"),
    ],
)
def test_a_frame_that_contradicts_itself(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        manager(joint_df=FRAME | change)


def test_other_metadata_of_a_datum() -> None:
    message = "datums of uid 'a' must have one metadata but have several"
    known, changed = about("a", metadata={"n": 1}), about("a")
    streaming = manager()
    streaming.add_and_evaluate_prediction([known])
    for predictions in ([changed], [known, changed]):
        with pytest.raises(MismatchingTextGenerationDatumError, match=message):
            streaming.add_and_evaluate_prediction(predictions)
    assert len(streaming.columns()["Bias"]) == 1


def test_nothing_is_remembered_of_rejected_predictions() -> None:
    streaming = manager()
    streaming.add_and_evaluate_prediction([about("a")])
    with pytest.raises(MismatchingTextGenerationDatumError, match="datums of uid 'a' must have one text"):
        streaming.add_and_evaluate_prediction([about("b", text="B?"), about("a", text="other")])
    streaming.add_and_evaluate_prediction([about("b", text="C?")])
    assert streaming.columns()["datum_text"] == ["A?", "C?"]


def test_predictions_come_as_a_list() -> None:
    with pytest.raises(InputTypeError, match="predictions must be list or tuple but got Prediction"):
        manager().add_and_evaluate_prediction(about("a"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="predictions must be Prediction but got str"):
        manager().add_and_evaluate_prediction(["a"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="predictions must hold at least one Prediction but is empty"):
        manager().add_and_evaluate_prediction([])


def test_the_mock_client_has_the_values_of_valor_core() -> None:
    datum = Datum("q1", text="Why?")
    names = [metric for metric in MetricType.text_generation() if metric not in (MetricType.BLEU, MetricType.ROUGE)]
    prediction = Prediction(datum, [Annotation(text="So.", context_list=["c1", "c2", "c3", "c4"])])
    truth = GroundTruth(datum, [Annotation(text="So it is.")])
    for compat in (None, "valor-core"):
        params: dict[str, Any] = {"client": "mock", "data": {"model": "model"}}
        evaluation = text_generation.evaluate_text_generation([prediction], names, [truth], params, compat=compat)
        assert {metric["type"]: metric["value"] for metric in evaluation.metrics} == {
            "AnswerCorrectness": 0.5,
            "AnswerRelevance": 0.5,
            "Bias": 0.5,
            "ContextPrecision": 0.75,
            "ContextRecall": 1.0,
            "ContextRelevance": 0.75,
            "Faithfulness": 1 / 3,
            "Hallucination": 0.25,
            "SummaryCoherence": 4,
            "Toxicity": 0.0,
        }
    prediction = Prediction(datum, [Annotation(text="So.", context_list=["c1", "c2"])])
    [metric] = text_generation.evaluate_text_generation([prediction], ["Hallucination"], (), params).metrics
    assert (metric["status"], metric["value"]) == ("error", None)


def test_data_of_a_client() -> None:
    with pytest.warns(UserWarning, match=r"retries in llm_api_params\['data'\] is ignored"):
        judge = judge_of({"client": "openai", "data": {"model": "m", "retries": 3}})
    assert "retries" not in judge.identity["parameters"]
    with pytest.raises(InputError, match=r"llm_api_params\['data'\] must have keys among 'model', .* but has 'modle'"):
        judge_of({"client": "openai", "data": {"modle": "m"}})
    with pytest.raises(InputError, match=r"llm_api_params\['data'\] must be Mapping or NoneType but got str"):
        judge_of({"client": "openai", "data": "m"})
    judge = judge_of({"api_url": "http://127.0.0.1:1/v1", "data": {"model": "m", "top_k": 1}})
    assert judge.identity["parameters"]["top_k"] == 1
    judge = judge_of({"client": "openai", "data": {"top_logprobs": 3}})
    assert judge.identity["parameters"].items() >= {"logprobs": True, "top_logprobs": 3}.items()
    with pytest.raises(InputError, match=r"llm_api_params\['data'\] must have keys among .* but has 'extra_headers'"):
        judge_of({"client": "openai", "data": {"extra_headers": {}}})
    with pytest.raises(InputError, match="parameters of the request's body but has 'extra_body', of the client"):
        judge_of({"api_url": "http://127.0.0.1:1/v1", "data": {"model": "m", "extra_body": {}}})
