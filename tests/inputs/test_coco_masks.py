"""Masks of COCO annotations from text to run lengths, against pycocotools."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from testing.oracles import pycocotools
from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs import coco
from valor_gpu.inputs.coco_masks import measure_masks, read_masks

DATA = Path(__file__).parents[1] / "data"
EXAMPLES = Path(__file__).parents[2] / "examples/data"
HEIGHT, WIDTH = 23, 31

pytestmark = [
    pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu")),
    pytest.mark.filterwarnings("ignore:__array__ implementation"),  # of pycocotools' decode
]


def both(folder, dataset):
    """The dataset read from a file and from objects."""
    path = folder / "set.json"
    path.write_text(json.dumps(dataset))
    return coco.read_ground_truth(path), coco.columns_from_dataset(dataset)


def of(segmentations, **image):
    """A dataset of one image with these segmentations."""
    size = image or {"height": HEIGHT, "width": WIDTH}
    annotations = [{"id": n, "image_id": 7, "segmentation": s} for n, s in enumerate(segmentations, 100)]
    return {"images": [{"id": 7, **size}], "annotations": annotations}


def theirs():
    return pycocotools("mask")


def expected(segmentation, height, width):
    """The run lengths of pycocotools' annToRLE."""
    if isinstance(segmentation, list):
        return theirs().merge(theirs().frPyObjects(segmentation, height, width))
    if isinstance(segmentation["counts"], (list, np.ndarray)):
        return theirs().frPyObjects(segmentation, height, width)
    return segmentation


def dense(runs, index):
    """uint8 ``[height, width]`` of one mask."""
    counts = runs.counts[runs.offsets[index] : runs.offsets[index + 1]]
    pixels = np.repeat(np.arange(len(counts)) % 2, counts).astype(np.uint8)
    return pixels.reshape(tuple(runs.sizes[index]), order="F")


def check(read, rles):
    """Masks and measures equal those of pycocotools."""
    rows = np.arange(len(rles))
    runs, measures = read_masks(read.annotations, rows), measure_masks(read.annotations, rows)
    for index, rle in enumerate(rles):
        assert (dense(runs, index) == theirs().decode(rle)).all(), index
    assert measures.areas.tolist() == [int(theirs().area(rle)) for rle in rles]
    assert measures.boxes.tolist() == [theirs().toBbox(rle).tolist() for rle in rles]


def test_real_annotations(tmp_path):
    dataset = json.loads(gzip.decompress((EXAMPLES / "instances_val2014_100_masks.json.gz").read_bytes()))
    sizes = {image["id"]: (image["height"], image["width"]) for image in dataset["images"]}
    rles = [expected(a["segmentation"], *sizes[a["image_id"]]) for a in dataset["annotations"]]
    for read in both(tmp_path, dataset):
        check(read, rles)


def test_real_results(tmp_path):
    packed = (DATA / "yolact_resnet50_10_images.json.gz").read_bytes()
    (tmp_path / "dt.json.gz").write_bytes(packed)
    records = json.loads(gzip.decompress(packed))
    assert any("\\" in r["segmentation"]["counts"] for r in records)
    for rows in (coco.read_results(tmp_path / "dt.json.gz"), coco.columns_from_results(records)):
        check(coco.Dataset(None, [], None, rows, ""), [r["segmentation"] for r in records])


def random_mask(rng):
    mask = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
    for _ in range(rng.integers(0, 4)):
        y, x = rng.integers(0, HEIGHT), rng.integers(0, WIDTH)
        mask[y : y + rng.integers(1, 12), x : x + rng.integers(1, 12)] = rng.integers(0, 2)
    return mask if rng.random() < 0.7 else np.asfortranarray(rng.integers(0, 2, mask.shape).astype(np.uint8))


def uncompressed(mask):
    pixels = mask.ravel(order="F")
    ends = np.append(np.flatnonzero(pixels[1:] != pixels[:-1]) + 1, pixels.size)
    return [0] * int(pixels[0]) + np.diff(ends, prepend=0).tolist()


def random_segmentation(rng):
    kind = rng.integers(0, 4)
    if kind == 0:  # rings, some of them degenerate
        sizes = [int(rng.integers(3, 9)), *rng.integers(1, 9, rng.integers(0, 3)).tolist()]
        return [rng.uniform(-6, 36, 2 * n).round(rng.integers(0, 3)).tolist() for n in sizes]
    mask = random_mask(rng)
    if kind == 1:
        return {"counts": uncompressed(mask), "size": [HEIGHT, WIDTH]}
    rle = theirs().encode(mask)
    return {**rle, "counts": rle["counts"].decode()} if kind == 2 else {"id": [{}], **rle}


