"""The COCO class against pycocotools on real data, and where it differs on purpose."""

import copy
import gc
import gzip
import json
import os
import pickle
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from testing.oracles import pycocotools
from valor_gpu.coco import COCO
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import columns_from_dataset

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
DATA = Path(__file__).parents[1] / "data"
TRUTH = EXAMPLES / "instances_val2014_100.json"
RESULTS = EXAMPLES / "instances_val2014_fakebbox100_results.json"
PARTS = ("anns", "imgs", "cats", "imgToAnns", "catToImgs", "dataset")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")

    def unpack(name):
        path = folder / name.removesuffix(".gz")
        packed = (DATA if (DATA / name).exists() else EXAMPLES) / name
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return str(path)

    return unpack


def both(*path):
    return COCO(*path), pycocotools("coco").COCO(*path)


def looks_untouched(coco):
    return coco._dataset is None


# --- loading


@pytest.mark.parametrize("name", ["instances_val2014_100_masks.json.gz", "keypoints_1_image.json.gz"])
def test_ground_truth_is_that_of_pycocotools(unpacked, name):
    ours, theirs = both(unpacked(name))
    assert looks_untouched(ours)
    for part in PARTS:
        assert getattr(ours, part) == getattr(theirs, part), part
    assert isinstance(ours.imgToAnns, defaultdict) and ours.imgToAnns[-1] == [] == ours.catToImgs[-1]


