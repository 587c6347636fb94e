from __future__ import annotations

import copy
import importlib.util
import json
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.metrics.evaluate import JudgedTexts
from valor_gpu.judge.protocol import Usage
from valor_gpu.judge.run import JudgeRun
from valor_gpu.offline.outcome import OfflineResult
from valor_gpu.result import Result, Signature
from valor_gpu.store.saved import SavedRun
from valor_gpu.valor import Evaluation, EvaluationParameters

NAN = float("nan")


def plotter(result: Result, ax: Any = None, **options: Any) -> tuple[Any, ...]:
    return result.values["map"], ax, options


def example() -> Result:
    return Result(
        values={
            "map": 0.25,
            "map_small": NAN,
            "images": 3,
            "tensor": torch.tensor(0.5),
            "numpy": np.float32(0.125),
            "precision": torch.tensor([[0.5, NAN]]),
            "per_class": {"cat": NAN, "dog": 0.75, "curve": np.array([1.0, math.inf])},
        },
        signature=Signature({"metric": "mAP", "iou": [0.5, 0.75], "crowd": True, "ids": None, "version": "1.0"}),
        counts={"images": 3, "ignored": 0},
        reasons={"map_small": "no small ground truth", "per_class": "class without ground truth"},
        plotter=plotter,
    )


def test_scalars_are_flat_floats() -> None:
    found = example().scalars("val/")
    assert all(type(value) is float for value in found.values())
    assert math.isnan(found.pop("val/map_small")) and math.isnan(found.pop("val/per_class/cat"))
    assert found == {
        "val/map": 0.25,
        "val/images": 3.0,
        "val/tensor": 0.5,
        "val/numpy": 0.125,
        "val/per_class/dog": 0.75,
    }
    assert "map" in example().scalars()


def test_to_dict_is_json_with_a_reason_for_every_none() -> None:
    found = example().to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["values"]["precision"] == [[0.5, None]]
    assert found["values"]["per_class"] == {"cat": None, "dog": 0.75, "curve": [1.0, None]}
    assert found["values"]["map_small"] is None and found["values"]["tensor"] == 0.5
    assert found["signature"] == {"metric": "mAP", "iou": [0.5, 0.75], "crowd": True, "ids": None, "version": "1.0"}
    assert found["counts"] == {"images": 3, "ignored": 0}
    assert found["reasons"] == {
        "map_small": "no small ground truth",
        "per_class/cat": "class without ground truth", "per_class/curve": "class without ground truth",
    }  # fmt: skip
    without = example().to_dict(arrays=False)["values"]
    assert "precision" not in without and without["per_class"] == {"cat": None, "dog": 0.75}


def test_a_missing_reason_is_said() -> None:
    found = Result({"a": NAN, "b": math.inf}, Signature({})).to_dict()
    assert found["values"] == {"a": None, "b": None}
    assert found["reasons"] == {"a": "nan, no reason known", "b": "inf, no reason known"}


def test_reason_is_that_of_the_nearest_name() -> None:
    result = Result({"a": {"b": {"c": NAN, "d": NAN}}}, Signature({}), reasons={"a": "far", "a/b/c": "near"})
    assert result.reason("a/b/c") == "near"
    assert result.reason("a/b/d") == "far"
    assert result.reason("x") is None


def test_table_is_aligned() -> None:
    assert str(example()).splitlines() == [
        "map          0.2500",
        "map_small       nan  no small ground truth",
        "images            3",
        "tensor       0.5000",
        "numpy        0.1250",
        "precision  [[0.5 nan]]",
        "per_class  3 values",
        "images 3",
        "metric:mAP|iou:0.5,0.75|crowd:yes|ids:none|version:1.0",
    ]
    assert str(Result({"big": 123456.789, "on": True}, Signature({"version": "1"}))).splitlines()[:2] == [
        "big  123457",
        "on     True",
    ]


def test_results_are_read_only_and_independent_of_what_made_them() -> None:
    values = {"a": 1.0, "nested": {"b": 2.0}}
    result = Result(values, Signature({}))
    values["a"] = values["nested"]["b"] = 9.0  # type: ignore[index]
    assert result.scalars() == {"a": 1.0, "nested/b": 2.0}
    with pytest.raises(TypeError, match="does not support item assignment"):
        result.values["a"] = 2.0  # type: ignore[index]
    with pytest.raises(TypeError, match="does not support item assignment"):
        result.values["nested"]["b"] = 2.0
    with pytest.raises(AttributeError, match="cannot assign to field"):
        result.values = {}  # type: ignore[misc]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))], ids=["deepcopy", "pickle"])
def test_results_copy(copied: Any) -> None:
    result = copied(example())
    assert result.to_dict() == example().to_dict()
    assert result.plot()[0] == 0.25


def test_reasons_of_arrays_are_exported() -> None:
    values = {
        "all": np.array([NAN, NAN]),
        "some": torch.tensor([[1.0], [NAN]]),
        "none": np.ones(2),
        "deep": {"a": np.array([NAN])},
    }
    reasons = {"all": "no data", "some": "class 1 is absent", "none": "not so", "deep": "far"}
    result = Result(values, Signature({}), reasons=reasons)
    assert result.to_dict()["reasons"] == {"all": "no data", "some": "class 1 is absent", "deep/a": "far"}
    assert result.to_dict(arrays=False)["reasons"] == {}
    assert Result({"a": np.array([NAN])}, Signature({})).to_dict()["reasons"] == {}


