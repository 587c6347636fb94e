"""The native scanner takes the files that Python's json takes, and no others, whatever is stepped over."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import seeds
from tests.inputs.mutations import mutated
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs import coco
from valor_gpu.inputs._coco_scan import JsonFile

pytestmark = pytest.mark.skipif(not native.usable("valor_cpu"), reason=native.reason("valor_cpu"))

POLYGON = ", ".join(f"{k * 7.25:.2f}" for k in range(60))
FRAME = '[{{"image_id":1,"category_id":1,"bbox":[0,0,1,1],"score":0.5,"extra":{}}}]'


def is_json(data: bytes) -> bool:
    try:
        json.loads(data.decode("utf-8"))
    except ValueError:
        return False
    return True


def is_accepted(path: Path, data: bytes) -> bool | None:
    """Whether the file is accepted; None when a value of the wrong type comes before any fault of grammar."""
    path.write_bytes(data)
    try:
        coco.read_results(path, threads=2)
    except InputError as error:
        assert str(path) in str(error)
        return None if " must " in str(error) else False
    return True


GOOD = [
    *("1", "-1", "0", "-0", "0.5", "-0.5e-3", "1E+5", "1e5", "NaN", "Infinity", "-Infinity", "true", "false", "null"),
    *('""', '"é€😀"', r'"\"\\\/\b\f\n\r\t\u00e9\uD83D"', '"' + "x" * 100 + '"', '"' + "x" * 70 + r'\\"', "[]", "{}"),
    *("[[],[[]],{}]", '{"a":{"b":[1,2]},"c":null}', f"[{POLYGON}]", f"[[{POLYGON}],[{POLYGON}]]", "[ 1 , 2 ]"),
    *("[0,0.5,10,100.25]" * 1, "[" + "0, " * 90 + "0]", "[" + "1.5," * 90 + "-1]", "[" * 3000 + "]" * 3000, '"\x7f"'),
]
BAD = [
    *("01", "-", "+1", "1.", ".5", "1.e5", "1e", "1e+", "nan", "True", "tru", "undefined", "0x10", "1_0", "--1", "-a"),
    *('"\n"', '"\x00"', '"\x1f' + "x" * 40 + '"', r'"\x"', r'"\u12g4"', r'"\u12"', '"' + "x" * 80 + '\t"', "'a'", "`"),
    *(
        "[1 2]",
        "[1,]",
        "[,1]",
        "[1,,2]",
        "[1",
        "1]",
        "{1:2}",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a" 1}',
        '{"a":1 "b":2}',
    ),
    *("[1}", '{"a":1]', "[null null]", '["a" "b"]', "[1;2]", "{,}", '{"a":1,,"b":2}', "[\x0c1]", "\u00a01", "{a:1}"),
]
SHORT_BAD = [
    "01.5",
    "1.2.3",
    "1. 5",
    ".5",
    "1 2",
    "1.",
    "1..2",
    "00",
    "5 .5",
    " , ",
    "1a",
    "1.5e",
    "\u0665",
    "1,2,",
    "-",
]


@pytest.mark.parametrize("value", GOOD, ids=range(len(GOOD)))
def test_json_is_accepted(value: str, tmp_path: Path) -> None:
    if "[" * 1000 not in value:  # Python's stack ends there
        assert is_json(FRAME.format(value).encode())
    for text in (value, f"[{value}]", f'{{"k":{value}}}'):
        assert is_accepted(tmp_path / "a", FRAME.format(text).encode())


@pytest.mark.parametrize("value", BAD, ids=range(len(BAD)))
def test_what_is_not_json_is_rejected(value: str, tmp_path: Path) -> None:
    for text in (value, f"[{value}]", f'{{"k":{value}}}'):
        assert not is_json(FRAME.format(text).encode())
        assert not is_accepted(tmp_path / "a", FRAME.format(text).encode())


@pytest.mark.parametrize("number", SHORT_BAD)
def test_numbers_are_checked_wherever_they_stand_in_a_polygon(number: str, tmp_path: Path) -> None:
    """At every distance from the 16 and 64 bytes that are looked at together."""
    for before in range(0, 150, 7):
        for lead in ("", "1,"):
            text = f"[{lead}{'9' * (before % 5 + 1)},{'1.5,' * (before // 4)}{number},{POLYGON}]"
            assert not is_json(FRAME.format(text).encode())
            assert not is_accepted(tmp_path / "a", FRAME.format(text).encode()), text


WIDE = [b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xf4\x8f\xbf\xbf"]
NOT_UTF8 = [b"\x80", b"\xc0\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98",
            b"\xc3\xc3"]  # fmt: skip


@pytest.mark.parametrize("letter", [*WIDE, *NOT_UTF8])
def test_strings_are_utf8(letter: bytes, tmp_path: Path) -> None:
    for before in (0, 1, 14, 15, 31, 40):
        data = FRAME.format('"@"').encode().replace(b"@", b"x" * before + letter + b"y" * 20)
        assert is_accepted(tmp_path / "a", data) == is_json(data) == (letter in WIDE)
        assert not is_accepted(tmp_path / "a", data.replace(b"extra", letter) if letter in NOT_UTF8 else b"[")


@pytest.mark.parametrize("rest", [b"x", b"]", b"[]", b"\x00", b",", b" 1", b"\n{}"])
def test_nothing_follows_the_value(rest: bytes, tmp_path: Path) -> None:
    assert not is_accepted(tmp_path / "a", b"[] " + rest)


def plain_records(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    extras = [[[round(rng.random() * 600, 2) for _ in range(40)]], {"size": [480, 640], "counts": 'a\\b]"é' * 9}, None]
    return [
        {"image_id": k, "category_id": 1, "bbox": [k, 2.5, 3, 4], "score": 1 / (k + 1), "segmentation": extras[k % 3]}
        for k in range(rng.randrange(1, 6))
    ]


def test_damaged_files_are_accepted_when_json_accepts_them(tmp_path: Path) -> None:
    accepted = 0
    for seed in seeds(1500):
        data = mutated(json.dumps(plain_records(seed), ensure_ascii=seed % 2 == 0).encode(), seed)
        assert is_accepted(tmp_path / "a", data) in (None, is_json(data)), seed
        try:
            found = coco.read_results(tmp_path / "a")
            expected = coco.columns_from_results(json.loads(data))
        except (InputError, ValueError):
            continue
        accepted += 1
        assert found.bbox.tobytes() == expected.bbox.tobytes() and found.score.tobytes() == expected.score.tobytes()
    assert accepted > 100


# -------------------------------------------------------------------------------------------------------------- depth


@pytest.mark.parametrize(
    "text",
    [
        '{"images":[],"annotations":[],"categories":[{"id":1,"x":' + "[" * 100_000 + "]" * 100_000 + "}]}",
        '{"annotations":[{"id":1,"image_id":1,"bbox":' + "[" * 100_000 + "]" * 100_000 + "}]}",
    ],
)
def test_deep_nesting_is_an_input_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep.json"
    path.write_text(text)
    message = r"deep.json: byte \d+: needed a value of at most 100 nested arrays and objects but got 10000\d"
    with pytest.raises(InputError, match=message):
        coco.read_ground_truth(path)
    monkeypatch.setattr(native, "usable", lambda name: False)
    with pytest.raises(InputError, match=r"deep.json must be JSON but is nested too deeply"):
        coco.read_ground_truth(path)


# ------------------------------------------------------------------------------------------------ files that change

CUT = """
import os, sys
from valor_gpu.errors import InputError
from valor_gpu.inputs import _coco_scan, coco
path, rows = sys.argv[1], int(sys.argv[2])
make = _coco_scan.JsonFile.array
def array(self, *arguments):
    if rows:
        with open(path, "r+b") as file:  # denser records than were there
            file.write(b"[" + b",".join([b'{"image_id":1,"category_id":1,"bbox":[0,0,1,1],"score":1}'] * rows))
    else:
        os.truncate(path, 5000)
    return make(self, *arguments)
