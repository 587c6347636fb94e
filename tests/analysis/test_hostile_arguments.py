"""Arguments of the methods about errors that no caller means: types, ranges, names that two columns share."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.tide_cases import result_of_files
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.inputs.value_tables import read_columns

DATA = Path(__file__).parents[2] / "examples" / "data"


@pytest.fixture(scope="module")
def result():
    return result_of_files()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("errors", {"iou": "0.5"}, "iou must be a number but got '0.5'"),
        ("errors", {"iou": b"0.5"}, "iou must be a number but got b'0.5'"),
        ("errors", {"background": []}, "background must hold at least one threshold but is empty"),
        ("errors", {"iou": np.zeros((2, 2))}, "iou must be a number"),
        ("errors", {"protocol": np.array(["coco", "x"])}, "protocol must be one of 'coco', 'tidecv' but got array"),
        ("olrp", {"iou": True}, "iou must be a number but got True"),
        ("olrp", {"iou": np.array([0.5, 0.75])}, "iou must be a number but got array"),
        ("operating_points", {"seed": "x"}, "seed must be int but got str"),
        ("operating_points", {"seed": -1}, "seed must be at least 0 but got -1"),
    ],
)
def test_wrong_arguments(result, name, arguments, message):
    with pytest.raises(InputError, match=message):
        getattr(result, name)(**arguments)


@pytest.mark.parametrize("name", ["errors", "olrp", "operating_points", "images", "matches"])
def test_another_iou_type(result, name):
    with pytest.raises(InputError, match="iou_type must be one of None, 'bbox' but got 'segm'"):
        getattr(result, name)(iou_type="segm")
    assert str(getattr(result, name)(iou_type="bbox")) == str(getattr(result, name)())


def test_another_iou_type_of_slices(result):
    with pytest.raises(InputError, match="iou_type must be one of None, 'bbox' but got 'segm'"):
        result.by("crowding", iou_type="segm")


def test_thresholds_of_an_array_and_of_a_fraction(result):
    several = result.errors(iou=[0.5, 0.75])
    assert result.errors(iou=np.array([0.5, 0.75])).to_dict() == several.to_dict()
    assert result.errors(iou=Fraction(1, 2)).to_dict() == result.errors().to_dict()
    for answer in (result.olrp(iou=Fraction(1, 2)), result.operating_points(iou=Fraction(1, 2), split=Fraction(1, 2))):
        assert "0.5" in json.dumps(answer.to_dict())


@pytest.mark.parametrize("numbers", [5, np.array(0.5), b"map", "map"])
def test_numbers_that_are_no_list(result, numbers):
    with pytest.raises(InputError, match="numbers must be a list of names but is"):
        result.by("crowding", numbers=numbers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": 10**400}, "candidates must be at most permutations, which are 2000"),
        ({"level": 1e-320}, "permutations must be at least"),
        ({"number": np.array(["map", "map_50"])}, "number must be str or NoneType but got ndarray"),
    ],
)
def test_searches_that_cannot_end(result, arguments, message):
    with pytest.raises(InputError, match=message):
        result.worst_slices("crowding", **arguments)


def test_a_list_of_columns_in_a_search(result):
    with pytest.raises(InputError, match=r"columns must be names, since .* but one is \['a', 'b'\]"):
        result.worst_slices({"image_id": [1]}, ["a", "b"])


def test_no_array_is_a_choice():
    with pytest.raises(InputError, match="x must be one of 1, 2 but got array"):
        check_choice("x", np.array([1, 2]), (1, 2))


@pytest.mark.parametrize("table", [{1: [0], "1": [1]}, [{1: 0, "1": 1}]])
def test_columns_of_one_name(table):
    with pytest.raises(InputError, match="table must name each column once but has '1' 2 times"):
        read_columns(table)


def test_columns_of_a_file_that_differ_by_spaces(tmp_path):
    (tmp_path / "t.csv").write_text("image_id,a, a\n1,2,3\n")
    with pytest.raises(InputError, match="must name each column once but has 'a' 2 times"):
        read_columns(tmp_path / "t.csv")
