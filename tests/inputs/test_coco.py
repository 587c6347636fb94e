"""COCO JSON to columns: the native scanner against Python's json, on real data and on generated text."""

import gc
import gzip
import json
import math
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs import coco
from valor_gpu.inputs._coco_scan import JsonFile

DATA = Path(__file__).parents[1] / "data"
EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
COLUMNS = ("id", "image_id", "category_id", "bbox", "area", "iscrowd", "ignore", "score", "present")

with_native = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))
generated = settings(
    max_examples=len(seeds(40)),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)


@pytest.fixture(params=[pytest.param("native", marks=with_native), "json"])
def reader(request, monkeypatch):
    """Both ways to read a file."""
    if request.param == "json":
        monkeypatch.setattr(native, "usable", lambda name: False)
    return request.param


def same(left, right):
    for name in COLUMNS:
        one, two = getattr(left, name), getattr(right, name)
        assert (one.dtype, one.shape) == (two.dtype, two.shape), name
        assert one.tobytes() == two.tobytes(), name


def same_dataset(left, right):
    same(left.annotations, right.annotations)
    assert left.image_ids.tobytes() == right.image_ids.tobytes()
    assert left.category_ids.tobytes() == right.category_ids.tobytes()
    assert left.categories == right.categories


def write(folder, text, name="file.json"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def unpacked(folder, name):
    packed = (DATA if (DATA / name).exists() else EXAMPLES) / name
    path = folder / packed.stem
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def scan(path, threads, chunk_bytes, fields=coco._RESULT_FIELDS):
    with JsonFile.open(path, threads=threads, chunk_bytes=chunk_bytes) as file:
        columns, end = file.array(file.skip_space(0), fields, "rows")
        file.finish(end)
    return coco._annotations(columns, "rows")


def rows_by_json(path, fields=coco._RESULT_FIELDS):
    records = json.loads(path.read_text(encoding="utf-8"))
    if fields is coco._RESULT_FIELDS:
        return coco.result_rows(records, "rows")
    return coco._annotations(coco.columns_from_records(records, "rows", fields), "rows")


# --- real data


@with_native
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "name", ["instances_val2014_100_masks.json.gz", "val2017_real_boxes_gt.json.gz", "keypoints_1_image.json.gz"]
)
def test_ground_truth_equals_json(tmp_path, name, threads):
    path = unpacked(tmp_path, name)
    expected = json.loads(path.read_text())
    found = coco.read_ground_truth(path, threads=threads)
    same_dataset(found, coco.columns_from_dataset(expected))
    annotations = expected["annotations"]
    assert found.annotations.id.tolist() == [a["id"] for a in annotations]
    assert found.annotations.bbox.tolist() == [a["bbox"] for a in annotations]
    assert found.annotations.area.tolist() == [a["area"] for a in annotations]
    assert found.annotations.iscrowd.tolist() == [bool(a["iscrowd"]) for a in annotations]
    assert found.image_ids.tolist() == [i["id"] for i in expected["images"]]
    assert found.category_names == tuple(c["name"] for c in expected["categories"])


@with_native
@pytest.mark.parametrize("chunk_bytes", [100, 5000, 1 << 20])
@pytest.mark.parametrize("name", ["yolact_resnet50_10_images.json.gz", "keypoints_1_image_results.json.gz"])
def test_results_equal_json(tmp_path, name, chunk_bytes):
    path = unpacked(tmp_path, name)
    same(scan(path, 3, chunk_bytes), rows_by_json(path))
    found, records = coco.read_results(path), json.loads(path.read_text())
    assert found.score.tolist() == [r["score"] for r in records]
    assert found.area.tolist() == [r["bbox"][2] * r["bbox"][3] for r in records]
    assert found.id.tolist() == list(range(1, len(records) + 1))
    same(found, coco.columns_from_results(records))


