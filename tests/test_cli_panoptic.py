"""``valor-gpu panoptic``: numbers of the bundled images, of files by hand, and what every kind of bad file says."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from testing.panoptic_files import GROUND_TRUTH, PREDICTIONS, Files, make_predictions, read_ids, segment
from testing.png_files import chunk, made
from tests.fuzz import seeds
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.inputs import panoptic_files

EXAMPLES = ["--gt", str(GROUND_TRUTH), "--pred", str(PREDICTIONS)]


def document(tmp_path: Path, arguments: list[str]) -> dict[str, Any]:
    """What ``--json`` writes."""
    assert main(["panoptic", *arguments, "--quiet", "--json", str(tmp_path / "out.json")]) == OK
    return json.loads((tmp_path / "out.json").read_text())  # type: ignore[no-any-return]


# -------------------------------------------------------------------------------------------------------- definition


def expected(ground_truth: Path, predictions: Path) -> dict[int, list[Any]]:
    """Of each category sum of IoUs, true and false positives, false negatives, over sets of pixels of each segment.

    Kirillov et al. 2019, section 4: void and crowds of the ground truth as in 4.2.
    """
    whole, found = json.loads(ground_truth.read_text()), json.loads(predictions.read_text())
    scores: dict[int, list[Any]] = {category["id"]: [Fraction(0), 0, 0, 0] for category in whole["categories"]}
    for true, pred in zip(whole["annotations"], found["annotations"]):
        ids = read_ids(ground_truth.with_suffix("") / true["file_name"]).ravel()
        own = read_ids(predictions.with_suffix("") / pred["file_name"]).ravel()
        targets = {s["id"]: set(np.flatnonzero(ids == s["id"]).tolist()) for s in true["segments_info"]}
        void, matched = set(np.flatnonzero(ids == 0).tolist()), set()
        for segment_ in pred["segments_info"]:
            pixels, category = set(np.flatnonzero(own == segment_["id"]).tolist()), segment_["category_id"]
            counts = scores[category]
            same = [s for s in true["segments_info"] if s["category_id"] == category]
            crowds = set().union(*(targets[s["id"]] for s in same if s["iscrowd"]))
            for other in same:
                common = len(pixels & targets[other["id"]])
                iou = Fraction(common, len((pixels - void) | targets[other["id"]]))
                if not other["iscrowd"] and iou > Fraction(1, 2):
                    counts[0], counts[1] = counts[0] + iou, counts[1] + 1
                    matched.add(other["id"])
                    break
            else:
                counts[2] += 2 * len(pixels & (void | crowds)) <= len(pixels)
        for segment_ in true["segments_info"]:
            scores[segment_["category_id"]][3] += segment_["id"] not in matched and not segment_["iscrowd"]
    return scores


def check_numbers(values: dict[str, Any], scores: dict[int, list[Any]], ids: dict[str, int]) -> None:
    """Compares every category and the mean with the definition."""
    qualities = []
    for name, category in ids.items():
        iou, tp, fp, fn = scores[category]
        assert [values[f"{row}_per_class"][name] for row in ("tp", "fp", "fn")] == [tp, fp, fn], name
        if tp + fp + fn == 0:
            assert values["pq_per_class"][name] is None
            continue
        qualities.append(iou / (tp + Fraction(fp + fn, 2)))
        assert values["pq_per_class"][name] == pytest.approx(float(qualities[-1]), abs=1e-14)
        assert values["sq_per_class"][name] == (pytest.approx(float(iou / tp), abs=1e-14) if tp else None)
    assert values["pq"] == pytest.approx(float(sum(qualities) / len(qualities)), abs=1e-14)


def test_bundled_images(tmp_path: Path) -> None:
    found = document(tmp_path, EXAMPLES)
    check_numbers(found["values"], expected(GROUND_TRUTH, PREDICTIONS), found["categories"])
    assert found["counts"]["images"] == 2 and found["counts"]["crowds"] == 3
    assert found["counts"]["segments_of_other_areas"] == found["counts"]["segments_without_pixels"] == 0


@pytest.mark.parametrize("seed", seeds(3))
def test_predictions_of_other_seeds(seed: int, tmp_path: Path) -> None:
    predictions = tmp_path / "pred.json"
    make_predictions(GROUND_TRUTH, predictions, 100 + seed)
    found = document(tmp_path, [*EXAMPLES[:2], "--pred", str(predictions), "--threads", str(seed + 1)])
    check_numbers(found["values"], expected(GROUND_TRUTH, predictions), found["categories"])


def test_the_bundled_predictions_are_those_of_the_generator(tmp_path: Path) -> None:
    make_predictions(GROUND_TRUTH, tmp_path / PREDICTIONS.name, 2)
    assert (tmp_path / PREDICTIONS.name).read_text() == PREDICTIONS.read_text()
    for path in PREDICTIONS.with_suffix("").iterdir():
        assert np.array_equal(read_ids(path), read_ids(tmp_path / PREDICTIONS.stem / path.name))


def test_a_perfect_prediction_has_one_of_everything(tmp_path: Path) -> None:
    """Also where crowds are predicted as segments: they are excused."""
    found = document(tmp_path, _copied(tmp_path))
    assert [found["values"][name] for name in ("pq", "sq", "rq", "pq_things", "pq_stuff")] == [1.0] * 5
    assert found["counts"]["ignored_predictions"] == found["counts"]["crowds"] == 3


def _copied(folder: Path) -> list[str]:
    shutil.copy(GROUND_TRUTH, folder / "pred.json")
    shutil.copytree(GROUND_TRUTH.with_suffix(""), folder / "pred")
    return [*EXAMPLES[:2], "--pred", str(folder / "pred.json")]


# ------------------------------------------------------------------------------------------------------------ by hand


def by_hand(folder: Path) -> Files:
    """Two images: a cat that is found (4/5), a dog beside a crowd, sky that is missed; and an image id that is text."""
    files = Files(folder)
    files.add(
        7,
        [[1, 1, 1, 1, 0], [2, 2, 2, 3, 3]],
        [segment(1, 1, area=4), segment(2, 2, iscrowd=1, area=3), segment(3, 9, area=2)],
        [[70000] * 5, [80, 80, 80, 80, 0]],
        [segment(70000, 1), segment(80, 2)],
    )
    files.add("second", [[256, 256], [257, 257]], [segment(256, 1), segment(257, 9)], [[5, 5], [5, 6]],
              [segment(5, 1), segment(6, 9)])  # fmt: skip
    return files


def test_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """cat: IoU 4 / (5 - 1) = 1 and 2/3; dog: nothing counts, 3 of 4 pixels on the crowd; sky: missed, and IoU 1/2."""
    arguments = by_hand(tmp_path).write()
    found = document(tmp_path, [*arguments, "--per-image", str(tmp_path / "images.csv")])
    values = found["values"]
    assert values["pq_per_class"] == {"cat": pytest.approx(5 / 6), "dog": None, "sky": 0.0}
    assert values["pq"] == pytest.approx(5 / 12) and values["rq_per_class"]["cat"] == 1.0
    assert [values[f"{row}_per_class"]["sky"] for row in ("tp", "fp", "fn")] == [0, 1, 2]
    assert found["reasons"]["pq_per_class/dog"] == "no segment counts for it, true or predicted"
    assert found["counts"] == {
        "images": 2, "ground_truths": 4, "predictions": 4, "ignored_predictions": 1, "absent_classes": 1, "crowds": 1,
        "images_of_predictions_left_out": 0, "segments_of_other_areas": 0, "segments_without_pixels": 0,
        "ground_truths_without_iscrowd": 0,
    }  # fmt: skip
    lines = (tmp_path / "images.csv").read_text().splitlines()
    assert lines[0] == "image_id,file_name,pq,sq,rq,tp,fp,fn,predictions,ground_truths"
    assert lines[1] == "7,7.png,0.5,0.5,0.5,1,0,1,2,2" and lines[2].startswith("second,second.png,0.33")
    assert capsys.readouterr() == ("", "")
    assert main(["panoptic", *arguments, "--per-class"]) == OK
    out = capsys.readouterr().out
    assert "cat    0.833  0.833  1.000   2   0   0" in out and "dog" not in out
    assert "2 images, 4 ground truths and 1 crowd, 4 predictions (1 of them ignored" in out


def test_the_last_crowd_of_a_category_excuses_as_in_panopticapi(tmp_path: Path) -> None:
    for order, positives in (((1, 2), 1), ((2, 1), 0)):
        files = Files(tmp_path)
        crowds = {1: segment(1, 2, iscrowd=1), 2: segment(2, 2, iscrowd=1)}
        listed = [crowds[number] for number in order]
        files.add(1, [[1, 1, 1, 2, 2]], listed, [[9, 9, 9, 9, 0]], [segment(9, 2)])
        found = document(tmp_path, files.write())
        assert found["values"]["fp_per_class"]["dog"] == positives


def test_doubtful_data_is_counted_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = by_hand(tmp_path)
    files.gt["annotations"][0]["segments_info"][0]["area"] = 5
    files.gt["annotations"][0]["segments_info"].append(segment(11, 1))
    files.pred["annotations"].append({"image_id": 8, "file_name": "no.png", "segments_info": []})
    found = document(tmp_path, files.write())
    assert found["values"]["fn_per_class"]["cat"] == 1
    warnings = capsys.readouterr().err.splitlines()
    assert [line.split(": ", 2)[2].replace(f"{tmp_path}/", "") for line in warnings] == [
        "pred.json has predictions of 1 image that gt.json does not have: left out",
        "1 segment of gt.json has another area than pixels: pixels are counted, panopticapi takes the area",
        "1 segment of gt.json has no pixels: counted as missed",
    ]


def test_segments_without_iscrowd_are_counted_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = by_hand(tmp_path)
    complete = document(tmp_path, files.write())["values"]
    cat, _, sky = files.gt["annotations"][0]["segments_info"]
    del cat["iscrowd"], files.pred["annotations"][0]["segments_info"][0]["iscrowd"]
    sky["iscrowd"] = None
    found = document(tmp_path, files.write())
    assert found["values"] == complete and found["counts"]["ground_truths_without_iscrowd"] == 2
    told = f"{tmp_path}/gt.json have no iscrowd: 0 is used"
    assert capsys.readouterr().err == f"valor-gpu panoptic: warning: 2 segments of {told}\n"


def test_no_images_and_no_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path)
    (tmp_path / "gt").mkdir()
    (tmp_path / "pred").mkdir()
    assert document(tmp_path, files.write())["values"]["pq"] is None
    assert "has no annotations, so that no number exists" in capsys.readouterr().err
    files.add(1, [[0, 0]], [], [[0, 0]], [])
    found = document(tmp_path, files.write())
    assert found["values"]["pq"] is None and found["counts"]["images"] == 1
    assert found["reasons"]["pq"] == "no segment of any of its categories counts"


def test_the_command_loads_no_torch() -> None:
    code = "import sys; from valor_gpu.cli import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, "panoptic", *EXAMPLES, "--quiet", "--json", "/dev/null"], check=True)


# ------------------------------------------------------------------------------------------------------------- errors


def _resave(mode: str) -> Callable[[Path], None]:
    def resave(path: Path) -> None:
        with Image.open(path) as image:
            converted = image.convert(mode)
        converted.save(path)

    return resave


def _png(width: int, height: int, depth: int, color: int, raw: bytes = b"") -> bytes:
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return made(head, chunk(b"IDAT", zlib.compress(raw)))


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


PICTURES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, r"pred/7.png must be there, as .*pred.json: annotations\[0\] names it, but is not"),
    "a folder": (_to_folder, "pred/7.png must be a regular file but is not"),
    "no PNG": (lambda p: p.write_bytes(b"GIF89a.."), "pred/7.png must be a PNG but begins with b'GIF89a..'") ,
    "empty": (lambda p: p.write_bytes(b""), "pred/7.png must be a PNG but begins with b''"),
    "header alone": (lambda p: p.write_bytes(p.read_bytes()[:20]), "must be a whole PNG but is truncated after 20"),
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:50]), "must be a whole PNG but is truncated after 50"),
    "a bit": (lambda p: p.write_bytes(p.read_bytes()[:44] + b"?" + p.read_bytes()[45:]), "pred/7.png must be a whole"),
    "palette": (_resave("P"), r"pred/7.png must have the ids of segments as RGB of 8 bits .* but has palette"),
    "grey": (_resave("L"), "but has grey$"),
    "alpha": (_resave("RGBA"), "but has RGB with transparency"),
    "16 bits": (lambda p: p.write_bytes(_png(5, 2, 16, 2, b"\0" * 62)), "but has RGB of 16 bits"),
    "a bomb": (lambda p: p.write_bytes(_png(100_000, 100_000, 8, 2)), "must expand at most 256 times but .*: if "),
    "another size": (lambda p: p.write_bytes(_png(4, 2, 8, 2, b"\0" * 26)),
                     "pred/7.png must be 5 x 2 pixels like .*gt/7.png but is 4 x 2 pixels"),
}  # fmt: skip


@pytest.mark.parametrize("case", PICTURES)
def test_bad_pictures(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, said = PICTURES[case]
    files = by_hand(tmp_path)
    spoil(tmp_path / "pred" / "7.png")
    assert main(["panoptic", *files.write()]) == BAD_INPUT
    check_error(capsys, said)


def test_a_large_image_of_one_segment_is_read(tmp_path: Path) -> None:
    """Of 24 million pixels, which a PNG holds in a 900th of their bytes."""
    path = tmp_path / "one.png"
    path.write_bytes(_png(6000, 4000, 8, 2, (b"\0" + b"\7\1\0" * 6000) * 4000))
    ids = panoptic_files.read_ids(str(path), "a test").ids
    assert ids.shape == (4000, 6000, 3) and ids[0, 0].tolist() == ids[-1, -1].tolist() == [7, 1, 0]


def check_error(capsys: pytest.CaptureFixture[str], said: str) -> None:
    out, err = capsys.readouterr()
    with pytest.raises(ValueError, match=said):
        raise ValueError(err.strip())
    assert out == "" and err.count("\n") == 1


def _set(*path: Any, side: str = "gt") -> Callable[[Any], Callable[[Files], None]]:
    def to(value: Any) -> Callable[[Files], None]:
        def spoil(files: Files) -> None:
            at = getattr(files, side)
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = value

        return spoil

    return to


_FIRST = ("annotations", 0, "segments_info", 0)
LISTS: dict[str, tuple[Callable[[Files], None], str]] = {
    "unknown category": (_set(*_FIRST, "category_id")(4),
                         r"gt.json: annotations\[0\].segments_info\[0\].category_id must be a category of .* but is 4"),
    "unknown predicted": (_set(*_FIRST, "category_id", side="pred")(4),
                          r"pred.json: annotations\[0\].segments_info\[0\].category_id must be a category of"),
    "an id that is not listed": (_set(*_FIRST, "id", side="pred")(70001),
                                 r"pred/7.png must have ids of segments but has 70000 at row 0, column 0, which"),
    "an id of the truth": (_set(*_FIRST, "id")(4), "gt/7.png must have ids of segments but has 1 at row 0, column 0"),
    "no pixels": (lambda f: f.pred["annotations"][0]["segments_info"].append(segment(3, 1)),
                  "pred/7.png must have pixels of segment 3, which .*pred.json: annotations.0. lists"),
    "an id twice": (_set(*_FIRST, "id")(2), r"annotations\[0\] must have each segment id once but repeats 2"),
    "an id of 0": (_set(*_FIRST, "id")(0), r"segments_info\[0\].id must be from 1 to 16777215 but is 0"),
    "a huge id": (_set(*_FIRST, "id")(2**24), "must be from 1 to 16777215 but is 16777216"),
    "an id that is text": (_set(*_FIRST, "id")("1"), "id must be int but is str"),
    "a crowd of 2": (_set(*_FIRST, "iscrowd")(2), "iscrowd must be 0 or 1 but is 2"),
    "a huge category": (_set(*_FIRST, "category_id")(2**70), "category_id must fit in int64 but is 1180591620"),
    "an image twice": (_set("annotations", 1, "image_id")(7), r"annotations\[1\] must have an image_id of its own"),
    "no prediction": (_set("annotations", 0, "image_id", side="pred")(8),
                      "pred.json must have a prediction for every image of .*gt.json but has none for image 7$"),
    "a path": (_set("annotations", 0, "file_name")("../gt/7.png"), "file_name must name a file inside the folder but"),
    "no file name": (lambda f: f.gt["annotations"][0].pop("file_name"), r"annotations\[0\] must have file_name but"),
    "a list": (lambda f: setattr(f, "pred", []), "pred.json must be an object with annotations but is list"),
    "no annotations": (lambda f: setattr(f, "pred", {}), "pred.json must have annotations but has nothing"),
    "null": (_set("annotations", 0)(None), r"annotations\[0\] must be an object but is null"),
    "no categories": (_set("categories")([]), "gt.json must have categories but has none"),
    "a category twice": (_set("categories", 1, "id")(1), r"categories\[1\] must have an id of its own but repeats 1"),
    "isthing 3": (_set("categories", 1, "isthing")(3), r"categories\[1\].isthing must be 0 or 1 but is 3"),
    "a size": (_set("images")([{"id": 7, "width": 6, "height": 2}]),
               "gt/7.png must be 6 x 2 pixels, as .*gt.json says, but is 5 x 2 pixels"),
    "images": (_set("images")(3), "gt.json: images must be a list but is int"),
}  # fmt: skip


def test_flags_that_are_booleans_and_a_byte_order_mark(tmp_path: Path) -> None:
    files = by_hand(tmp_path)
    arguments = files.write()
    expected = document(tmp_path, arguments)
    for category in files.gt["categories"]:
        category["isthing"] = bool(category["isthing"])
    for path, whole in ((tmp_path / "gt.json", files.gt), (tmp_path / "pred.json", files.pred)):
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps(whole).encode())
    found = document(tmp_path, arguments)
    for name in ("values", "counts"):
        assert found[name] == expected[name]


@pytest.mark.parametrize("case", LISTS)
def test_bad_lists(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, said = LISTS[case]
    files = by_hand(tmp_path)
    spoil(files)
    assert main(["panoptic", *files.write()]) == BAD_INPUT
    check_error(capsys, said)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"annotations": 1' + "0" * 5000 + "}", "\x80"])
def test_what_is_no_json(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = by_hand(tmp_path).write()
    (tmp_path / "pred.json").write_text(text, "latin-1")
    assert main(["panoptic", *arguments]) == BAD_INPUT
    check_error(capsys, "pred.json must be JSON but is not")


def test_how_many_other_images_are_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = by_hand(tmp_path).write()
    for path in (tmp_path / "pred").iterdir():
        path.unlink()
    assert main(["panoptic", *arguments]) == BAD_INPUT
    check_error(capsys, r"pred/7.png must be there.* \(1 more of 2 images have errors\)")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--pred-dir", "nowhere"], "--pred-dir must be the folder of the PNG of --pred but nowhere does not exist"),
        (["--gt-dir", str(GROUND_TRUTH)], "--gt-dir must be the folder of the PNG of --gt but .* is a file"),
        (["--per-image", str(PREDICTIONS)], "--per-image must be another file than --pred"),
        (["--per-image", "nowhere/a.csv"], "--per-image must lie in a folder that exists"),
        (["--json", str(PREDICTIONS)], "--json must be another file than --pred"),
    ],
)
def test_bad_options(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["panoptic", *EXAMPLES, *more]) == BAD_INPUT
    check_error(capsys, said)


def test_a_picture_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = shutil.copytree(GROUND_TRUTH.with_suffix(""), tmp_path / "gt") / "000000142238.png"
    content = picture.read_bytes()
    for option in ("--per-image", "--json"):
        assert main(["panoptic", *EXAMPLES, "--gt-dir", f"{tmp_path}/gt", option, str(picture)]) == BAD_INPUT
        check_error(capsys, f"{option} must be another file than those of --gt-dir but {picture} is one of them")
    assert picture.read_bytes() == content


def test_without_pillow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["panoptic", *EXAMPLES]) != OK
    check_error(capsys, r"reading .*000000142238.png needs Pillow: pip install 'valor_gpu\[images\]'")
