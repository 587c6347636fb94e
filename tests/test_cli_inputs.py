"""What ``valor-gpu detect`` reads beside plain files, and what it says of files that cannot be read."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.test_cli import DT, FOUND, GT
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.coco import COCO
from valor_gpu.errors import InputError


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_packed_files_pipes_and_standard_input_give_the_same_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["detect", "--gt", str(GT), "--dt", str(DT)]) == OK
    expected = capsys.readouterr().out
    packed, pipe = tmp_path / "gt.json.gz", tmp_path / "pipe"
    packed.write_bytes(gzip.compress(GT.read_bytes()))
    for gt, dt in ((str(packed), "-"), (str(packed), str(pipe)), ("-", str(DT))):
        standard_input(monkeypatch, (DT if dt == "-" else GT).read_bytes())
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(DT.read_bytes()), daemon=True)
        if dt == str(pipe):
            writer.start()
        assert main(["detect", "--gt", gt, "--dt", dt]) == OK
        assert capsys.readouterr().out == expected


def test_bad_input_from_elsewhere_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    standard_input(monkeypatch, b"[{]")
    assert main(["detect", "--gt", str(GT), "--dt", "-"]) == BAD_INPUT
    assert "error: standard input: byte 2: needed a key in double quotes but got ']'" in capsys.readouterr().err
    assert main(["detect", "--gt", "-", "--dt", "-"]) == BAD_INPUT
    assert "--dt must be another file than --gt but both are -" in capsys.readouterr().err
    (tmp_path / "dt.json.gz").write_bytes(gzip.compress(DT.read_bytes())[:-20])
    assert main(["detect", "--gt", str(GT), "--dt", str(tmp_path / "dt.json.gz")]) == BAD_INPUT
    assert "dt.json.gz must be gzip but is damaged: Compressed file ended" in capsys.readouterr().err


@pytest.mark.usefixtures("capsys")
def test_objects_of_what_is_read_once_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b'{"images": [{"id": 1}, {"id": 2}], "categories": [{"id": 3}, {"id": 5}, {"id": 6}]}')
    truth = COCO("-")
    assert truth.getImgIds() == [1, 2] and len(truth.loadRes(FOUND).columns.annotations) == 3
    with pytest.raises(InputError, match="standard input must be a file for its objects to be read"):
        truth.info()