@with_native
def test_polygons_are_stepped_over_at_any_chunk_size(tmp_path):
    annotations = json.loads(unpacked(tmp_path, "instances_val2014_100_masks.json.gz").read_text())["annotations"]
    path = write(tmp_path, json.dumps(annotations))
    for chunk_bytes in (64, 1000, 30_000):
        same(scan(path, 2, chunk_bytes, coco._ALL_FIELDS), rows_by_json(path, coco._ALL_FIELDS))


# --- generated text

_digits = st.text("0123456789", min_size=1, max_size=25)
numbers = st.one_of(
    st.floats().map(json.dumps),
    st.floats(0, 5000).map(lambda x: repr(round(x, 2))),
    st.integers(-(10**30), 10**30).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "-0", "-0.0", "0e999999999999999999999", "1e400", "-1e400"]),
)
integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str), st.integers(0, 600_000).map(str), st.sampled_from(["1.0", "-0", "2e3"])
)
space = st.text(" \n\t\r", max_size=3)
strings = st.text(st.characters(codec="utf-8"), max_size=12).map(json.dumps)
tricky = st.sampled_from(
    ['"}"', '"]"', r'"\\"', r'"\""', r'"a,{\"image_id\":1}"', '",{"', '[{"image_id":3},{"image_id":4}]', '{"id":[{}]}']
)
unknown = st.recursive(
    st.one_of(strings, tricky, numbers, st.sampled_from(["true", "false", "null"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(inner, max_size=3).map(lambda items: "{" + ",".join(f'"image_id" :{i}' for i in items) + "}"),
    ),
    max_leaves=6,
)
null = st.just("null")
VALUES = {
    "id": st.one_of(integers, null),
    "image_id": integers,
    "category_id": integers,
    "bbox": st.one_of(
        st.lists(numbers, min_size=4, max_size=4).map(lambda b: f"[{' , '.join(b)}]"), st.just("[ ]"), null
    ),
    "area": st.one_of(numbers, null),
    "score": st.one_of(numbers, null),
    "iscrowd": st.one_of(numbers, st.sampled_from(["true", "false", "null"])),
    "ignore": st.one_of(numbers, st.sampled_from(["true", "false", "null"])),
    "segmentation": unknown,
    "keypoints": unknown,
    "caption": st.one_of(strings, null),
    "other": unknown,
    "image_id2": unknown,
    "imag": unknown,
}


def escaped(draw, key):
    """The key as JSON, some letters as escapes, in either case of hexadecimal digits."""
    spelled = (f"\\u{ord(c):04x}" if draw(st.integers(0, 9)) == 0 else c for c in key)
    return '"' + "".join(spelled) + '"'


@st.composite
def record_texts(draw):
    keys = draw(st.lists(st.sampled_from(list(VALUES)), max_size=7))  # repeated keys too: the last one counts
    gap = draw(space)
    members = [f"{gap}{escaped(draw, key)}{draw(space)}:{draw(space)}{draw(VALUES[key])}{gap}" for key in keys]
    return "{" + (",".join(members) or gap) + "}"


@st.composite
def array_texts(draw):
    gap = draw(space)
    return gap + "[" + gap + f"{gap},{gap}".join(draw(st.lists(record_texts(), max_size=12))) + gap + "]" + gap


@with_native
@generated
@given(text=array_texts(), threads=st.integers(1, 3), chunk_bytes=st.integers(1, 80))
def test_any_layout_equals_json(tmp_path, text, threads, chunk_bytes):
    path = write(tmp_path, text)
    same(scan(path, threads, chunk_bytes, coco._ALL_FIELDS), rows_by_json(path, coco._ALL_FIELDS))


@with_native
@generated
@given(text=array_texts())
def test_dataset_members_in_any_order(tmp_path, text):
    """The three arrays between others, twice: the last one of a name counts."""
    path = write(tmp_path, f'{{"x": {text}, "images": [{{"id": 5}}], "annotations": {text}, "i\\u006dages": []}}\n')
    try:
        expected = coco.columns_from_dataset(json.loads(path.read_text(encoding="utf-8")))
    except InputError as error:
        with pytest.raises(InputError, match=r"annotations\[\d+\] must have (id|image_id)") as caught:
            coco.read_ground_truth(path)
        assert str(caught.value).split(": ", 1)[1] == str(error).split(": ", 1)[1]
    else:
        same_dataset(coco.read_ground_truth(path), expected)


NUMBERS = [
    *("0", "-0", "-0.0", "0.0", "-0e5", "0.1", "412.55", "0.964311", "1.0", "12345678.5", "99999999", "999999999"),
    *("9007199254740993", "9007199254740993.0", "9223372036854775807", "-9223372036854775808", "18446744073709551616"),
    *(
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "123456789012345678901234567890",
        "0.1e-5",
        "1E+2",
        "1e-400",
        "-1e-400",
        "1e400",
    ),
    *("4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "2.2250738585072011e-308", "5e-324"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "NaN", "Infinity", "-Infinity", "0e99999999999999999999"),
    *("1e99999999999999999999", "1e-99999999999999999999", "0.000000000000000000000000000001", "1" + "0" * 308),
    *("0." + "0" * 400 + "1", "0." + "0" * 400 + "1e401", "0." + "0" * 400 + "1e900", "1" + "0" * 400 + "e-900"),
    *(
        "8.5",
        "8.55",
        "8.555",
        "88.55555",
        "888888.5",
        "1.5e3",
        "1234567.1234567",
        "12345678.1",
        "1.12345678",
        "1.5e",
        "12.",
        "1.50e-3",
        "1234567e2",
        "123456.5E2",
        "1.1234567e1",
        "00.5",
        "01",
    ),
]


@with_native
@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_those_of_json(tmp_path, text):
    """Each at every distance from the end of the file, where other steps read it."""
    for after in ("", " ", " " * 8, " " * 16):
        path = write(tmp_path, f'[{{"score":{text}}}]{after}')
        try:
            expected = json.loads(text)
        except json.JSONDecodeError:
            with pytest.raises(InputError, match=r"byte \d+: needed ',' or '}'"):
                scan(path, 1, 1 << 20)
        else:
            assert struct.pack("d", scan(path, 1, 1 << 20).score[0]) == struct.pack("d", float(expected))


@with_native
def test_integer_beyond_the_doubles_is_infinite(tmp_path):
    huge = "1" + "0" * 400
    path = write(tmp_path, f'[{{"score": {huge}}}, {{"score": -{huge}}}]')
    assert scan(path, 1, 1 << 20).score.tolist() == [math.inf, -math.inf]
    assert rows_by_json(path).score.tolist() == [math.inf, -math.inf]


@with_native
@pytest.mark.parametrize("bad", ['"{}[],:0-.e xtn'])
def test_every_damaged_byte_is_judged_as_by_json(tmp_path, bad):
    """Where nothing is stepped over, text passes exactly when it does for json, and gives the same columns."""
    good = '[{"image_id":1,"category_id":2,"bbox":[1,2.5,3,-4e1],"score":0.25},\n {"score":1}]'
    passed = 0
    texts = [good[:i] for i in range(1, len(good))]
    texts += [good[:i] + b + good[i + 1 :] for i in range(len(good)) for b in bad]
    for text in texts:
        path = write(tmp_path, text)
        try:
            expected = rows_by_json(path)
        except (InputError, ValueError, AttributeError):
            with pytest.raises(InputError, match=r"byte \d+|rows\[\d\]"):
                scan(path, 1, 1 << 20)
        else:
            if isinstance(json.loads(text), list):
                same(scan(path, 1, 1 << 20), expected)
                passed += 1
    assert passed > 50


@with_native
@pytest.mark.parametrize("spaces", [0, 16])
@pytest.mark.parametrize(
    "key",
    [
        r"id",
        r"\u0069\u0064",
        r"i\u0064\u0022",
        r"id\u0022x",
        r"id\"",
        r"id\u0000",
        r"i\u0164",
        r"ids",
        r"i",
        r"",
        r"\ud83d\ude00",
        r"image_i\u0064",
        r"imag\u0045_id",
        r"image_i\u006",
        r"segmentatio\u006E",
        r"segmentationn",
        r"score\n",
        r"\u00e9",
    ],
)
def test_keys_are_those_of_json(tmp_path, key, spaces):
    path = write(tmp_path, f'[{{"{key}":5}}]' + " " * spaces)
    try:
        expected = rows_by_json(path, coco._ALL_FIELDS)
    except json.JSONDecodeError:
        with pytest.raises(InputError, match=r"byte \d+: needed an escape such as"):
            scan(path, 1, 1 << 20, coco._ALL_FIELDS)
    else:
        same(scan(path, 1, 1 << 20, coco._ALL_FIELDS), expected)


@with_native
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nested_in", [range(9), (4,), (2, 3, 8)])
def test_wrong_guesses_of_record_starts(tmp_path, threads, nested_in):
    """Nested objects that look just like records, in some records or all, at every possible cut."""
    nested = [0, {"id": 70}, {"id": 71}]
    records = [{"id": i, **({"x": nested} if i in nested_in else {}), "score": i / 8} for i in range(9)]
    text = json.dumps(records, separators=(",", ":"))
    path = write(tmp_path, text)
    for chunk_bytes in range(1, len(text)):
        found = scan(path, threads, chunk_bytes, coco._ALL_FIELDS)
        assert found.id.tolist() == list(range(9))
        assert found.score.tolist() == [r["score"] for r in records]


@with_native
def test_an_error_behind_a_wrong_guess_has_its_row_and_byte(tmp_path):
    records = [{"id": i, "x": [{"id": i}, {"id": i}], "score": 0} for i in range(9)]
    records[6]["score"] = "high"
    path = write(tmp_path, json.dumps(records, separators=(",", ":")))
    for chunk_bytes in (3, 20, 50, 1000):
        with pytest.raises(InputError, match=r"^rows\[6\]\.score must be a number but got 'high'$"):
            scan(path, 2, chunk_bytes)


# --- errors

RESULT = '{"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": 0.5}'
RESULT_ERRORS = [
    ("", "byte 0: needed a value but the file is empty", "byte 0: Expecting value"),
    (
        '{"images": []}',
        r"byte 0: needed an array of objects but got '{\"images\": \[\]}'",
        "must be an array of objects",
    ),
    (f"[{RESULT}, ", r"byte 72: needed a value but the file ends", "byte 72: Expecting value"),
    (f"[{RESULT}", r"byte 70: needed ',' or '\]' but the file ends", "byte 70: Expecting ',' delimiter"),
    (f"[{RESULT}] x", "byte 72: needed the end of the file but got 'x'", "byte 72: Extra data"),
    (f"[{RESULT},]", r"byte 71: needed a value but got '\]'", r"byte 7[01]: (Expecting value|Illegal trailing comma)"),
    ('[{"score" 1}]', "byte 10: needed ':' but got '1}]'", "byte 10: Expecting ':' delimiter"),
    ('[{"score": 01}]', "byte 12: needed ',' or '}' but got '1}]'", "byte 12: Expecting ',' delimiter"),
    ('[{"score": nul}]', "byte 11: needed a value but got 'nul}]'", "byte 11: Expecting value"),
    ("[{'score': 1}]", "byte 2: needed a key in double quotes", "byte 2: Expecting property name"),
    ('[{"é": "unclosed}]', "byte 19: needed the closing quote of the string", "byte 8: Unterminated string"),
    ('[{"other": [1, {"a": 2]}]', "byte 22: needed ',' or '}' but got ']}]'", "byte 22: Expecting ',' delimiter"),
    (f"[{RESULT}, 5]", r": \[1\] must be an object but got 5$", None),
    (f"[{RESULT}, {{}}]", r": \[1\] must have image_id but has only other keys \(null counts as missing\)$", None),
    (
        '[{"image_id": 1, "score": null}]',
        r": \[0\] must have category_id but has only image_id \(null counts as missing\)$",
        None,
    ),
    (
        f"[{RESULT}, {RESULT[:-15]}}}]",
        r": \[1\] must have score but has only image_id, category_id, bbox \(null counts as missing\)$",
        None,
    ),
    ('[{"image_id": 1.5}]', r": \[0\]\.image_id must be a 64-bit integer or a text but got 1.5$", None),
    ('[{"image_id": true}]', r": \[0\]\.image_id must be a 64-bit integer or a text but got True$", None),
    (
        '[{"image_id": 1}, {"image_id": "1"}]',
        r": \[1\]\.image_id must be a 64-bit integer, as \[0\]\.image_id is, but got '1'$",
        None,
    ),
    (
        '[{"image_id": "1"}, {"image_id": 1}]',
        r": \[1\]\.image_id must be a text, as \[0\]\.image_id is, but got 1$",
        None,
    ),
    (
        '[{"image_id": 9223372036854775808}]',
        r"\.image_id must be a 64-bit integer or a text but got 9223372036854775808$",
        None,
    ),
    (
        '[{"image_id": -9223372036854775809}]',
        r"\.image_id must be a 64-bit integer or a text but got -9223372036854775809$",
        None,
    ),
    ('[{"image_id": 1e400}]', r": \[0\]\.image_id must be a 64-bit integer or a text but got inf$", None),
    ('[{"image_id": NaN}]', r": \[0\]\.image_id must be a 64-bit integer or a text but got nan$", None),
    ('[{"bbox": [1, 2, 3]}]', r"\[0\]\.bbox must be 4 numbers \[x, y, width, height\] but got \[1, 2, 3\]$", None),
    (
        '[{"bbox": [1, 2, 3, 4, 5, 6]}]',
        r"\[0\]\.bbox must be 4 numbers .* but got \[1, 2, 3, 4, 5, 6\]: iou type",
        None,
    ),
    (
        '[{"image_id": 1, "category_id": 1, "score": 1, "bbox": [1, 2, 3, 4, 5]}]',
        r"\[0\]\.bbox must be 4 numbers .* but got \[1, 2, 3, 4, 5\]: iou type rotated takes 5 numbers, or the 8 of",
        None,
    ),
    (
        '[{"bbox": [1, 2, 3, 4, null]}]',
        r"\[0\]\.bbox must be 4 numbers .* but got \[1, 2, 3, 4, None\]",
        None,
    ),
    ('[{"bbox": [1, 2, 3, "4"]}]', r"\[0\]\.bbox must be 4 numbers .* but got \[1, 2, 3, '4'\]$", None),
    ('[{"bbox": {}}]', r"\[0\]\.bbox must be 4 numbers .* but got {}$", None),
    ('[{"bbox": [null, 1, 2, 3]}]', r"\[0\]\.bbox must be 4 numbers .* but got \[None, 1, 2, 3\]$", None),
    ('[{"score": "0.5"}]', r": \[0\]\.score must be a number but got '0.5'$", None),
    ('[{"score": false}]', r": \[0\]\.score must be a number but got False$", None),
    ('[{"score": "%s"}]' % ("x" * 99), r": \[0\]\.score must be a number but got 'x{59}\.\.\.$", None),
]


@pytest.mark.parametrize(("text", "message", "by_json"), RESULT_ERRORS)
def test_errors_in_results_say_where(tmp_path, reader, text, message, by_json):
    path = write(tmp_path, text, "results.json")
    expected = by_json if by_json and reader == "json" else message
    with pytest.raises(InputError, match=expected) as caught:
        coco.read_results(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark(tmp_path, reader, packed):
    """It is skipped, and places of errors stay those of the file."""
    pack = gzip.compress if packed else bytes
    dataset = b'{"images": [{"id": 3}], "annotations": [{"id": 1, "image_id": 3, "keypoints": [1, 2, 2]}]}'
    results = b' [{"image_id": 3, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]'
    paths = [tmp_path / name for name in ("gt.json", "dt.json", "bad.json", "none.json")]
    for path, text in zip(paths, (dataset, results, b'{"images": 5}', b"")):
        path.write_bytes(pack(b"\xef\xbb\xbf" + text))
    truth = coco.read_ground_truth(paths[0])
    assert truth.image_ids.tolist() == [3]
    assert truth.annotations.values.numbers("keypoints", np.arange(1))[0].tolist() == [1, 2, 2]
    same(coco.read_results(paths[1]), coco.columns_from_results(json.loads(results)))
    with pytest.raises(InputError, match=r"byte 14: needed an array|images must be an array of objects but got 5"):
        coco.read_ground_truth(paths[2])
    with pytest.raises(InputError, match=r"byte 3: (needed|Expecting value)"):
        coco.read_ground_truth(paths[3])
    paths[2].write_bytes(pack(b'\xef\xbb\xbf{"images" []}'))
    with pytest.raises(InputError, match=r"byte 13: (needed ':'|Expecting ':')"):
        coco.read_ground_truth(paths[2])


DATASET_ERRORS = [
    ("[]", r"byte 0: needed a JSON object but got '\[\]'", r"must be an object with images, .* but got \[\]"),
    (
        '{"images": 5}',
        "byte 11: needed an array of objects but got '5}'",
        "images must be an array of objects but got 5",
    ),
    ('{"categories": {}}', "categories must be an array of objects but got {}", None),
    ('{"annotations": null}', "needed an array of objects but got 'null}'", "must be an array of objects but got None"),
    ('{"images": [] "annotations": []}', "byte 14: needed ',' or '}'", "byte 14: Expecting ',' delimiter"),
    ('{"images": [],}', "byte 14: needed a key in double quotes", "byte 1[34]: (Expecting property|Illegal trailing)"),
    ('{"images" []}', r"byte 10: needed ':' but got '\[\]}'", "byte 10: Expecting ':' delimiter"),
    ("{} {}", "byte 3: needed the end of the file but got '{}'", "byte 3: Extra data"),
    ("{", "byte 1: needed a key in double quotes or '}' but the file ends", "byte 1: Expecting property name"),
    ('{"x": [1,', "byte 9: needed a value but the file ends", "byte 9: Expecting value"),
    ('{"categories": [nul]}', "byte 16: needed a value but got 'nul]}'", "byte 16: Expecting value"),
    ('{"images": [{}]}', r": images\[0\] must have id but has only other keys", None),
    ('{"images": [{"id": 1.5}]}', r": images\[0\]\.id must be a 64-bit integer or a text but got 1.5", None),
    (
        '{"images": [{"id": 7}, {"id": "a"}]}',
        r": images\[1\]\.id must be a 64-bit integer, as images\[0\]\.id is, but got 'a'",
        None,
    ),
    (
        '{"annotations": [{"id": "a", "image_id": 1}]}',
        r": annotations\[0\]\.id must be a 64-bit integer but got 'a'",
        None,
    ),
    (
        '{"images": [{"id": 1}], "annotations": [{"id": 1, "image_id": "1"}]}',
        r": annotations\[0\]\.image_id must be a 64-bit integer, as the ids of the images of .* are, but got '1'$",
        None,
    ),
    ('{"categories": [{"id": 1}, {"name": "a"}]}', r": categories\[1\] must have id", None),
    ('{"categories": [7]}', r": categories\[0\] must be an object but got 7", None),
    ('{"annotations": [{"id": 1}]}', r": annotations\[0\] must have image_id but has only id", None),
    (
        '{"annotations": [{"id": 1, "image_id": 1}], "categories": []}',
        r": annotations\[0\] must have category_id but has only id, image_id",
        None,
    ),
    ('{"annotations": [{"iscrowd": "no"}]}', r"\.iscrowd must be a number or a boolean but got 'no'", None),
    ('{"annotations": [{"area": [1]}]}', r"json: annotations\[0\]\.area must be a number but got \[1\]", None),
]


@pytest.mark.parametrize(("text", "message", "by_json"), DATASET_ERRORS)
def test_errors_in_ground_truth_say_where(tmp_path, reader, text, message, by_json):
    path = write(tmp_path, text, "gt.json")
    with pytest.raises(InputError, match=by_json if by_json and reader == "json" else message) as caught:
        coco.read_ground_truth(path)
    assert str(caught.value).startswith(f"{path}")


def test_text_that_is_not_utf8(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "usable", lambda name: False)
    (tmp_path / "file.json").write_bytes(b'[{"score": "\xff"}]')
    with pytest.raises(InputError, match=r"file.json: 'utf-8' codec can't decode byte 0xff in position 12"):
        coco.read_results(tmp_path / "file.json")


def test_a_file_that_is_not_there(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match=r"none.json"):
        coco.read_ground_truth(tmp_path / "none.json")


# --- absent values, Python objects


def test_what_absent_values_become(tmp_path, reader):
    path = write(tmp_path, '{"annotations": [{"id": 4, "image_id": 9, "bbox": [], "iscrowd": null}]}')
    rows = coco.read_ground_truth(path).annotations
    assert (rows.category_id.tolist(), rows.iscrowd.tolist(), rows.ignore.tolist()) == ([0], [False], [False])
    assert np.isnan(rows.bbox).all() and np.isnan(rows.area).all() and np.isnan(rows.score).all()
    assert {name for name in coco.BIT if rows.has(name)[0]} == {"id", "image_id"}
    with pytest.raises(
        InputError, match=r"annotations\[0\] must have bbox but has only id, image_id \(null counts as missing\)$"
    ):
        rows.require("id", "bbox")


def test_empty_arrays(tmp_path, reader):
    assert len(coco.read_results(write(tmp_path, " [ ] "))) == 0
    data = coco.read_ground_truth(write(tmp_path, "{}"))
    assert (len(data.image_ids), len(data.categories), len(data.annotations)) == (0, 0, 0)
    assert len(coco.columns_from_results([])) == len(coco.columns_from_results(np.zeros((0, 7)))) == 0


# --- cost


@with_native
def test_reading_costs_the_columns_and_no_objects(tmp_path):
    rows = 20_000
    path = write(tmp_path, "[" + ",\n".join([RESULT] * rows) + "]")
    coco.read_results(path, threads=2)
    gc.collect()
    before = len(gc.get_objects())
    tracemalloc.start()
    found = coco.read_results(path, threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(getattr(found, name).nbytes for name in COLUMNS) == rows * 76
    # Places of masks and keypoints, 32 bytes a row, are reserved but not touched where there are none.
    assert peak < rows * (76 + 32) * 1.15 and found.values is None
    assert len(gc.get_objects()) < before + 200


def test_neither_torch_nor_torchmetrics_is_imported():
    code = "import sys, valor_gpu.inputs.coco; print([m for m in ('torch', 'torchmetrics') if m in sys.modules])"
    root = DATA.parents[1]
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert found.stdout.strip() == "[]"


def test_image_objects_where_they_are_asked_for(tmp_path):
    images = [{"id": 3, "neg_category_ids": [5, 7], "file_name": "ü.jpg"}, {"id": 1}]
    path = tmp_path / "lvis.json"
    path.write_text(json.dumps({"annotations": [], "images": images}))
    assert coco.read_ground_truth(path).images is None
    assert coco.read_ground_truth(path, images=True).images == images
    assert coco.columns_from_dataset({"images": images}, images=True).images == images
    path.write_text("{}")
    assert coco.read_ground_truth(path, images=True).images == []


def test_taken_rows():
    rows = coco.columns_from_dataset(
        {"annotations": [{"id": n, "image_id": n % 2, "area": n} for n in range(5)]}
    ).annotations
    taken = rows.take(np.array([4, 1]))
    assert (taken.id.tolist(), taken.image_id.tolist(), taken.area.tolist()) == ([4, 1], [0, 1], [4.0, 1.0])
    assert len(rows.take(rows.image_id == 1)) == 2 and taken.where == rows.where
