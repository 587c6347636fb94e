"""Ids of COCO files that are texts, read by the native scanner and by Python's json."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.inputs.test_coco import same_dataset, with_native, write
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs import _coco_scan, coco


@pytest.fixture(params=[pytest.param("native", marks=with_native), "json"])
def reader(request, monkeypatch):
    """Both ways to read a file."""
    if request.param == "json":
        monkeypatch.setattr(native, "usable", lambda name: False)
    return request.param


def names_of_all_lengths():
    """Texts that end before, at and behind the bytes that are read at once, plain and with escapes."""
    for size in (*range(36), 63, 64, 65, 1000):
        yield from ("x" * size, "x" * size + "\\", "\u00e9" * size, '"' + "x" * size, "x" * size + "\u0000")


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_ids_that_are_texts(tmp_path, reader, order, ensure_ascii):
    names = list(dict.fromkeys(names_of_all_lengths()))[::order]
    data = {
        "categories": [{"id": name} for name in names],
        "annotations": [{"id": n, "image_id": a, "category_id": b} for n, (a, b) in enumerate(zip(names, names[::-1]))],
        "images": [{"height": n, "width": 1, "id": name} for n, name in enumerate(names)],
    }
    text = json.dumps(data, ensure_ascii=ensure_ascii)
    read = coco.read_ground_truth(write(tmp_path, text.replace('"\\\\"', '"\\u005c"'), "truth.json"))
    same_dataset(read, coco.columns_from_dataset(data))
    ids = sorted(names)
    for texts in read.annotations.texts:
        assert list(texts.texts) == ids
    assert [ids[code] for code in read.annotations.image_id] == names
    assert [ids[code] for code in read.annotations.category_id] == names[::-1]
    assert [ids[code] for code in read.image_ids] == names
    assert read.annotations.images.of(read.annotations.image_id)[:, 0].tolist() == list(range(len(names)))


def test_the_last_of_equal_keys_decides_whether_an_id_is_a_text(tmp_path, reader):
    text = '{"annotations": [{"id": 1, "image_id": "a", "image_id": 7}, {"id": 2, "image_id": "b", "image_id": 8}]}'
    rows = coco.read_ground_truth(write(tmp_path, text, "a.json")).annotations
    assert (rows.image_id.tolist(), rows.texts.image_id) == ([7, 8], None)
    text = '{"annotations": [{"id": 1, "image_id": 7, "image_id": "b"}, {"id": 2, "image_id": null, "image_id": "a"}]}'
    rows = coco.read_ground_truth(write(tmp_path, text, "b.json")).annotations
    assert (rows.image_id.tolist(), rows.texts.image_id.texts) == ([1, 0], ("a", "b"))
    text = '{"images": [{"id": "a", "id": null}]}'
    with pytest.raises(InputError, match=r"images\[0\] must have id"):
        coco.read_ground_truth(write(tmp_path, text, "c.json"))


def test_different_texts_with_one_sum(monkeypatch, tmp_path):
    """Groups of texts are found by sums of their words, which other texts may have."""
    monkeypatch.setattr(_coco_scan, "_MULTIPLIER", np.uint64(0))
    names = ["b", "a", "b", "c"]
    data = {"images": [{"id": name} for name in names]}
    read = coco.read_ground_truth(write(tmp_path, json.dumps(data), "truth.json"))
    assert read.image_ids.tolist() == [1, 0, 1, 2]
