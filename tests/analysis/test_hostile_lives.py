"""Answers that are copied, pickled and asked by several threads."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import pytest
import torch

from tests.analysis.tide_cases import result_of_files
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.result import Result

DATA = Path(__file__).parents[2] / "examples" / "data"
METHODS = ("errors", "olrp", "operating_points", "images", "matches")


def _of_metric():
    metric = MeanAveragePrecision(box_format="xywh", errors=True)
    data = metric.coco_to_tm(str(DATA / "yolact_resnet50.json"), str(DATA / "instances_val2017_100.json"))
    metric.update(*data)
    return metric.result()


@pytest.fixture(scope="module", params=[result_of_files, _of_metric])
def made(request):
    return request.param


@pytest.fixture(scope="module")
def result(made):
    return made()


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copy_answers_as_the_result_does(result, how):
    copied = how(result)
    assert type(copied) is type(result) and copied.to_dict() == result.to_dict()
    for name in METHODS:
        assert str(getattr(copied, name)()) == str(getattr(result, name)())
    assert str(copied.by("crowding")) == str(result.by("crowding"))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copy_of_an_answer_is_one(result, how):
    points = result.operating_points()
    assert how(points).lines("yaml") == points.lines("yaml")
    assert how(result.errors()).table().rows() == result.errors().table().rows()
    assert how(result.matches()).head(3).rows() == result.matches().head(3).rows()


def test_a_deep_copy_has_arrays_of_its_own():
    metric = MeanAveragePrecision(class_metrics=True, extended_summary=True)
    box = torch.tensor([[0.0, 0.0, 9.0, 9.0]])
    metric.update(
        [{"boxes": box, "scores": torch.ones(1), "labels": torch.zeros(1, dtype=torch.int)}],
        [{"boxes": box, "labels": torch.zeros(1, dtype=torch.int)}],
    )
    result = metric.result()
    name = next(name for name, value in result.values.items() if hasattr(value, "shape") and len(value.shape))
    before = result.values[name].tolist()
    copy.deepcopy(result).values[name][...] = 7
    assert result.values[name].tolist() == before


def test_answers_count_as_results(result):
    for answer in (result.errors(), result.olrp(), result.operating_points(), result.olrp().with_intervals(20)):
        assert isinstance(answer, Result) and issubclass(type(answer), Result)
        assert not isinstance(answer, ComparisonResult)
    assert isinstance(result, Result) and not isinstance(result.images(), Result) and not isinstance({}, Result)


def test_every_answer_can_be_pickled(result):
    for name in METHODS:
        answer = getattr(result, name)()
        assert pickle.loads(pickle.dumps(answer)).to_dict() == answer.to_dict()
    with pytest.raises(InputError, match=r"errors\(\) needs the data that the result came from"):
        pickle.loads(pickle.dumps(result)).errors()


def test_threads_may_ask_one_result(made, result):
    expected = [str(getattr(result, name)()) for name in METHODS]
    fresh, found = made(), []
    threads = [
        threading.Thread(target=lambda: found.append([str(getattr(fresh, name)()) for name in METHODS]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
