"""Gates on comparisons: every number of the table has a name, and a reason where it does not exist."""

from __future__ import annotations

import json
import math
import random

import pytest

from tests.checkout import ROOT
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.comparison import ComparisonResult
from valor_gpu.comparison.comparisons import Comparisons
from valor_gpu.errors import InputError
from valor_gpu.gates import decide
from valor_gpu.gates.subjects import subject_of
from valor_gpu.stats import compare
from valor_gpu.testing import assert_metrics

DATA = ROOT / "examples/data"


def model(kept: float) -> COCOeval:
    """An evaluation of a random part of the detections on 100 images."""
    draw = random.Random(34)
    truth = COCO(str(DATA / "instances_val2014_100.json"))
    found = json.loads((DATA / "instances_val2014_fakebbox100_results.json").read_text())
    evaluation = COCOeval(truth, truth.loadRes([each for each in found if draw.random() < kept]), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    return evaluation


@pytest.fixture(scope="module")
def result() -> ComparisonResult:
    found = compare(model(0.6), model(1), replicates=100, permutations=10)
    assert isinstance(found, ComparisonResult)
    return found


def test_names_are_those_of_the_table(result: ComparisonResult) -> None:
    numbers, _ = subject_of(result)
    rows = result.table().rows()
    assert len(rows) > 2
    for row in rows:
        name = row["name"] if row["class"] is None else f"{row['name']}/{row['class']}"
        p_value = row["p"] if row["class"] is None else row["p_adjusted"]
        expected = {name: row["second"], f"delta_{name}": row["difference"], f"p_{name}": p_value}
        expected |= {f"delta_{name}_low": row["low"], f"delta_{name}_high": row["high"]}
        for each, value in expected.items():
            assert numbers[each] == value or (math.isnan(numbers[each]) and math.isnan(value)), each
    assert numbers["counts/images"] == 100


def test_assertions(result: ComparisonResult) -> None:
    assert_metrics(
        result, "delta_map > 0.1 and p_map < 0.05", "delta_map_low > 0 and map < 0.6", "counts/images == 100"
    )
    assert_metrics(result, "delta_map_per_class/person > 0 and p_map_per_class/person < 0.05")
    with pytest.raises(AssertionError, match=r"^delta_map < 0 and p_map < 0\.05 does not hold: delta_map is 0"):
        assert_metrics(result, "delta_map < 0 and p_map < 0.05")
    with pytest.raises(InputError, match="gate must name a number of the run but 'gamma' is none"):
        assert_metrics(result, "gamma < 0")


def test_what_does_not_exist_has_its_reason(result: ComparisonResult) -> None:
    numbers, reason = subject_of(result)
    lacking = [name for name, value in numbers.items() if math.isnan(value)]
    assert lacking
    for found in decide(numbers, [f'"{name}" < 0.5' for name in lacking], reason):
        assert found.holds is None and found.found.startswith("there is no number, "), str(found)


def test_several_models() -> None:
    models = {"old": model(0.5), "new": model(0.7), "best": model(1)}
    found = compare(models, replicates=30, permutations=0)
    assert isinstance(found, Comparisons)
    numbers, reason = subject_of(found)
    for pair, result in found.items():
        inner, why = subject_of(result)
        for name, value in inner.items():
            if name.startswith("counts/"):
                continue
            whole = numbers[f"{pair}/{name}"]
            assert name.startswith("p_") or whole == value or (math.isnan(whole) and math.isnan(value))
            assert reason(f"{pair}/{name}") == why(name)
    assert reason("none vs none/map") == ""