@pytest.mark.parametrize(
    ("truth", "results"),
    [
        (TRUTH, RESULTS),
        (EXAMPLES / "instances_val2017_100.json", EXAMPLES / "yolact_resnet50.json"),
        (EXAMPLES / "instances_val2017_100.json", "yolact_resnet50_10_images.json.gz"),
        ("keypoints_1_image.json.gz", "keypoints_1_image_results.json.gz"),
    ],
)
@pytest.mark.parametrize("source", ["file", "list"])
def test_results_are_those_of_pycocotools(unpacked, truth, results, source):
    truth, results = (str(n) if isinstance(n, Path) else unpacked(n) for n in (truth, results))
    ours, theirs = both(truth)
    found = ours.loadRes(results if source == "file" else json.loads(Path(results).read_text()))
    expected = theirs.loadRes(results)
    assert looks_untouched(found) and looks_untouched(ours)
    columns = found.columns
    for part in PARTS:
        assert getattr(found, part) == getattr(expected, part), part
    assert columns.annotations.area.tolist() == [a["area"] for a in expected.dataset["annotations"]]
    read_again = found.columns
    assert read_again.annotations.bbox.tobytes() == columns.annotations.bbox.tobytes()
    assert read_again.annotations.id.tolist() == columns.annotations.id.tolist()
    assert found.imgs[found.getImgIds()[0]] is ours.imgs[found.getImgIds()[0]]
    assert found.cats is not ours.cats and found.cats[1] is not ours.cats[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_array_results_are_those_of_pycocotools(dtype):
    truth = json.loads(RESULTS.read_text())
    array = np.array([[r["image_id"], *r["bbox"], r["score"], r["category_id"]] for r in truth]).astype(dtype)
    ours, theirs = both(str(TRUTH))
    found, expected = ours.loadRes(array), theirs.loadRes(array)
    annotations = found.columns.annotations
    for name in ("image_id", "category_id", "bbox", "score", "area", "id"):
        assert getattr(annotations, name).tolist() == [a[name] for a in expected.dataset["annotations"]], name
    assert found.getImgIds() == expected.getImgIds()
    without_corners = [{k: v for k, v in a.items() if k != "segmentation"} for a in found.dataset["annotations"]]
    if dtype is not np.float32:  # there the corners too are float32 sums
        assert found.dataset == expected.dataset
    assert [a["bbox"] for a in without_corners] == [a["bbox"] for a in expected.dataset["annotations"]]


_BODY = {
    "keypoints": [5, 6, 2, 1, 9, 2], "caption": "a cat", "bbox": [1, 2, 3, 4],
    "segmentation": {"size": [3, 4], "counts": "1243"},
}  # fmt: skip
_KEPT = {
    "caption": ("caption", "bbox"), "keypoints": ("keypoints",), "bbox": ("bbox", "keypoints", "segmentation"),
    "segmentation": ("segmentation", "keypoints"),
}  # fmt: skip


@pytest.mark.parametrize("first", _KEPT)
def test_what_results_describe(first):
    """The first result decides, in the order of pycocotools."""
    dataset = {"images": [{"id": 1}, {"id": 2}], "categories": [{"id": 1}], "annotations": [], "info": {"year": 2017}}
    results = [{"image_id": 2, "category_id": 1, "score": 0.5, **{name: _BODY[name] for name in _KEPT[first]}}]
    results.append({**_BODY, **results[0], "bbox": [2, 3, 4, 5]})
    ours, theirs = both()
    ours.dataset, theirs.dataset = dataset, dataset
    ours.createIndex()
    theirs.createIndex()
    given = copy.deepcopy(results)
    found = ours.loadRes(given).dataset
    expected = theirs.loadRes(copy.deepcopy(results)).dataset
    if first == "segmentation":  # an array there
        expected["annotations"][0]["bbox"] = expected["annotations"][0]["bbox"].tolist()
    assert found == expected
    assert given == results  # pycocotools adds its keys to the caller's objects


@pytest.mark.parametrize("name", ["instances_val2014_fakesegm100_results.json.gz", "keypoints_1_image_results.json.gz"])
def test_results_without_boxes(unpacked, tmp_path, name):
    records = json.loads(Path(unpacked(name)).read_text())
    records = [{key: value for key, value in r.items() if key not in ("bbox", "area")} for r in records]
    path = tmp_path / "dt.json"
    path.write_text(json.dumps(records))
    ours, theirs = both(
        unpacked("instances_val2014_100_masks.json.gz" if "segm" in name else "keypoints_1_image.json.gz")
    )
    found, expected = ours.loadRes(str(path)), theirs.loadRes(str(path))
    assert looks_untouched(found)
    annotations = found.columns.annotations
    assert annotations.area.tolist() == [a["area"] for a in expected.dataset["annotations"]]
    assert annotations.bbox.tolist() == [list(a["bbox"]) for a in expected.dataset["annotations"]]
    for annotation in expected.dataset["annotations"]:
        annotation["bbox"] = list(annotation["bbox"])
    assert found.dataset == expected.dataset
    assert found.columns.annotations.area.tobytes() == annotations.area.tobytes()


def test_prints_what_pycocotools_prints(capsys):
    array = np.array([[42, 0, 0, 4, 5, 0.5, 1]])
    printed = []
    for kind in (COCO, pycocotools("coco").COCO):
        coco = kind(str(TRUTH))
        coco.loadRes(str(RESULTS))
        coco.loadRes(array)
        coco.loadNumpyAnnotations(array)
        coco.info()
        kind().createIndex()
        printed.append(re.sub(r"t=\d+\.\d\ds", "t=0.00s", capsys.readouterr().out))
    assert printed[0] == printed[1]
    assert "loading annotations into memory...\nDone (t=0.00s)\ncreating index...\nindex created!\n" in printed[0]
    assert "Loading and preparing results...\nDONE (t=0.00s)\ncreating index...\nindex created!\n" in printed[0]
    assert "Converting ndarray to lists...\n(1, 7)\n0/1\n" in printed[0]


def test_loading_makes_no_object_for_an_annotation():
    COCO(TRUTH).loadRes(RESULTS)
    gc.collect()
    before = len(gc.get_objects())
    truth = COCO(TRUTH)
    found = truth.loadRes(RESULTS)
    truth.getImgIds(), found.getCatIds(), truth.loadCats(truth.getCatIds()), truth.getCatIds(catNms=["person"])
    gc.collect()
    categories = 2 * len(truth.getCatIds())
    assert len(truth.columns.annotations) == 839
    assert len(gc.get_objects()) < before + categories + 100


# --- queries

# Bounds that two annotations have as their areas: neither lies between them.
AREAS_OF_TWO = sorted(each["area"] for each in json.loads(TRUTH.read_text())["annotations"])[300:601:300]
QUERIES = [
    ("getAnnIds", {}),
    ("getAnnIds", {"imgIds": [42, 73, 42]}),
    ("getAnnIds", {"imgIds": 42}),
    ("getAnnIds", {"imgIds": [42, 999]}),
    ("getAnnIds", {"catIds": [1, 18]}),
    ("getAnnIds", {"imgIds": np.array([73, 74]), "catIds": np.array([1, 18, 4])}),
    ("getAnnIds", {"areaRng": [1000, 2000.5]}),
    ("getAnnIds", {"areaRng": AREAS_OF_TWO}),
    ("getAnnIds", {"areaRng": [0, 1e5], "iscrowd": True}),
    ("getAnnIds", {"iscrowd": 0}),
    ("getAnnIds", {"iscrowd": False, "catIds": 1}),
    ("getCatIds", {}),
    ("getCatIds", {"catNms": ["person", "dog", "unicorn"]}),
    ("getCatIds", {"supNms": ["vehicle"]}),
    ("getCatIds", {"supNms": ["animal"], "catNms": ["dog", "person"]}),
    ("getCatIds", {"catIds": [90, 1, 2]}),
    ("getCatIds", {"catIds": 18}),
    ("getImgIds", {}),
    ("getImgIds", {"imgIds": [42, 73]}),
    ("getImgIds", {"catIds": [1]}),
    ("getImgIds", {"catIds": [1, 3]}),
    ("getImgIds", {"imgIds": [42, 73, 283], "catIds": 1}),
    ("getImgIds", {"catIds": [1, 999]}),
    ("loadAnns", {"ids": 1774}),
    ("loadAnns", {"ids": [1774, 1774]}),
    ("loadCats", {"ids": 18}),
    ("loadCats", {"ids": [18, 1]}),
    ("loadImgs", {"ids": [42]}),
    ("loadImgs", {"ids": 42}),
    ("loadAnns", {}),
    ("loadCats", {}),
    ("loadImgs", {}),
]


@pytest.fixture(scope="module")
def pair():
    return both(str(TRUTH))


@pytest.mark.parametrize(("method", "arguments"), QUERIES)
def test_queries_answer_as_pycocotools(pair, method, arguments):
    ours, theirs = (getattr(coco, method)(**arguments) for coco in pair)
    assert ours == theirs
    fresh = COCO(str(TRUTH))
    assert getattr(fresh, method)(**arguments) == theirs
    if method == "loadCats" or (not arguments and method in ("getCatIds", "getImgIds")):
        assert looks_untouched(fresh)


def test_repeated_image_ids_count_once():
    ours, theirs = both()
    for coco in (ours, theirs):
        coco.dataset = {"images": [{"id": 5}, {"id": 3}, {"id": 5}], "annotations": [], "categories": []}
        coco.createIndex()
    assert ours.getImgIds() == theirs.getImgIds() == [5, 3]


def test_repeated_image_ids_of_a_file(tmp_path):
    path = tmp_path / "gt.json"
    path.write_text('{"images": [{"id": 5}, {"id": 3}, {"id": 5}]}')
    coco = COCO(path)
    assert coco.getImgIds() == [5, 3] and looks_untouched(coco)


# --- objects and columns


def in_memory():
    return {
        "images": [{"id": 1, "height": 9, "width": 9}, {"id": 2}],
        "categories": [{"id": 3, "name": "cat", "supercategory": "animal"}],
        "annotations": [
            {"id": 10, "image_id": 1, "category_id": 3, "bbox": [0, 0, 2, 3], "area": 6, "iscrowd": 0},
            {"id": 11, "image_id": 2, "category_id": 3, "bbox": [1, 1, 5, 5], "area": 20.5, "iscrowd": 1, "ignore": 1},
        ],
    }


def test_a_dataset_set_by_the_user():
    coco = COCO()
    assert coco.dataset == {} and coco.anns == {} and len(coco.columns.annotations) == 0 and coco.getImgIds() == []
    coco.dataset = in_memory()
    coco.createIndex()
    assert sorted(coco.anns) == [10, 11] and coco.catToImgs == {3: [1, 2]}
    rows = coco.columns.annotations
    assert rows.area.tolist() == [6.0, 20.5] and rows.iscrowd.tolist() == [False, True]
    assert rows.ignore.tolist() == [False, True]


def test_a_dataset_filled_in_place():
    coco = COCO()
    coco.dataset.update(in_memory())
    coco.createIndex()
    assert coco.getCatIds() == [3] and coco.getAnnIds(imgIds=[2]) == [11]
    assert coco.columns.annotations.id.tolist() == [10, 11]


@pytest.mark.parametrize("load", [lambda: COCO(TRUTH), lambda: COCO(TRUTH).loadRes(RESULTS)])
def test_changed_objects_change_the_columns(load):
    """What a user does to an object counts, with or without createIndex, as it does for pycocotools."""
    coco = load()
    first = coco.columns.annotations
    coco.anns[int(first.id[0])]["bbox"] = [1, 2, 3, 4]
    assert coco.columns.annotations.bbox[0].tolist() == [1, 2, 3, 4]
    assert coco.columns.annotations.bbox[1:].tolist() == first.bbox[1:].tolist()


def test_index_attributes_can_be_replaced():
    """torchvision's reference evaluation assigns the parts of the index."""
    coco = COCO()
    coco.dataset["annotations"] = in_memory()["annotations"]
    coco.anns, coco.imgs = {1: "a"}, {2: "b"}
    assert coco.anns == {1: "a"} and coco.imgs == {2: "b"} and sorted(coco.imgToAnns) == [1, 2]
    coco.createIndex()
    assert sorted(coco.anns) == [10, 11]


def test_columns_for_some_images():
    touched, untouched = COCO(TRUTH), COCO(TRUTH)
    touched.anns[1774]["area"] = 5.0
    rows = touched.columns_for([74, 42]).annotations
    assert rows.image_id.tolist() == [74] * (rows.image_id == 74).sum() + [42] * (rows.image_id == 42).sum()
    assert rows.id.tolist() == touched.getAnnIds(imgIds=[74, 42]) and rows.area[rows.id == 1774].tolist() == [5.0]
    assert touched.columns_for([74]).category_ids.tolist() == untouched.columns.category_ids.tolist()
    assert untouched.columns_for([74, 42]) is untouched.columns


def test_columns_for_images_take_the_last_annotation_of_an_id():
    coco, dataset = COCO(), in_memory()
    dataset["annotations"][1].update(id=10, image_id=1)
    coco.dataset = dataset
    coco.createIndex()
    rows = coco.columns_for([1]).annotations
    assert rows.area.tolist() == [20.5, 20.5]
    assert coco.columns.annotations.area[coco.columns.annotations.last_of_id()].tolist() == [20.5, 20.5]


def test_category_objects_are_the_same_before_and_after_the_others_are_made():
    coco = COCO(TRUTH)
    first = coco.loadCats(1)[0]
    first["name"] = "human"
    assert looks_untouched(coco)
    assert coco.cats[1] is first is coco.dataset["categories"][0]
    coco.createIndex()
    assert coco.getCatIds(catNms="human") == [1]


def test_a_name_is_one_name():
    """pycocotools would look for names inside the text "hot dog"."""
    coco = COCO(TRUTH)
    assert coco.getCatIds(catNms="hot dog") == [58]
    assert coco.getCatIds(catNms=["hot dog", "dog"]) == [18, 58]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda coco: pickle.loads(pickle.dumps(coco))])
