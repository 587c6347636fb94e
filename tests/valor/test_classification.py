"""Classification by the rules of this library: against scikit-learn, brute force and hand-made scenes."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as authority

from tests.fuzz import seeds
from tests.valor import cases
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.valor import (
    Annotation,
    Datum,
    Evaluation,
    GroundTruth,
    Label,
    Prediction,
    ValorClassificationManager,
    evaluate_classification,
    evaluate_classification_slices,
)
from valor_gpu.valor.classification import roc
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.filters import (
    Filter,
    annotation_metadata,
    datum_metadata,
    datum_uid,
    label_key,
    label_value,
    score,
)

Frame = dict[str, list[Any]]


def scene(seed: int, datums: int = 60, classes: int = 4, listed: int = 4, key: str = "k") -> tuple[Frame, Frame]:
    """Random truths and predictions of ``listed`` labels each, with many equal scores."""
    random = np.random.default_rng(seed)
    truth: Frame = {"datum_uid": [], "label_key": [], "label_value": []}
    found: Frame = {"datum_uid": [], "label_key": [], "label_value": [], "score": []}
    for datum in range(datums):
        truth["datum_uid"].append(f"d{datum}")
        truth["label_key"].append(key)
        truth["label_value"].append(f"c{random.integers(classes)}")
        parts = random.multinomial(10, np.ones(listed) / listed) / 10
        for label, part in zip(random.permutation(classes)[:listed], parts):
            for name, value in zip(found, (f"d{datum}", key, f"c{label}", float(part))):
                found[name].append(value)
    return truth, found


def dense(truth: Frame, found: Frame) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Label values, true labels [D] and scores [D, C] with 0 where a label is not listed."""
    uids = {uid: place for place, uid in enumerate(truth["datum_uid"])}
    values = sorted({*truth["label_value"], *found["label_value"]})
    scores = np.zeros((len(uids), len(values)))
    for uid, value, number in zip(found["datum_uid"], found["label_value"], found["score"]):
        scores[uids[uid], values.index(value)] = number
    return values, np.array([values.index(value) for value in truth["label_value"]]), scores


@pytest.mark.parametrize(("seed", "listed"), [(0, 4), (1, 4), (2, 2), (3, 1), (4, 3)])
def test_numbers_are_those_of_scikit_learn(seed: int, listed: int) -> None:
    truth, found = scene(seed, listed=listed)
    values, true, scores = dense(truth, found)
    first = {}
    for uid, value, number in zip(found["datum_uid"], found["label_value"], found["score"]):
        if uid not in first or number > first[uid][1]:
            first[uid] = (value, number)
    hard = [values.index(first[uid][0]) for uid in truth["datum_uid"]]
    metrics = [*MetricType.classification(), MetricType.ROCAUCPerLabel]
    shown = cases.shaped(evaluate_classification(truth, found, metrics_to_return=metrics))
    assert shown["Accuracy"]["k"] == pytest.approx(authority.accuracy_score(true, hard), abs=1e-12)
    expected = authority.precision_recall_fscore_support(true, hard, labels=range(len(values)), zero_division=0.0)
    for name, numbers in zip(("Precision", "Recall", "F1"), expected):
        ours = [shown[name][f"k:{value}"] for value in values]
        assert ours == pytest.approx(numbers.tolist(), abs=1e-12)
    areas = [authority.roc_auc_score(true == label, scores[:, label]) for label in range(len(values))]
    assert [shown["ROCAUCPerLabel"][f"k:{value}"] for value in values] == pytest.approx(areas, abs=1e-12)
    assert shown["ROCAUC"]["k"] == pytest.approx(np.mean(areas), abs=1e-12)
    matrix = authority.confusion_matrix(true, hard, labels=range(len(values)))
    cells = [[a, b, int(matrix[i, j])] for i, a in enumerate(values) for j, b in enumerate(values) if matrix[i, j]]
    assert shown["ConfusionMatrix"]["k"] == sorted(cells)