@pytest.mark.parametrize("seed", seeds(3))
def test_random_segmentations(tmp_path, seed):
    rng = np.random.default_rng(seed)
    segmentations = [random_segmentation(rng) for _ in range(150)]
    rles = [expected(s, HEIGHT, WIDTH) for s in segmentations]
    as_text = json.loads(json.dumps(of(segmentations), default=lambda v: v.decode()))
    check(coco.columns_from_dataset(of(segmentations)), rles)
    check(both(tmp_path, as_text)[0], rles)


@pytest.mark.smoke
def test_escapes_spaces_and_order_of_keys(tmp_path):
    rle = theirs().encode((np.arange(8100) >= 44).astype(np.uint8).reshape(90, 90, order="F"))
    counts = rle["counts"].decode()
    assert "\\" in counts
    texts = [
        json.dumps(counts),
        '"' + "".join(f"\\u{ord(c):04x}" for c in counts) + '"',
        json.dumps(counts).replace("/", "\\/"),
    ]
    bodies = [f'{{"counts" : {text} ,\n"x": {{"size": 1}}, "si\\u007ae": [ 90, 9e1 ]}}' for text in texts]
    path = tmp_path / "dt.json"
    path.write_text("[" + ",".join(f'{{"image_id": 1, "segmentation": {body}}}' for body in bodies) + "]")
    check(coco.Dataset(None, [], None, coco.read_result_rows(path), ""), [rle] * 3)


def test_results_without_masks_have_those_of_their_boxes():
    results = [{"image_id": 7, "category_id": 1, "bbox": [1.5, 2, 4.25, 5], "score": 1}] * 2
    results[1] = {**results[1], "segmentation": {"size": [5, 5], "counts": [25]}}
    rows = coco.detections(coco.result_rows(results))
    rows = coco.replace(rows, images=coco.columns_from_dataset(of([])).annotations.images)
    runs = read_masks(rows, np.array([0, 1]))
    corners = theirs().frPyObjects([[1.5, 2, 1.5, 7, 5.75, 7, 5.75, 2]], HEIGHT, WIDTH)[0]
    assert (dense(runs, 0) == theirs().decode(corners)).all() and runs.sizes[1].tolist() == [5, 5]
    array = coco.detections(coco.result_rows(np.array([[7, 1.5, 2, 4.25, 5, 1, 1]])))
    array = coco.replace(array, images=rows.images)
    assert (dense(read_masks(array, np.array([0])), 0) == theirs().decode(corners)).all()


SIZE = [HEIGHT, WIDTH]
PIXELS = HEIGHT * WIDTH
WRONG = {
    "text": ("abc", "a list of polygons or an object with size and counts but got 'abc'"),
    "a number": (5, "a list of polygons or an object with size and counts but got 5"),
    "no polygon": ([], r"a list of polygons, each a list of at least 6 numbers but got \[\]"),
    "a flat polygon": ([1, 1, 5, 1, 5, 5], r"a list of polygons, each .* but got \[1, 1, 5, 1, 5, 5\]"),
    "too few numbers": ([[1, 2]], r"a list of polygons, each .* but got \[\[1, 2\]\]"),
    "text in a polygon": ([[1, 1, 5, 1, 5, "5"]], "a list of polygons, each"),
    "odd": ([[1, 1, 5, 1, 5, 5, 9]], r"polygons of pairs x, y but got \[\[1, 1, 5, 1, 5, 5, 9\]\]"),
    "a box": ([[1, 1, 5, 1], [1, 1, 5, 1, 5, 5]], "a list of polygons, each"),
    "NaN": ([[1, 1, 5, 1, 5, float("nan")]], "polygons of finite coordinates up to 2e8"),
    "infinite": ([[1, 1, 5, 1, 5, 1e400]], "polygons of finite coordinates up to 2e8"),
    "huge": ([[1, 1, 5, 1, 5, 3e8]], "polygons of finite coordinates up to 2e8"),
    "no size": (
        {"counts": [PIXELS]},
        r"an object with size \[height, width\], integers .* but got {'counts': \[713\]}",
    ),
    "a short size": ({"size": [23], "counts": [23]}, r"an object with size \[height, width\]"),
    "a fraction": ({"size": [23, 0.5], "counts": [23]}, r"an object with size \[height, width\]"),
    "a negative size": ({"size": [-23, -31], "counts": [PIXELS]}, r"an object with size \[height, width\]"),
    "2**32 pixels": ({"size": [2**16, 2**16], "counts": [2**32]}, r"an object with size \[height, width\]"),
    "2**80 pixels": ({"size": [2**40, 2**40], "counts": []}, r"an object with size \[height, width\]"),
    "no counts": ({"size": SIZE}, "an object whose counts are text or a list of integers"),
    "null": ({"size": SIZE, "counts": None}, "an object whose counts are text or a list of integers"),
    "a fraction in counts": ({"size": SIZE, "counts": [0.5, 712.5]}, "an object whose counts are text or a list"),
    "negative": (
        {"size": SIZE, "counts": [-1, PIXELS + 1]},
        "an object whose counts are from 0 on and add up to height x width",
    ),
    "too many": (
        {"size": SIZE, "counts": [PIXELS, 1]},
        "an object whose counts are from 0 on and add up to height x width",
    ),
    "overflow": (
        {"size": SIZE, "counts": [2**31 - 1] * 5},
        "an object whose counts are from 0 on and add up to height x width",
    ),
    "a string that breaks off": ({"size": SIZE, "counts": "P"}, None),
    "characters": ({"size": SIZE, "counts": "é1\n"}, None),
    "a sum": ({"size": SIZE, "counts": "1"}, None),
    "a negative run": ({"size": SIZE, "counts": "O"}, None),
    "10**9 pixels": ({"size": SIZE, "counts": "P" * 11 + "1"}, None),
}