@pytest.mark.parametrize("touch", [False, True])
def test_copies(copied, touch):
    coco = COCO(TRUTH).loadRes(RESULTS)
    if touch:
        assert coco.imgToAnns
    other = copied(coco)
    assert other.columns.annotations.score.tolist() == coco.columns.annotations.score.tolist()
    assert other.dataset == coco.dataset


def test_a_changed_file_is_rejected(tmp_path):
    truth, results = tmp_path / "gt.json", tmp_path / "dt.json"
    truth.write_bytes(TRUTH.read_bytes())
    results.write_bytes(RESULTS.read_bytes())
    coco = COCO(truth)
    found = coco.loadRes(results)
    os.utime(results, ns=(1, 1))
    with pytest.raises(
        InputError, match=r"dt\.json must be as it was when it was loaded but has changed: load it again"
    ):
        found.anns  # noqa: B018
    like = tmp_path / "like.json"
    like.write_bytes(RESULTS.read_bytes())
    other = coco.loadRes(like)
    as_before = like.stat().st_mtime_ns
    results.write_bytes(RESULTS.read_bytes())
    os.replace(results, like)  # another file of the same size and time
    os.utime(like, ns=(as_before, as_before))
    with pytest.raises(InputError, match=r"like\.json must be as it was when it was loaded but has changed"):
        other.anns  # noqa: B018
    truth.write_text('{"images": []}')
    with pytest.raises(InputError, match=r"gt\.json must be as it was when it was loaded but has changed"):
        coco.dataset  # noqa: B018
    assert len(coco.columns.annotations) == 839