@pytest.mark.parametrize("seed", seeds(3))
def test_curves_are_those_of_brute_force(seed: int) -> None:
    truth, found = scene(seed, listed=2)
    values, true, scores = dense(truth, found)
    metrics = ["PrecisionRecallCurve", "DetailedPrecisionRecallCurve"]
    evaluation = evaluate_classification(truth, found, metrics_to_return=metrics, pr_curve_max_examples=2)
    curve, detailed = (metric["value"] for metric in evaluation.metrics)
    for label, value in enumerate(values):
        for percent in range(5, 100, 5):
            threshold = percent / 100
            passes, is_true = scores[:, label] >= threshold, true == label
            best = scores.max(axis=1) >= threshold
            kinds = {
                ("tp", "all"): is_true & passes,
                ("fp", "misclassifications"): ~is_true & passes,
                ("fn", "misclassifications"): is_true & ~passes & best,
                ("fn", "no_predictions"): is_true & ~best,
                ("tn", "all"): ~is_true & ~passes,
            }
            step = detailed[value][threshold]
            for (outcome, kind), mask in kinds.items():
                observed = step[outcome]["observations"][kind]
                assert observed["count"] == mask.sum()
                uids = [truth["datum_uid"][place] for place in np.flatnonzero(mask)[:2]]
                assert observed["examples"] == [(uid,) for uid in uids]
            numbers = curve[value][threshold]
            totals = {name: numbers[name] for name in ("tp", "fp", "fn", "tn")}
            assert totals == {name: step[name]["total"] for name in totals}
            tp, fp, fn, tn = totals.values()
            assert numbers["precision"] == (tp / (tp + fp) if tp + fp else -1)
            assert numbers["recall"] == (tp / (tp + fn) if tp + fn else -1)
            assert numbers["accuracy"] == (tp + tn) / len(true)
            assert numbers["f1_score"] == pytest.approx(2 * tp / (2 * tp + fp + fn) if tp else -1, abs=1e-12)


def test_areas_do_not_depend_on_how_many_labels_are_dense_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, found = scene(5, datums=40, classes=9, listed=5)
    metrics = [MetricType.ROCAUCPerLabel]
    whole = evaluate_classification(truth, found, metrics_to_return=metrics).metrics
    monkeypatch.setattr(roc, "_CHUNK_BYTES", 8 * 40 * 2)
    assert evaluate_classification(truth, found, metrics_to_return=metrics).metrics == whole


def label(value: str, number: float | None = None, key: str = "k") -> Label:
    return Label(key, value, number)


def truths(**values: str | list[str]) -> list[GroundTruth]:
    """One datum a word; a list: several labels."""
    listed = {uid: [value] if isinstance(value, str) else value for uid, value in values.items()}
    return [GroundTruth(Datum(uid), [Annotation(labels=[label(v) for v in vs])]) for uid, vs in listed.items()]


def predictions(**scores: dict[str, float]) -> list[Prediction]:
    return [
        Prediction(Datum(uid), [Annotation(labels=[label(value, number) for value, number in listed.items()])])
        for uid, listed in scores.items()
    ]


def values_of(evaluation: Evaluation) -> dict[str, Any]:
    return cases.shaped(evaluation)


def test_a_datum_without_prediction_is_wrong_and_left_out_by_the_server() -> None:
    data = truths(a="x", b="y"), predictions(a={"x": 1.0})
    ours = evaluate_classification(*data)
    assert values_of(ours)["Accuracy"] == {"k": 0.5}
    assert values_of(ours)["Recall"] == {"k:x": 1.0, "k:y": 0.0}
    assert ours.missing_pred_labels == [("k", "y")]
    assert ours.ignored_pred_labels == []
    server = evaluate_classification(*data, compat="valor-api")
    assert values_of(server)["Accuracy"] == {"k": 1.0}
    assert values_of(server)["Recall"] == {"k:x": 1.0, "k:y": -1.0}
    assert server.missing_pred_labels == []


