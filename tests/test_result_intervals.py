"""How a result with intervals reads, and that it comes back from files, pickles and tables."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.result import Result, Signature
from valor_gpu.stats import Bootstrap, Interval, Intervals
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled

NAN, INF = float("nan"), float("inf")
CHOICES: dict[str, Any] = {
    "replicates": 1000,
    "confidence": 0.95,
    "seed": 0,
    "target": "expected",
    "method": "normal",
    "unit": "images",
    "units": 5000,
}
FEW = "too few images: 3 hold a truth, it takes 20"
INTERVALS = Intervals(
    {
        "map": Interval(0.1 + 0.2, 0.4728, 0.01 / 3, 0.00312, 2, lost_classes=1200),
        "map_small": Interval(reason="the number does not exist"),
        "worst": Interval(reason="a maximum has no interval"),
        "odds": Interval(-INF, 1234.5, INF, -0.5),
        "per_class/cat": Interval(0.1, 0.9, 0.2, 0.0),
        "per_class/dog": Interval(0.5, 0.6, 0.02, 0.0),
        "per_class/eel": Interval(reason=FEW),
        "per_class/fox": Interval(0.5, 0.7, 0.02, 0.0),
        "per_class/gnu": Interval(0.5, 0.8, 0.02, 0.0),
        "by_class/1": Interval(0.2, 0.3, 0.02, 0.0),
    },
    CHOICES,
)


def example(intervals: Intervals | None = INTERVALS) -> Result:
    values = {
        "map": 0.462,
        "map_small": NAN,
        "worst": 12.5,
        "odds": 2.0,
        "per_class": {"cat": 0.5, "dog": 0.55, "eel": 0.25, "fox": 0.6, "gnu": 0.7},
        "by_class": np.array([0.75, 0.25]),
        "detections": {"cat": 3},
    }
    signature = Signature({"metric": "mAP", "version": "1"})
    return Result(values, signature, {"images": 5000}, {"map_small": "no small ground truth"}, intervals=intervals)


def test_text_has_bounds_beside_numbers_the_widest_classes_and_the_choices() -> None:
    assert str(example()).splitlines() == [
        "map           0.4620  (0.3000 to 0.4728)",
        "map_small        nan  no small ground truth",
        "worst        12.5000  no interval: a maximum has no interval",
        "odds          2.0000  (-inf to 1234.5)",
        "per_class   5 values  widest cat (0.1000 to 0.9000), gnu (0.5000 to 0.8000), fox (0.5000 to 0.7000);"
        " 1 without: too few images",
        "by_class    [0.75 0.25]  widest 1 (0.2000 to 0.3000)",
        "detections  1 values",
        "images 5000",
        "metric:mAP|version:1",
        "bias of map by the bootstrap +0.0031; 1,200 replicates lack a class, which their mean leaves out;"
        " 2 replicates without it are left out",
        "95% intervals of E[map] at 5,000 images: 1,000 replicates of images, method normal, seed 0",
    ]
    assert repr(example()).startswith("Result(mAP: map=0.4620 (0.3000 to 0.4728), map_small=nan, worst=12.5000, odds=")


@pytest.mark.parametrize(
    ("choices", "line"),
    [
        ({"confidence": 0.9, "target": "population"}, "90% intervals of the population's map from 5,000 images: 1,000"),
        ({"clusters": 1200}, ": 1,000 replicates of 1,200 clusters of images, method normal, seed 0"),
        ({"wilson": ["map"]}, "of images, method normal, Wilson of map, seed 0"),
        ({"wilson": list("abcd")}, "of images, method normal, Wilson of 4 proportions, seed 0"),
    ],
)
def test_the_last_line_has_the_choices(choices: dict[str, Any], line: str) -> None:
    found = Intervals({"map": Interval(0.4, 0.5, 0.02, -0.001)}, {**CHOICES, **choices})
    lines = str(example(found)).splitlines()
    assert line in lines[-1] and lines[-2] == "bias of map by the bootstrap -0.0010"


def test_a_result_whose_numbers_have_no_interval_says_so() -> None:
    refused = Interval(reason=FEW)
    lines = str(example(Intervals({"map": refused, "per_class/cat": refused}, CHOICES))).splitlines()
    assert lines[0] == f"map           0.4620  no interval: {FEW}"
    assert lines[4] == "per_class   5 values  no intervals: too few images"
    assert lines[-2] == "metric:mAP|version:1" and lines[-1] == "no number has an interval at 5,000 images"


def test_classes_without_an_interval_have_the_reason_of_most_of_them() -> None:
    reasons = [FEW, "too few images: 2 hold a truth, it takes 20", "perfect separation: nothing varies"]
    found = Intervals({f"per_class/{n}": Interval(reason=reason) for n, reason in zip("abc", reasons)}, CHOICES)
    assert str(example(found)).splitlines()[4] == "per_class   5 values  no intervals: mostly too few images"


def test_without_intervals_nothing_changes() -> None:
    bare = example(None)
    assert set(bare.to_dict()) == {"values", "signature", "counts", "reasons", "provenance"}
    assert str(bare).splitlines()[-1] == "metric:mAP|version:1" and "interval" not in str(bare)
    assert "interval" not in bare._repr_html_() and list(bare.scalars()) == [
        *("map", "map_small", "worst", "odds"), *(f"per_class/{name}" for name in ("cat", "dog", "eel", "fox", "gnu")),
        "detections/cat",
    ]  # fmt: skip


def test_json_has_intervals_and_their_choices() -> None:
    found = json.loads(example().to_json())
    assert found["interval_choices"] == CHOICES
    assert found["intervals"]["map"] == {
        "low": 0.1 + 0.2, "high": 0.4728, "standard_error": 0.01 / 3, "bias": 0.00312, "lost": 2, "reason": "",
        "lost_classes": 1200,
    }  # fmt: skip
    assert found["intervals"]["per_class/eel"]["low"] is None and found["intervals"]["per_class/eel"]["reason"] == FEW
    assert found["intervals"]["odds"]["low"] is None and found["intervals"]["odds"]["high"] == 1234.5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))], ids=["deepcopy", "pickle"])
def test_results_copy_with_their_intervals(copied: Any) -> None:
    after = copied(example())
    assert dict(after.intervals) == dict(INTERVALS) and after.intervals.choices == CHOICES


def test_a_saved_result_comes_back_with_the_bits_of_its_intervals(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    example().save(path)
    after = Result.load(path)
    assert dict(after.intervals) == dict(INTERVALS) and after.intervals.choices == CHOICES
    assert after.intervals["odds"].low == -INF and after.intervals["odds"].standard_error == INF
    assert str(after) == str(example())
    with pytest.raises(InputError, match="intervals need the state that the result came from"):
        after.with_intervals(10)
    example(None).save(path)
    assert "interval" not in path.read_text() and not Result.load(path).intervals


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"intervals": []}, "intervals that are no object"),
        ({"intervals": {"map": 3}}, "an interval that is no object"),
        ({"intervals": {"map": {"low": "x"}}}, "an interval whose low is 'x'"),
        ({"intervals": {"map": {"lost": True}}}, "an interval whose lost is True"),
        ({"intervals": {"map": {"reason": None}}}, "an interval whose reason is None"),
    ],
)
def test_damaged_intervals_are_named(tmp_path: Path, part: dict[str, Any], message: str) -> None:
    path = tmp_path / "result.json"
    example().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | part))
    with pytest.raises(InputError, match=message):
        Result.load(path)


def test_an_interval_of_an_older_version_has_defaults(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    example().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intervals": {"map": {"low": 0, "high": 1.0}}}))
    found = Result.load(path).intervals["map"]
    assert found == Interval(0.0, 1.0) and type(found.low) is float


def test_scalars_have_the_ends_of_numbers_outside_of_mappings() -> None:
    found = example().scalars("val/")
    assert {name: found[name] for name in found if name.endswith(("_low", "_high"))} == {
        "val/map_low": 0.1 + 0.2, "val/map_high": 0.4728, "val/odds_low": -INF, "val/odds_high": 1234.5,
    }  # fmt: skip
    assert {name: value for name, value in found.items() if name in example(None).scalars("val/")}.keys() == (
        example(None).scalars("val/").keys()
    )
    named = Result({"a": 1.0, "a_low": 0.5}, Signature({}), intervals=Intervals({"a": Interval(0.1, 2.0)}))
    assert named.scalars() == {"a": 1.0, "a_low": 0.5, "a_high": 2.0}, "the name of a number stays that of the number"


def test_tables_have_columns_of_intervals_only_with_intervals() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = example().to_pandas(arrays=True)
    assert list(frame.columns) == ["name", "key", "value", "reason", "low", "high", "standard_error"]
    assert all(frame[name].dtype == "float64" for name in ("value", "low", "high", "standard_error"))
    frame = frame.astype(object).where(frame.notna(), None)
    rows = {(row["name"], row["key"]): row for row in frame.to_dict("records")}
    assert rows["map", None]["low"] == 0.1 + 0.2 and rows["map", None]["standard_error"] == 0.01 / 3
    assert rows["per_class", "eel"]["low"] is None and rows["per_class", "eel"]["reason"] == f"no interval: {FEW}"
    assert rows["map_small", None]["reason"] == "no small ground truth" and rows["map", None]["reason"] is None
    assert rows["by_class", "1"]["high"] == 0.3 and rows["by_class", "0"]["high"] is None
    assert example().to_pandas().attrs["interval_choices"] == CHOICES
    table = example().to_arrow()
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "double", "string", *["double"] * 3]
    assert table.column("low").to_pylist()[:3] == [0.1 + 0.2, None, None]
    assert json.loads(table.schema.metadata[b"interval_choices"]) == CHOICES
    assert list(example(None).to_pandas().columns) == ["name", "key", "value", "reason"]
    assert example(None).to_arrow().column_names == ["name", "key", "value", "reason"]
    assert "interval_choices" not in example(None).to_pandas().attrs


def test_html_has_whiskers_bounds_and_choices() -> None:
    found = example()._repr_html_()
    assert 'aria-label="map 0.4620 (0.3000 to 0.4728)"' in found and "(0.3000 to 0.4728)</td>" in found
    assert f"no interval: {FEW}</td>" in found and "95% intervals of E[map] at 5,000 images" in found
    assert found.count('class="whisk"') == 3 * 5, "a line and two ends of map and of four classes"
    assert 'class="whisk"' not in example(None)._repr_html_()


class Coins(Resampled):
    """Ten coins, of which the number is the share of heads."""

    unit, units = "coins", 10

    def replicates(self, draws: Draws) -> dict[str, Any]:
        heads = np.arange(10) < 4
        share = (heads[:, None] * draws.array()).sum(0) / 10
        return {"heads": share, "sides/1": share, "sides/0": 1 - share}


def test_intervals_are_asked_of_a_result_that_has_its_state() -> None:
    values = {"heads": 0.4, "sides": np.array([0.6, 0.4]), "images": 3}
    asked = []

    def state() -> Coins:
        asked.append(1)
        return Coins()

    result = Result(values, Signature({"metric": "Coins"}), state=state)
    assert not asked and not result.intervals
    found = result.with_intervals(200)
    assert list(found.intervals) == ["heads", "sides/0", "sides/1"] and found.values == result.values
    assert found.intervals["heads"].low < 0.4 < found.intervals["heads"].high
    assert found.intervals["heads"] == found.intervals["sides/1"]
    again = found.with_intervals(Bootstrap(200, seed=1))
    assert again.intervals["heads"] != found.intervals["heads"] and again.intervals.choices["seed"] == 1
    assert result.with_intervals(200).intervals == found.intervals, "the same seed gives the same bits"