def test_a_changed_list_is_rejected():
    results = json.loads(RESULTS.read_text())
    found = COCO(TRUTH).loadRes(results)
    results.pop()
    with pytest.raises(InputError, match="results must be as they were when they were loaded but have changed"):
        found.anns  # noqa: B018


# --- errors


def result(**changes):
    return {"image_id": 42, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 0.5, **changes}


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (
            [result(), result(image_id=41), result()],
            r"Results do not correspond to current coco set: results\[1\]\.image_id must be the id of one of the 100"
            r" images but got 41",
        ),
        (np.array([[7, 0, 0, 1, 1, 0.5, 1]]), r"results\[0\]\.image_id must be the id of .* but got 7"),
        (
            [result(), {"image_id": 42, "category_id": 1}],
            r"results\[1\] must have bbox but has only image_id, category_id",
        ),
        ([result(), result(bbox=[])], r"results\[1\] must have bbox"),
        ([{"bbox": [1, 2, 3, 4]}], r"results\[0\] must have image_id but has only bbox"),
        ([{"image_id": 42, "bbox": [1, 2, 3, 4]}], r"results\[0\] must have category_id but has only image_id, bbox"),
        ([{"image_id": 42, "category_id": 1}], r"results\[0\] must have bbox but has only image_id, category_id"),
        (
            [{"image_id": 42, "category_id": 1, "segmentation": {"size": [1, 1], "counts": "02"}, "bbox": []}],
            r"results\[0\]\.segmentation \(id 1\)\.counts must add up to 1 x 1 pixels, 1, but add up to 2",
        ),
        (
            [result(bbox=[], segmentation={"size": [1, 1], "counts": "01"}), result(bbox=[], keypoints=[1, 2, 2])],
            r"results\[1\] must have segmentation but has only image_id, category_id, score, keypoints",
        ),
        ([result(bbox=[], keypoints=[1, 2])], r"results\[0\]\.keypoints must be finite numbers, x, y and visibility"),
        (
            {"images": [], "annotations": [result()]},
            r"^results must be an array of objects but is an object with images, annotations: if its annotations are",
        ),
        ({"image_id": 42}, r"results must be an array of objects but got {'image_id': 42}"),
        (np.zeros((3, 6)), r"results must be an integer or floating array \[N, 7\] but got float64 \[3, 6\]"),
    ],
)
@pytest.mark.parametrize("touched", [False, True])
def test_results_that_are_rejected(results, message, touched):
    truth = COCO(TRUTH)
    if touched:
        assert truth.anns
    with pytest.raises(InputError, match=message):
        truth.loadRes(results)