def test_a_datum_without_prediction_in_the_curves() -> None:
    data = truths(a="x", b="y"), predictions(a={"x": 1.0})
    metrics = ["DetailedPrecisionRecallCurve"]
    for compat, missed in ((None, 1), ("valor-core", 1), ("valor-api", 0)):
        curve = values_of(evaluate_classification(*data, compat=compat, metrics_to_return=metrics))[metrics[0]]["k"][
            "y"
        ]
        assert curve["fn/no_predictions"] == [missed] * 19
        assert curve["fn/misclassifications"] == [0] * 19
        assert curve["tn"] == [1] * 19


def test_what_does_not_exist_is_none_with_a_reason() -> None:
    metrics = ["ROCAUC", "ROCAUCPerLabel"]
    evaluation = evaluate_classification(truths(a="x"), [Prediction(Datum("a"), [])], metrics_to_return=metrics)
    assert [metric["value"] for metric in evaluation.metrics] == [None, None]
    assert evaluation.meta is not None
    assert evaluation.meta["reasons"] == {
        "ROCAUC/k": "no prediction of this key",
        "ROCAUCPerLabel/k/x": "no prediction of this key",
    }
    none, metrics = [GroundTruth(Datum("a"), [])], ["Accuracy", "ROCAUC"]
    evaluation = evaluate_classification(none, predictions(a={"x": 1.0}), metrics_to_return=metrics)
    assert [metric["value"] for metric in evaluation.metrics] == [None, None]
    assert evaluation.meta is not None
    assert evaluation.meta["reasons"] == {
        "Accuracy/k": "no ground truth of this key",
        "ROCAUC/k": "positives or negatives are missing",
    }


def test_several_truths_of_a_datum() -> None:
    evaluation = evaluate_classification(
        truths(a=["x", "y", "y"], b="z"),
        predictions(a={"x": 0.6, "y": 0.4}, b={"z": 1.0}),
        metrics_to_return=["Accuracy", "Recall", "PrecisionRecallCurve"],
    )
    shown = values_of(evaluation)
    assert shown["Accuracy"]["k"] == pytest.approx(2 / 3)
    assert shown["Recall"] == {"k:x": 1.0, "k:y": 0.0, "k:z": 1.0}
    for value in ("x", "y"):
        curve = shown["PrecisionRecallCurve"]["k"][value]
        assert (curve["tp"][0], curve["fp"][0], curve["fn"][-1], curve["tn"][0]) == (1, 0, 1, 1)


def test_a_label_map_keeps_the_largest_score_and_may_change_the_key() -> None:
    renamed = {label("tabby"): label("cat", key="animal"), label("tiger"): label("cat", key="animal")}
    data = (
        truths(a="tabby", b="dog"),
        predictions(a={"tabby": 0.3, "dog": 0.2, "tiger": 0.5}, b={"tabby": 0.1, "dog": 0.5, "tiger": 0.4}),
    )
    with pytest.raises(InputError, match=r"datum 'a' has ground truths of \['animal'\] and predictions of"):
        evaluate_classification(*data, label_map=renamed)
    renamed[label("dog")] = label("dog", key="animal")
    metrics = [MetricType.PrecisionRecallCurve, MetricType.Accuracy]
    shown = values_of(evaluate_classification(*data, label_map=renamed, metrics_to_return=metrics))
    assert shown["Accuracy"] == {"animal": 1.0}
    curve = shown["PrecisionRecallCurve"]["animal"]["cat"]
    assert sum(curve["tp"]) == 10  # 0.5, not 0.8 and not 0.3
    assert sum(curve["fp"]) == 8