_coco_scan.JsonFile.array = array
try:
    coco.read_results(path)
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("rows", [0, 50_000])
@pytest.mark.parametrize("options", [[], ["-X", "faulthandler"]])
def test_a_file_that_is_cut_or_rewritten_while_it_is_read_is_reported(
    rows: int, options: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "big.json"
    record = '{"image_id":1,"category_id":1,"bbox":[0,0,1,1],"score":1,"note":"' + "x" * 200 + '"}'
    path.write_text("[" + ",\n".join([record] * 20_000) + "]")
    command = [sys.executable, *options, "-c", CUT, str(path), str(rows)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == f"{path} must stay as it is while it is read but has changed: read it again\n"


def test_lost_pages_read_as_zeros_and_other_faults_still_end_the_process(tmp_path: Path) -> None:
    code = """
import mmap, os, signal, sys
import numpy as np
from valor_gpu.inputs.files import InputFile
path = sys.argv[1]
def cut_pages(name):
    with open(name, "wb") as file:
        file.write(b"x" * 40_000)
    pages = np.memmap(name, np.uint8, mode="r")
    return pages
before = signal.getsignal(signal.SIGBUS)
other = cut_pages(path + "2")
cut_pages(path)
file = InputFile(path)
try:
    with file.mapped() as pages:
        os.truncate(path, 0)
        print(int(pages.sum()))
except Exception as error:
    print(type(error).__name__)
with InputFile(path + "2").mapped() as pages:
    os.truncate(path + "2", 0)
    sys.stdout.flush()
    other.sum()
print("not reached")
"""
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True, check=False
    )
    assert found.stdout.splitlines() == ["0", "InputError"]
    assert found.returncode == -7  # SIGBUS


@pytest.mark.parametrize(
    ("handler", "code", "printed"),
    [("SIG_DFL", -7, ""), ("SIG_IGN", 0, "1\n"), ("lambda *_: print('handled')", 0, "handled\n0\n")],
)
def test_a_sent_signal_goes_where_it_would_have_gone(handler: str, code: int, printed: str, tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
from signal import SIG_DFL, SIG_IGN
from valor_gpu.inputs.files import InputFile
signal.signal(signal.SIGBUS, {handler})
with InputFile(sys.argv[1]).mapped():
    os.kill(os.getpid(), signal.SIGBUS)
os.stat(sys.argv[1])
print(int(signal.getsignal(signal.SIGBUS) == SIG_IGN))
"""
    (tmp_path / "a").write_bytes(b"x" * 40_000)
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (code, printed)


def test_many_files_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]")
    assert len(coco.read_results(path)) == 0
    opened = [JsonFile.open(path, threads=1) for _ in range(65)]
    for one in opened[:64]:
        one.__enter__()
    with pytest.raises(InputError, match=r"a\.json must be one of fewer files that are read at the same time"):
        opened[64].__enter__()
    for one in opened[:64]:
        one.__exit__(None, None, None)
    assert np.all([len(coco.read_results(path)) == 0 for _ in range(3)])
