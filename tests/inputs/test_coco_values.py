"""Values of COCO records that are read when somebody asks: keypoints and image sizes, from files and from objects."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs import coco
from valor_gpu.inputs._coco_scan import JsonFile
from valor_gpu.inputs._coco_values import KeptNumbers, keep_keypoints, read_keypoints

DATA = Path(__file__).parents[1] / "data"

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))


def both(folder, dataset):
    """The dataset read from a file and from objects."""
    path = folder / "set.json"
    path.write_text(json.dumps(dataset))
    return coco.read_ground_truth(path), coco.columns_from_dataset(dataset)


def people():
    return json.loads(gzip.decompress((DATA / "keypoints_1_image.json.gz").read_bytes()))


@pytest.mark.smoke
def test_keypoints_of_files_and_objects(tmp_path):
    dataset = people()
    expected = [a["keypoints"] for a in dataset["annotations"]]
    for read in both(tmp_path, dataset):
        rows = np.arange(len(expected))[::-1].copy()
        found = read_keypoints(read.annotations.values, rows, "people", 17)
        assert found.reshape(len(rows), -1).tolist() == expected[::-1]
        assert read.annotations.values.column("num_keypoints").tolist() == [
            a["num_keypoints"] for a in dataset["annotations"]
        ]
        sizes = read.annotations.images.of(read.annotations.image_id)
        assert sizes.tolist() == [[i["height"], i["width"]] for i in dataset["images"]] * len(expected)
        assert read_keypoints(read.annotations.values, rows[:0], "people", 17).shape == (0, 17, 3)


def test_keypoints_at_any_chunk_size(tmp_path):
    annotations = people()["annotations"] * 3
    path = tmp_path / "a.json"
    path.write_text(json.dumps(annotations))
    for chunk_bytes in (64, 1000, 30_000):
        with JsonFile.open(path, threads=2, chunk_bytes=chunk_bytes) as file:
            columns, _ = file.array(0, ("id", "keypoints", "segmentation"), "rows")
            values = coco.FileValues.of_scan(file.file, columns)
        found = read_keypoints(values, np.arange(len(annotations)), "rows")
        assert found.reshape(len(annotations), -1).tolist() == [a["keypoints"] for a in annotations]
        assert values.value("segmentation", 5) == annotations[5].get("segmentation")


WRONG = {
    "text": ("abc", "'abc'"),
    "a number missing": ([1, 2], r"\[1, 2\]"),
    "a null": ([1, 2, None], r"\[1, 2, None\]"),
    "nested": ([[1, 2, 3]], r"\[\[1, 2, 3\]\]"),
    "infinite": ([1e400, 2, 3], r"\[inf, 2, 3\]"),
    "empty": ([], r"\[\]"),
    "another number of points": ([1, 2, 3, 4, 5, 6], r"\[1, 2, 3, 4, 5, 6\]"),
    "absent": (None, "None"),
}


@pytest.mark.parametrize("name", WRONG)
def test_keypoints_that_are_none(tmp_path, name):
    value, shown = WRONG[name]
    good = {"id": 1, "image_id": 1, "keypoints": [1, 2, 3]}
    dataset = {"annotations": [good, {**good, "keypoints": value}, {**good, "keypoints": {}}]}
    for read in both(tmp_path, dataset):
        values = read.annotations.values
        assert read_keypoints(values, np.array([0]), "people", 1).tolist() == [[[1, 2, 3]]]  # nobody asks for others
        with pytest.raises(InputError, match=r"people\[1\].keypoints must be 3 finite numbers, .* but got " + shown):
            read_keypoints(values, np.array([0, 1, 2]), "people", 1)


@pytest.mark.smoke
def test_keypoints_that_were_read_for_boxes_are_kept(tmp_path):
    people = [[1, 2, 1, 5, 4, 0], [7, 8.5, 0], [0, 0, 2, -3, 9, 1, 4, 4, 4]]
    for read in both(
        tmp_path, {"annotations": [{"id": n, "image_id": 1, "keypoints": k} for n, k in enumerate(people)]}
    ):
        values, boxes = keep_keypoints(read.annotations.values, 3, "rows")
        assert boxes.tolist() == [[1, 2, 4, 2], [7, 8.5, 0, 0], [-3, 0, 7, 9]]
        assert isinstance(values, KeptNumbers)
        (tmp_path / "set.json").write_text("[]")  # nobody looks at it again
        for rows in ([0, 1, 2], [2, 1], [], [1, 1, 0]):
            for given in (values, values.take(np.array([0, 1, 2, 0])), values.take(np.array([1, 1, 1], bool))):
                numbers, offsets, good = given.numbers("keypoints", np.array(rows, np.int64))
                parts = [numbers[i:j].tolist() for i, j in itertools.pairwise(offsets)]
                assert (parts, good) == ([people[row] for row in rows], len(rows))
    assert values.value("keypoints", 1) == people[1]
    assert np.isnan(values.column("num_keypoints")).all()


def test_a_file_that_has_changed(tmp_path):
    read, _ = both(tmp_path, people())
    (tmp_path / "set.json").write_text("{}")
    with pytest.raises(InputError, match=r"set\.json must stay as it is while it is read but has changed"):
        read_keypoints(read.annotations.values, np.array([0]), "people")


def test_sizes_that_are_none(tmp_path):
    sizes = [480, "480", None, -1, 1.5, 2**31, 480.0]
    images = [{"id": i, "height": size, "width": 640} for i, size in enumerate(sizes)]
    dataset = {"images": [*images, {"id": 0, "height": 2, "width": 3}, {"id": 9}], "annotations": []}
    for read in both(tmp_path, dataset):
        found = read.annotations.images.of(np.array([*range(7), 9, 11]))
        assert found[:, 0].tolist() == [2, -1, -1, -1, -1, -1, 480, -1, -1]
        assert found[:, 1].tolist() == [3, *[640] * 6, -1, -1]