def test_unknown_image_in_a_file(tmp_path):
    path = tmp_path / "dt.json"
    path.write_text(json.dumps([result(), result(image_id=3)]))
    with pytest.raises(
        InputError, match=r"dt\.json: \[1\]\.image_id must be the id of one of the 100 images but got 3$"
    ):
        COCO(TRUTH).loadRes(str(path))


def test_results_need_no_score_until_they_are_evaluated():
    """As in pycocotools, where results without scores can be drawn and converted."""
    results = [{k: v for k, v in result().items() if k != "score"}]
    ours, theirs = both(str(TRUTH))
    found = ours.loadRes(copy.deepcopy(results))
    assert found.dataset == theirs.loadRes(results).dataset
    with pytest.raises(InputError, match=r"annotations\[0\] must have score"):
        found.columns.annotations.require("score")


@pytest.mark.parametrize("empty", [[], np.zeros((0, 7)), "file"])
def test_empty_results_are_an_empty_set(tmp_path, empty):
    """pycocotools raises IndexError."""
    if isinstance(empty, str):
        empty = tmp_path / "dt.json"
        empty.write_text("[]")
    truth = COCO(TRUTH)
    found = truth.loadRes(empty)
    assert len(found.columns.annotations) == 0 and found.getImgIds() == truth.getImgIds()
    assert found.getCatIds() == truth.getCatIds() and found.dataset["annotations"] == [] and found.anns == {}


def test_not_a_dataset(tmp_path):
    path = tmp_path / "gt.json"
    path.write_text("[1]")
    with pytest.raises(InputError, match=r"gt\.json.*object"):
        COCO(path)
    coco = COCO()
    coco.dataset = {"annotations": [{"id": 1}]}
    coco.createIndex()
    with pytest.raises(InputError, match=r"dataset: annotations\[0\] must have image_id but has only id"):
        coco.columns  # noqa: B018


# --- masks, drawing, download


