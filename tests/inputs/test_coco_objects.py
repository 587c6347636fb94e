"""COCO records that are Python objects or arrays, to columns."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.inputs.test_coco import same
from valor_gpu.errors import InputError
from valor_gpu.inputs import coco


def test_numpy_values_in_results():
    plain = [{"image_id": 3, "category_id": 2, "bbox": [1.5, 2, 3.25, 4], "score": 0.5, "iscrowd": 1}]
    typed = [
        {
            "image_id": np.int16(3),
            "category_id": np.float64(2),
            "bbox": np.array([1.5, 2, 3.25, 4], np.float32),
            "score": np.float16(0.5),
        }
    ]
    same(coco.columns_from_results(plain), coco.columns_from_results(typed))
    assert coco.columns_from_results(plain).iscrowd.tolist() == [False]


def test_areas_of_float32_boxes_are_float32_products():
    """As pycocotools multiplies the numbers it was given."""
    box = np.array([0, 0, 31.7, 33.3], np.float32)
    result = {"image_id": 1, "category_id": 1, "bbox": list(box), "score": 0.5}
    area = float(box[2] * box[3])
    assert area != float(box[2]) * float(box[3])
    assert coco.columns_from_results([result]).area.tolist() == [area]
    array = np.array([[1, *box, 0.5, 1]], np.float32)
    assert coco.columns_from_results(array).area.tolist() == [area]


def test_array_of_results():
    array = np.array([[7, 1, 2, 3, 4, 0.5, 9], [2**40, 0, 0, 1, 1, 0.25, 1]])
    rows = coco.columns_from_results(array)
    assert rows.image_id.tolist() == [7, 2**40] and rows.category_id.tolist() == [9, 1]
    assert rows.bbox.tolist() == array[:, 1:5].tolist() and rows.area.tolist() == [12.0, 1.0]
    same(rows, coco.columns_from_results(np.asfortranarray(array)))
    assert coco.columns_from_results(array.astype(np.int64)).score.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 6)), r"results must be an integer or floating array \[N, 7\] but got float64 \[2, 6\]"),
        (np.zeros((2, 7), object), r"array \[N, 7\] but got object \[2, 7\]"),
        (np.array([[1.5, 0, 0, 1, 1, 0, 1]]), r"results\[0\]\.image_id must be a 64-bit integer but got 1.5"),
        (np.array([[1, 0, 0, 1, 1, 0, np.nan]]), r"results\[0\]\.category_id must be a 64-bit integer but got nan"),
        (
            np.full((1, 7), 2**63, np.uint64),
            r"results\[0\]\.image_id must be a 64-bit integer but got 9223372036854775808",
        ),
    ],
)
def test_errors_in_arrays(array, message):
    with pytest.raises(InputError, match=message):
        coco.columns_from_results(array)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"a": 1}, "results must be an array of objects but got {'a': 1}"),
        ([{"image_id": 1}, 3], r"results\[1\] must be an object but got 3"),
        (
            [{"image_id": 2**64}],
            r"results\[0\]\.image_id must be a 64-bit integer or a text but got 18446744073709551616",
        ),
        ([{"image_id": None}], r"results\[0\] must have image_id"),
        ([{"image_id": 1}, {"image_id": np.bool_(1)}], r"results\[1\]\.image_id must be a 64-bit integer or a text"),
    ],
)
def test_errors_in_lists(results, message):
    with pytest.raises(InputError, match=message):
        coco.columns_from_results(results)


def test_the_dataset_must_be_an_object():
    with pytest.raises(InputError, match=r"dataset must be an object with images, .* but got \[\]"):
        coco.columns_from_dataset([])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 5), max_size=12))
def test_last_of_id(ids):
    rows = coco.columns_from_dataset({"annotations": [{"id": i, "image_id": 0} for i in ids]}).annotations
    assert rows.last_of_id().tolist() == [len(ids) - 1 - ids[::-1].index(i) for i in ids]