def test_areas_after_a_label_map_take_the_largest_score() -> None:
    renamed = {label("tabby"): label("cat"), label("tiger"): label("cat")}
    data = (
        truths(a="tabby", b="dog"),
        predictions(a={"tabby": 0.5, "tiger": 0.3, "dog": 0.2}, b={"tabby": 0.4, "dog": 0.6}),
    )
    shown = evaluate_classification(*data, label_map=renamed, metrics_to_return=["ROCAUCPerLabel"])
    assert values_of(shown)["ROCAUCPerLabel"] == {"k:cat": 1.0, "k:dog": 1.0}


def test_evaluation_and_its_dict() -> None:
    evaluation = evaluate_classification(
        truths(a="x"), predictions(a={"x": 1.0}), label_map={label("u"): label("x")}, metrics_to_return=["F1"]
    )
    shown = evaluation.to_dict()
    assert shown["meta"].pop("duration") >= 0
    assert shown == {
        "parameters": {
            "label_map": [[["k", "u"], ["k", "x"]]],
            "metrics_to_return": ["F1"],
            "iou_thresholds_to_compute": None,
            "iou_thresholds_to_return": None,
            "convert_annotations_to_type": None,
            "recall_score_threshold": 0.0,
            "pr_curve_iou_threshold": 0.5,
            "pr_curve_max_examples": 1,
            "llm_api_params": None,
            "metric_params": None,
            "compat": None,
            "score_thresholds": None,
            "matching": "valor",
            "duplicates": False,
            "limit": None,
            "offset": 0,
        },
        "metrics": [{"label": {"key": "k", "value": "x"}, "value": 1.0, "type": "F1"}],
        "confusion_matrices": [
            {"label_key": "k", "entries": [{"prediction": "x", "groundtruth": "x", "count": 1}]},
        ],
        "ignored_pred_labels": [],
        "missing_pred_labels": [],
        "meta": {"labels": 1, "datums": 1, "annotations": 2, "reasons": {}},
    }
    assert '"type": "F1"' in str(evaluation)


