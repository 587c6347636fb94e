"""The presets count rows as joins of ground truths and predictions do: random scenes against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.valor import cases, joins
from valor_gpu.valor import (
    Annotation,
    Datum,
    GroundTruth,
    Label,
    Prediction,
    ValorClassificationManager,
    evaluate_classification,
)

Scene = tuple[list[GroundTruth], list[Prediction], dict[Label, Label]]


def scene(seed: int, *, sides: bool = True) -> Scene:
    """Datums with several ground truths of a key, ties, and, with ``sides``, label maps and missing sides."""
    random = np.random.default_rng(seed)
    keys = ["k", "l"][: 1 + int(sides and random.random() < 0.4)]
    values = [f"v{number}" for number in range(int(random.choice([2, 3, 5, 12])))]
    truths, found = [], []
    for number in range(int(random.integers(1, 9))):
        uid, missing = f"d{number}", random.random() if sides else 1.0
        true: list[Label] = []
        listed: list[Label] = []
        for key in random.permutation(keys)[: int(random.integers(1, len(keys) + 1))].tolist():
            if missing >= 0.15:
                true += [Label(key, str(random.choice(values))) for _ in range(int(random.choice([1, 1, 2, 3])))]
            if not 0.15 <= missing < 0.3:
                scores = random.multinomial(8, np.ones(len(values)) / len(values)) / 8
                listed += [Label(key, value, float(score)) for value, score in zip(random.permutation(values), scores)]
        truths.append(GroundTruth(Datum(uid), [Annotation(labels=true)]))
        found.append(Prediction(Datum(uid), [Annotation(labels=listed)]))
    label_map = {}
    if sides and random.random() < 0.4:
        label_map = {Label(key, values[1]): Label(key, values[0]) for key in keys}
    return truths, found, label_map


def evaluated(data: Scene, compat: str) -> Any:
    truths, found, label_map = data
    return cases.shaped(evaluate_classification(truths, found, label_map, metrics_to_return=cases.ALL, compat=compat))


@pytest.mark.parametrize("part", range(6))
def test_valor_core(part: int) -> None:
    for seed in range(part * 25, part * 25 + 25):
        truths, found, label_map = scene(seed)
        if not any(truth.annotations[0].labels for truth in truths):
            continue
        shown = evaluated((truths, found, label_map), "valor-core")
        detailed = shown.pop("DetailedPrecisionRecallCurve")
        expected = joins.core(truths, found, label_map)
        for key, labels in expected["PrecisionRecallCurve"].items():
            for value, columns in labels.items():
                assert detailed[key][value]["fn/misclassifications"] == columns.pop("fn/misclassifications")
                assert detailed[key][value]["tn"] == columns["tn"]
        assert cases.differences(shown, expected) == [], seed


@pytest.mark.parametrize("part", range(2))
def test_the_server_with_several_ground_truths(part: int) -> None:
    for seed in range(part * 20, part * 20 + 20):
        truths, found, label_map = scene(seed, sides=False)
        true, listed = joins.rows_of(truths, label_map), joins.rows_of(found, label_map)
        shown = evaluated((truths, found, label_map), "valor-api")
        for value, columns in shown["PrecisionRecallCurve"]["k"].items():
            for step, threshold in enumerate(joins.THRESHOLDS):
                tp, fp, fn = joins.server_curve(true, listed, value, threshold)
                counts = [columns[name][step] for name in ("tp", "fp", "fn", "tn")]
                assert counts == [len(tp), len(fp), len(fn), len(truths) - len(tp | fp | fn)]
        pairs = sorted({(row.datum, row.value) for row in true})
        areas = []
        for value in sorted({value for _, value in pairs}):
            positives = sum(other == value for _, other in pairs)
            negatives = len(pairs) - positives
            scores = [(row.score, other == value) for row in listed for datum, other in pairs
                      if row.datum == datum and row.value == value]  # fmt: skip
            areas.append(joins.area(scores, positives, negatives) if negatives else 1.0)
        assert shown["ROCAUC"]["k"] == pytest.approx(sum(areas) / len(areas), abs=1e-12)


def test_a_scene_of_each_rule() -> None:
    def one(true: list[str], scores: dict[str, float], uid: str = "a") -> Scene:
        labels = [Label("k", value, score) for value, score in scores.items()]
        truth = GroundTruth(Datum(uid), [Annotation(labels=[Label("k", value) for value in true])])
        return [truth], [Prediction(Datum(uid), [Annotation(labels=labels)])], {}

    def curve(data: Scene, compat: str | None, value: str) -> list[Any]:
        shown = cases.shaped(evaluate_classification(*data, metrics_to_return=cases.ALL, compat=compat))
        columns = shown["PrecisionRecallCurve"]["k"][value]
        return [columns[name][0] for name in ("tp", "fp", "fn", "tn")]

    truths, found, _ = one(["x"], {"x": 0.5, "y": 0.5})
    mapped = (truths, found, {Label("k", "y"): Label("k", "x")})
    assert [curve(mapped, compat, "x") for compat in (None, "valor-core")] == [[1, 0, 0, 0], [2, 0, 0, -1]]
    several = one(["x", "y"], {"x": 1.0})
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, -1]]
    assert [curve(several, compat, "x") for compat in (None, "valor-api", "valor-core")] == expected
    never = one(["x"], {"y": 1.0})
    assert [curve(never, compat, "x") for compat in (None, "valor-core")] == [[0, 0, 1, 0], [0, 0, 0, 1]]
    for size, expected_of_core in ((10, 1.0), (11, 0.0), (12, 0.0)):  # valor-core sorts places as texts: 10 before 2
        first = size - 4
        tied = one([f"v{first}"], {f"v{number}": 0.0 if number < first else 0.25 for number in range(size)})
        accuracy = [evaluated(tied, compat)["Accuracy"]["k"] for compat in ("valor-api", "valor-core")]
        assert accuracy == [1.0, expected_of_core]


def test_a_manager_counts_rows_too() -> None:
    truths, found, label_map = scene(7)
    manager = ValorClassificationManager(label_map=label_map, metrics_to_return=cases.ALL, compat="valor-core")
    for truth, prediction in zip(truths, found):
        manager.add_data([truth], [prediction])
    assert cases.shaped(manager.evaluate()) == evaluated((truths, found, label_map), "valor-core")