@pytest.mark.parametrize("name", WRONG)
def test_segmentations_that_are_none(tmp_path, name):
    value, need = WRONG[name]
    message = r"annotations\[1\]\.segmentation \(id 101\)" + (f" must be {need}" if need else r"\.counts must")
    good = {"size": [2, 2], "counts": "04"}
    for read in both(tmp_path, of([good, value, {}])):
        assert read_masks(read.annotations, np.array([0, 0])).counts.tolist() == [0, 4] * 2  # nobody asks for others
        for function in (read_masks, measure_masks):
            with pytest.raises(InputError, match=message):
                function(read.annotations, np.array([0, 1, 2]))


def test_a_polygon_across_many_columns(tmp_path):
    path = tmp_path / "wide.json"
    wide = {"images": [{"id": 1, "height": 10, "width": 200_000_000}]}
    for polygons in ([[0, 0, 2e8, 9, 0, 5]], [[0, 0, 7e6, 9, 0, 5]] * 2):
        path.write_text(json.dumps({**wide, "annotations": [{"id": 4, "image_id": 1, "segmentation": polygons}]}))
        read = coco.read_ground_truth(path).annotations
        message = r"\[0\]\.segmentation \(id 4\) must be polygons whose edges cross columns at most 16777216 times"
        with pytest.raises(InputError, match=message):
            measure_masks(read, np.array([0]))


@pytest.mark.parametrize(
    "image", [{"x": 1}, {"height": 5}, {"height": 2**16, "width": 2**16}, {"height": -1, "width": 4}]
)
def test_polygons_need_the_size_of_the_image(tmp_path, image):
    for read in both(tmp_path, of([[[1, 1, 5, 1, 5, 5]]], **image)):
        with pytest.raises(InputError, match=r"\(id 100\) needs height and width of image 7, integers from 0 on"):
            read_masks(read.annotations, np.array([0]))


def test_the_first_of_many_wrong_ones_is_named():
    bad = [{"size": [2, 2], "counts": "04"}] * 1000 + [5, [], {}] * 1000
    read = coco.columns_from_dataset(of(bad))
    with pytest.raises(InputError, match=r"annotations\[1000\]"):
        read_masks(read.annotations, np.arange(len(bad)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[" * 100000 + "]" * 100000, r"\.segmentation \(id 100\) must be a list of polygons, .* but got '\[\[\["),
        (f"[[1, 1, 5, 1, 5, {'9' * 5000}]]", r"must be polygons of finite coordinates up to 2e8 but got '\[\[1, 1"),
        (f'{{"x": {"9" * 5000}, "size": [2, 2], "counts": "P"}}', r"must be an object whose counts are run lengths as"),
        ('{"size": [9, 3], "counts": "5\\u00e9"}', r"\.counts must hold characters .* but has b'\\x00' at position 1"),
        ('{"size": [9, 3], "counts": "5é"}', r"\.counts must hold characters .* but has b'\\x00' at position 1"),
    ],
)
def test_wrong_values_that_python_cannot_read_or_write(tmp_path, value, said):
    path = tmp_path / "set.json"
    path.write_text(json.dumps(of(["here"])).replace('"here"', value))
    with pytest.raises(InputError, match=said):
        read_masks(coco.read_ground_truth(path).annotations, np.array([0]))


@pytest.mark.parametrize("change", [os.remove, lambda path: (os.remove(path), os.mkfifo(path))])
def test_files_that_are_gone(tmp_path, change):
    read, _ = both(tmp_path, of([[[1, 1, 5, 1, 5, 5]]]))
    change(tmp_path / "set.json")
    with pytest.raises(InputError, match="must stay as it is while it is read but has changed"):
        read_masks(read.annotations, np.array([0]))


def test_objects_that_json_does_not_know():
    read = coco.columns_from_dataset(of([{"size": SIZE, "counts": {1, 2}}, [np.array([1, 1, 5, 1, 5, 5])]]))
    assert len(read_masks(read.annotations, np.array([1]))) == 1
    with pytest.raises(InputError, match=r"annotations\[0\]\.segmentation \(id 100\) must be a list of polygons or"):
        read_masks(read.annotations, np.array([0]))