def test_default_metrics_are_those_of_valor() -> None:
    evaluation = evaluate_classification(truths(a="x"), predictions(a={"x": 1.0}))
    assert {metric["type"] for metric in evaluation.metrics} == {"Accuracy", "Precision", "Recall", "F1", "ROCAUC"}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"metrics_to_return": ["AP"]}, r"metrics_to_return must be among .* but holds 'AP'"),
        ({"metrics_to_return": [MetricType.mROCAUC]}, "but holds 'mROCAUC'"),
        ({"compat": "valor"}, r"compat must be one of None, 'valor-api'.* but got 'valor'"),
        ({"pr_curve_max_examples": -1}, "pr_curve_max_examples must be at least 0 but got -1"),
        ({"label_map": [["a", "b"]]}, "label_map must be a dict of Label to Label"),
        ({"score_thresholds": [0.5]}, r"score_thresholds needs compat 'valor-lite' but got \[0\.5\] with compat None"),
        ({"hardmax": False, "compat": "valor-core"}, "hardmax needs compat 'valor-lite' but got False with .*core"),
        ({"filters": 3}, "filters must be Filter or Mapping or NoneType but got int"),
    ],
)
def test_wrong_choices(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_classification(truths(a="x"), predictions(a={"x": 1.0}), **choices)


@pytest.mark.parametrize(
    ("compat", "fine", "too_much"), [(None, 5e-6, 2e-5), ("valor-api", 5e-6, 2e-5), ("valor-core", 5e-7, 2e-6)]
)
def test_scores_sum_to_one(compat: str | None, fine: float, too_much: float) -> None:
    evaluate_classification(truths(a="x"), predictions(a={"x": 0.5, "y": 0.5 + fine}), compat=compat)
    with pytest.raises(InputError, match=r"those of key 'k' of datum 'a' sum to 1\.0000"):
        evaluate_classification(truths(a="x"), predictions(a={"x": 0.5, "y": 0.5 + too_much}), compat=compat)


@pytest.mark.parametrize("wrong", [1.5, -0.5])
def test_scores_lie_between_0_and_1(wrong: float) -> None:
    data = truths(a="x"), predictions(a={"x": wrong, "y": 1 - wrong})
    with pytest.raises(InputError, match=rf"scores in \[0, 1\] but got {wrong} for k: x of datum 'a'"):
        evaluate_classification(*data)
    for compat in ("valor-api", "valor-core", "valor-lite"):
        evaluate_classification(*data, compat=compat)
    evaluate_classification(truths(a="x"), predictions(a={"x": 1 + 5e-6, "y": -5e-6}))  # rounding is none


@pytest.mark.parametrize("compat", [None, "valor-api", "valor-core", "valor-lite"])
def test_a_label_has_one_score(compat: str | None) -> None:
    labels = [label("x", 0.25), label("y", 0.25), label("x", 0.5)]
    message = r"one score of each label of a datum but got 0\.25 and 0\.5 for k: x of datum 'a'"
    for parts in ([labels], [labels[:2], labels[2:]]):
        found = Prediction(Datum("a"), [Annotation(labels=part) for part in parts])
        with pytest.raises(InputError, match=message):
            evaluate_classification(truths(a="x"), [found], compat=compat)
    two_keys = Prediction(Datum("a"), [Annotation(labels=[label("x", 1.0), label("x", 1.0, key="l")])])
    truth = GroundTruth(Datum("a"), [Annotation(labels=[label("x"), label("x", key="l")])])
    assert values_of(evaluate_classification([truth], [two_keys], compat=compat))["Accuracy"]


def test_examples_follow_datums_that_are_taken() -> None:
    wins = {"x": {"x": 1.0, "y": 0.0}, "y": {"x": 0.0, "y": 1.0}}
    data = {"a": "x", "b": "x", "c": "y", "d": "y"}
    evaluation = evaluate_classification(
        truths(**data),
        predictions(**{uid: wins[value] for uid, value in data.items()}),
        metrics_to_return=["DetailedPrecisionRecallCurve"],
        pr_curve_max_examples=2,
    )
    observed = evaluation.metrics[0]["value"]["x"][0.5]["tn"]["observations"]["all"]
    assert observed == {"count": 2, "examples": [("c",), ("d",)]}


def test_the_smallest_score_that_lite_counts() -> None:
    for small, expected in ((5e-4, 1), (2e-8, 1), (5e-9, 0), (0.0, 0)):
        evaluation = evaluate_classification(
            truths(a="x"),
            predictions(a={"x": small, "y": 1 - small}),
            compat="valor-lite",
            metrics_to_return=["Counts"],
            hardmax=False,
        )
        counts = {metric["parameters"]["label"]: metric["value"] for metric in evaluation.metrics}
        assert counts["x"]["tp"] == expected


def test_wrong_data() -> None:
    with pytest.raises(InputError, match="groundtruths must hold GroundTruth objects but got Prediction"):
        evaluate_classification(predictions(a={"x": 1.0}), [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="predictions must be a list of Prediction objects or a frame but got int"):
        evaluate_classification(truths(a="x"), 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must have datums with a uid but got None"):
        evaluate_classification([GroundTruth(Datum(), [])], [])
    with pytest.raises(InputError, match="must have finite scores but got nan for k: x of datum 'a'"):
        evaluate_classification(truths(a="x"), predictions(a={"x": math.nan}))


@pytest.mark.parametrize("compat", [None, "valor-api", "valor-core", "valor-lite"])
def test_no_data_is_an_error(compat: str | None) -> None:
    true, found = truths(a="x"), predictions(a={"x": 1.0})
    with pytest.raises(InputError, match=r"predictions must hold at least one Prediction .* Prediction\(datum, \[\]\)"):
        evaluate_classification(true, [], compat=compat)
    with pytest.raises(InputError, match="groundtruths must hold at least one GroundTruth but is empty"):
        evaluate_classification([], found, compat=compat)
    manager = ValorClassificationManager(compat=compat)
    with pytest.raises(InputError, match="predictions must hold at least one Prediction but is empty"):
        manager.add_data(true, [])
    manager.add_data(true, found)  # nothing was kept of the call before
    nothing = [GroundTruth(Datum("a"), [])], [Prediction(Datum("a"), [])]
    with pytest.raises(InputError, match="must hold a label of a classification but hold none"):
        evaluate_classification(*nothing, compat=compat)
    empty: Frame = {name: [] for name in ("datum_uid", "label_key", "label_value", "score")}
    with pytest.raises(InputError, match="must hold a label of a classification but hold none"):
        evaluate_classification(empty, empty, compat=compat)


def test_a_filter_that_keeps_nothing_says_so() -> None:
    evaluation = evaluate_classification(
        truths(a="x"), predictions(a={"x": 1.0}), filters=Filter(datums=datum_uid == "b")
    )
    assert evaluation.metrics == []
    assert evaluation.meta is not None
    assert evaluation.meta["reasons"] == {"filters": "the filter keeps no label"}


def test_slices_are_evaluations_of_the_filtered_data() -> None:
    parts = [scene(seed, datums=30) for seed in (0, 1)]
    for place, frames in enumerate(parts):
        for frame in frames:
            frame["datum_uid"] = [f"{place}-{uid}" for uid in frame["datum_uid"]]
            frame["datum_metadata.part"] = [place] * len(frame["datum_uid"])
    truth, found = ({name: parts[0][s][name] + parts[1][s][name] for name in parts[0][s]} for s in (0, 1))
    slices = {str(place): Filter(datum_metadata["part"] == place) for place in (0, 1)}
    shown = evaluate_classification_slices(truth, found, slices, metrics_to_return=cases.ALL)
    for place in (0, 1):
        alone = evaluate_classification(*parts[place], metrics_to_return=cases.ALL)
        assert cases.shaped(shown[str(place)]) == cases.shaped(alone)
        filtered = evaluate_classification(truth, found, filters=slices[str(place)], metrics_to_return=cases.ALL)
        assert filtered.metrics == shown[str(place)].metrics
        assert filtered.meta is not None
        assert filtered.meta["datums"] == 30
    with pytest.raises(InputError, match=r"evaluate_classification_slices takes label_map.* but got 'filters'"):
        evaluate_classification_slices(truth, found, slices, filters=None)


def test_filters_of_one_side_and_of_annotations() -> None:
    truth = [
        GroundTruth(Datum("a"), [Annotation(labels=[label("x"), label("u", key="l")], metadata={"sure": True})]),
        GroundTruth(Datum("b"), [Annotation(labels=[label("y")], metadata={"sure": False})]),
    ]
    found = [
        Prediction(Datum("a"), [Annotation(labels=[label("x", 0.6), label("y", 0.4), label("u", 1.0, key="l")])]),
        *predictions(b={"x": 0.7, "y": 0.3}),
    ]

    def accuracy(choice: Filter) -> dict[str, Any]:
        return values_of(evaluate_classification(truth, found, filters=choice, metrics_to_return=["Accuracy"]))[
            "Accuracy"
        ]

    assert accuracy(Filter()) == {"k": 0.5, "l": 1.0}
    assert accuracy(Filter(groundtruths=annotation_metadata["sure"] == True)) == {"k": 1.0, "l": 1.0}  # noqa: E712
    keys = label_key == "l"
    assert accuracy(Filter(groundtruths=keys, predictions=keys)) == {"l": 1.0}
    assert accuracy(Filter(predictions=(score < 0.5) | (label_key == "l"))) == {"k": 0.5, "l": 1.0}
    assert accuracy(Filter(predictions=label_value == "nothing")) == {"k": 0.0, "l": 0.0}


def test_manager_equals_one_evaluation() -> None:
    truth, found = scene(7)
    manager = ValorClassificationManager(metrics_to_return=cases.ALL)
    for start in range(0, 60, 25):
        uids = {f"d{place}" for place in range(start, start + 25)}
        manager.add_data(
            *({n: [v for v, u in zip(f[n], f["datum_uid"]) if u in uids] for n in f} for f in (truth, found))
        )
    whole = evaluate_classification(truth, found, metrics_to_return=cases.ALL)
    evaluation = manager.evaluate()
    assert cases.shaped(evaluation) == cases.shaped(whole)
    assert evaluation.confusion_matrices is not None
    assert manager.evaluate().metrics == evaluation.metrics
    assert evaluation.meta is not None and whole.meta is not None
    assert evaluation.meta["annotations"] == whole.meta["annotations"] == 60 + 240
    assert manager.unique_groundtruth_labels == {"k": {"c0", "c1", "c2", "c3"}}
    assert manager.unique_prediction_labels == {("k", f"c{place}") for place in range(4)}
    assert len(manager.unique_annotation_ids) == 300
    assert len(manager.datum_uids) == 60


def test_manager_refuses() -> None:
    manager = ValorClassificationManager()
    with pytest.raises(InputError, match="add_data was not called"):
        manager.evaluate()
    with pytest.raises(AttributeError, match="label_map is fixed when the manager is made"):
        manager.label_map = {}
    manager.add_data(truths(a="x"), predictions(a={"x": 1.0}))
    for empty in (predictions(a={}), [Prediction(Datum("a"), [])]):
        with pytest.raises(InputError, match="once with each datum but got 'a' again"):
            manager.add_data(truths(c="x"), empty)
    with pytest.raises(InputError, match="sum to 1 for each"):
        manager.add_data(truths(b="x"), predictions(b={"x": 0.5}))
    assert manager.datum_uids == {"a"}
    meta = manager.evaluate().meta
    assert meta is not None
    assert meta["datums"] == 1
    with pytest.raises(InputError, match="but holds 'AP'"):
        ValorClassificationManager(metrics_to_return=[MetricType.AP])


def test_manager_with_a_label_map_and_filters() -> None:
    manager = ValorClassificationManager(label_map={label("u"): label("x")}, compat="valor-core")
    manager.add_data(truths(a="u"), predictions(a={"x": 1.0}))
    manager.add_data(truths(b="y"), predictions(b={"x": 1.0}))
    assert values_of(manager.evaluate())["Accuracy"] == {"k": 0.5}
    tree = {"datums": {"op": "eq", "lhs": {"name": "datum.uid"}, "rhs": {"value": "a"}}}
    assert values_of(manager.evaluate(tree))["Accuracy"] == {"k": 1.0}


@pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))
@pytest.mark.parametrize("compat", [None, "valor-core", "valor-lite"])
def test_no_torch_is_loaded(compat: str | None) -> None:
    program = (
        "import sys\n"
        "from valor_gpu.valor import Annotation, Datum, GroundTruth, Label, Prediction, enums\n"
        "from valor_gpu.valor import evaluate_classification\n"
        "truth = [GroundTruth(Datum(uid), [Annotation(labels=[Label('k', uid)])]) for uid in 'ab']\n"
        "labels = [Label('k', 'a', 0.75), Label('k', 'b', 0.25)]\n"
        "found = [Prediction(Datum(uid), [Annotation(labels=labels)]) for uid in 'ab']\n"
        f"wanted = {{}} if {compat!r} else {{'metrics_to_return': list(enums.MetricType.classification())}}\n"
        f"evaluation = evaluate_classification(truth, found, compat={compat!r}, **wanted)\n"
        "print(len(evaluation.metrics) > 0, [name for name in ('torch', 'torchmetrics') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True []\n"


def test_areas_without_the_library_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(4)
    scores, target = draw.integers(0, 9, (50, 3)) / 8.0, draw.integers(0, 2, (50, 3))
    found = roc._areas(scores, target)
    monkeypatch.setattr(roc, "native", SimpleNamespace(available=lambda name: False))
    assert roc._areas(scores, target).tolist() == found.tolist() and found.min() > 0