def test_values_and_reasons_are_checked() -> None:
    with pytest.raises(InputError, match="value a/b must be a number, array or mapping but got str"):
        Result({"a": {"b": "x"}}, Signature({}))
    with pytest.raises(InputError, match="reasons must name values but got 'map'"):
        Result({"map_50": NAN}, Signature({}), reasons={"map": "no data"})


def test_signature_is_an_ordered_mapping_that_ends_in_the_version() -> None:
    signature = Signature({"b": 1, "a": 0.1})
    assert list(signature) == ["b", "a", "version"]
    assert str(signature) == f"b:1|a:0.1|version:{signature['version']}"
    assert signature == Signature({"b": 1, "a": 0.1}) and hash(signature) == hash(Signature({"b": 1, "a": 0.1}))
    assert signature != Signature({"b": 2, "a": 0.1})
    assert str(Signature({"a": "x|y", "version": 2})) == "a:x\\|y|version:2"
    assert eval(repr(signature)) == signature
    for wrong in ({"a:b": 1}, {"a|b": 1}, {1: 1}):
        with pytest.raises(InputError, match=r"signature names must be strings without ':' and '\|' but got"):
            Signature(wrong)  # type: ignore[arg-type]


def test_plot_calls_the_plotter() -> None:
    assert example().plot(ax="axes", color="red") == (0.25, "axes", {"color": "red"})
    with pytest.raises(InputError, match=r"but that of Accuracy has none: ROC, .* plot\(\)"):
        Result({"a": 1}, Signature({"metric": "Accuracy"})).plot()


def test_plot_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"Result.plot needs matplotlib: pip install 'valor_gpu\[plot\]'"):
        example().plot()


def test_results_load_no_torch_and_no_matplotlib() -> None:
    program = """
import sys
from valor_gpu.result import Result, Signature
r = Result({"a": 1.0}, Signature({"metric": "a"}))
str(r), r.to_dict(), r.scalars()
print([name for name in ("torch", "numpy", "matplotlib") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_counts_of_nothing_are_shown() -> None:
    text = str(Result({}, Signature({"metric": "mAP"}), {"images": 0, "ignored": 0}))
    assert text.splitlines()[0] == "images 0, ignored 0"


def test_short_arrays_are_shown_as_numbers() -> None:
    values = {
        "ap": 0.5,
        "few": np.array([1, 2]),
        "ten": torch.linspace(0.5, 0.95, 10),
        "eleven": np.zeros(11),
        "empty": np.zeros((0, 2)),
        "some": np.array([0.25, NAN, True]),
    }
    text = str(Result(values, Signature({}), reasons={"some": "class 1 is absent", "ten": "not shown"}))
    assert text.splitlines()[:6] == [
        "ap            0.5000",
        "few            [1 2]",
        "ten     [0.5 0.55 0.6 0.65 0.7 0.75 0.8 0.85 0.9 0.95]",
        "eleven    array [11]",
        "empty   array [0, 2]",
        "some    [0.25 nan 1]  class 1 is absent",
    ]


def test_at_the_prompt_a_result_is_one_line() -> None:
    """The class, the metric and its first numbers, however many and however large arrays there are."""
    values = {f"v{i}": i / 8 for i in range(5)} | {"curve": np.zeros((50, 101)), "by_class": {"a": 0.5}, "last": NAN}
    made = Result(values, Signature({"metric": "AP"}), {"images": 8})
    shown = "v0=0.0000, v1=0.1250, v2=0.2500, v3=0.3750, v4=0.5000, curve=array [50, 101], 2 more"
    assert repr(made) == f"Result(AP: {shown})" and len(repr(made)) < len(str(made))
    assert repr(Result({"ap": NAN}, Signature({}))) == "Result(ap=nan)"
    saved = SavedRun("detection", {}, {"map": 0.25, "map_small": None}, {"images": 8, "detections": 3})
    assert repr(saved) == "SavedRun(detection: map=0.2500, map_small=None; images 8)"


def test_other_results_are_one_line_too() -> None:
    labels = {"class": "cat"}
    metrics = [
        {"type": "mAP", "parameters": {"iou": 0.5}, "value": 0.25}, {"type": "mAR", "parameters": {}, "value": None},
        {"type": "AP", "label": labels, "value": 0.5}, {"type": "PrecisionRecallCurve", "value": {"cat": {0.5: {}}}},
    ]  # fmt: skip
    evaluation = Evaluation(EvaluationParameters(), metrics, meta={"datums": 3, "labels": 1})
    assert repr(evaluation) == "Evaluation(mAP at 0.5=0.2500, mAR=None; metrics 4; datums 3; labels 1)"
    result = Result({"ap": 0.5}, Signature({}))
    one = OfflineResult({"map": result}, {"shards": 2}, (), (), {})
    assert repr(one) == "OfflineResult(map: ap=0.5000; shards 2)"
    two = OfflineResult({"map": result, "mar": result}, {"shards": 2}, (), (), {})
    assert repr(two) == "OfflineResult(map/ap=0.5000, mar/ap=0.5000; shards 2)"
    judged = JudgeRun({"faithfulness": [[], []]}, {}, Usage(), None, 0.5, 1, None, (), None)
    assert repr(judged) == "JudgeRun(rows 2; failed 0)"
    texts = JudgedTexts({}, {}, Usage(), None, 0.5, 1, None, (), None, {})
    assert repr(texts) == "JudgedTexts(rows 0; failed 0)"