@pytest.mark.filterwarnings("ignore:__array__ implementation")
def test_masks_of_annotations(unpacked):
    ours, theirs = both(unpacked("instances_val2014_100_masks.json.gz"))
    for annotation in ours.dataset["annotations"]:
        found, expected = ours.annToRLE(annotation), theirs.annToRLE(theirs.anns[annotation["id"]])
        assert found == expected and type(found["counts"]) is type(expected["counts"])
        mask, reference = ours.annToMask(annotation), theirs.annToMask(annotation)
        assert (mask.dtype, mask.shape) == (reference.dtype, reference.shape)
        assert mask.flags.f_contiguous and mask.tobytes() == reference.tobytes()
    compressed = {"image_id": 42, "segmentation": {"size": [2, 2], "counts": "04"}}
    assert ours.annToRLE(compressed) is compressed["segmentation"]
    assert ours.annToMask(compressed).tolist() == [[1, 1], [1, 1]]


def test_drawing(unpacked, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    people = COCO(unpacked("keypoints_1_image.json.gz"))
    shapes = COCO(unpacked("instances_val2014_100_masks.json.gz"))
    annotations = [a for a in shapes.dataset["annotations"] if not a["iscrowd"]][:20]
    figure, axes = pyplot.subplots()
    shapes.showAnns(annotations, draw_bbox=True)
    fills, edges = axes.collections
    outlines = sum(len(a["segmentation"]) for a in annotations) + len(annotations)
    assert len(fills.get_paths()) == len(edges.get_paths()) == outlines
    assert len(axes.lines) == 0
    people.showAnns(people.loadAnns(people.getAnnIds(iscrowd=0)))
    assert len(axes.lines) > 2 * 13
    crowd = next(a for a in shapes.dataset["annotations"] if a["iscrowd"])
    axes.cla()
    shapes.showAnns([crowd, {**crowd, "iscrowd": 0, "segmentation": shapes.annToRLE(annotations[0])}])
    for image, of in zip(axes.images, (crowd, annotations[0])):
        alpha = image.get_array()[..., 3]
        assert (np.asarray(alpha) == shapes.annToMask(of) * 0.5).all()
    assert len(axes.images) == 2
    pyplot.close(figure)
    capsys.readouterr()
    people.showAnns([{"caption": "a cat"}, {"caption": "a dog"}])
    assert capsys.readouterr().out == "a cat\na dog\n"
    assert people.showAnns([]) is None
    with pytest.raises(InputError, match="annotations to show must have segmentation, keypoints or caption"):
        people.showAnns([{"id": 1}])


def test_download(tmp_path, capsys):
    (tmp_path / "there.jpg").write_bytes(b"picture")
    images = [{"id": i, "file_name": f"{i}.jpg", "coco_url": (tmp_path / "there.jpg").as_uri()} for i in (1, 2, 3)]
    coco = COCO()
    coco.dataset = {"images": images}
    coco.createIndex()
    capsys.readouterr()
    assert coco.download() == -1
    coco.download(str(tmp_path / "new"), imgIds=[1, 3])
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["1.jpg", "3.jpg"]
    coco.download(str(tmp_path / "new"))
    printed = capsys.readouterr().out
    lines = re.sub(r" \(t=\d+\.\ds\)", "", printed).splitlines()
    assert lines == [
        "Please specify target directory",
        *(f"downloaded {n} images" for n in ("0/2", "1/2", "0/3", "1/3", "2/3")),
    ]


# --- imports


def test_names_are_lazy():
    code = (
        "import sys, valor_gpu.coco as c; lazy = 'numpy' not in sys.modules; c.COCO, c.mask.iou, dir(c);"
        "print(lazy, [m for m in ('torch', 'torchmetrics', 'pycocotools', 'matplotlib') if m in sys.modules])"
    )
    root = DATA.parents[1]
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert found.stdout.strip() == "True []"


def test_unknown_name():
    import valor_gpu.coco

    assert "COCO" in dir(valor_gpu.coco)
    with pytest.raises(AttributeError, match=r"module 'valor_gpu\.coco' has no attribute 'COCOO'"):
        valor_gpu.coco.COCOO  # noqa: B018


def test_columns_of_in_memory_and_file_are_equal(tmp_path):
    path = tmp_path / "gt.json"
    path.write_text(json.dumps(in_memory()))
    assert COCO(path).columns.annotations.bbox.tolist() == columns_from_dataset(in_memory()).annotations.bbox.tolist()
