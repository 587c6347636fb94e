"""Files, pipes and standard input as bytes, plain and packed."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fuzz import seeds
from tests.inputs.mutations import mutated
from valor_gpu.errors import InputError
from valor_gpu.inputs import files
from valor_gpu.inputs.files import InputFile

TEXT = b"some bytes, " * 500


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("data", [b"", b"\x1f", b"abc", TEXT])
@pytest.mark.parametrize("packed", [False, True])
def test_every_source_gives_the_same_bytes(
    data: bytes, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = gzip.compress(data) if packed else data
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(stored)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(stored,))
    writer.start()
    standard_input(monkeypatch, stored)
    for file in (InputFile(path), InputFile(os.fspath(pipe)), InputFile("-")):
        assert [file.read(), file.read()] == [data, data]  # a pipe too can be read again
    writer.join()


def test_several_members_of_gzip_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"ab") + gzip.compress(b"cd"))
    assert InputFile(tmp_path / "a").read() == b"abcd"


def test_a_file_that_is_missing_or_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"a\.csv"):
        InputFile(tmp_path / "a.csv")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input must be open but is closed"):
        InputFile("-")


def change_content(path: Path) -> None:
    path.write_bytes(b"shorter")


def change_time(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def change_file(path: Path) -> None:
    """Another file of the same size and time."""
    status, other = path.stat(), path.with_name("other")
    other.write_bytes(b"?" * status.st_size)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [change_content, change_time, change_file, Path.unlink])
def test_a_file_that_changes_is_reported(change: object, tmp_path: Path) -> None:
    assert callable(change)
    path = tmp_path / "a"
    message = r"/a must stay as it is while it is read but has changed: read it again$"
    path.write_bytes(TEXT)
    file = InputFile(path)
    with pytest.raises(InputError, match=message), file.open():
        change(path)
    path.write_bytes(TEXT)
    file = InputFile(path)
    file.read()
    change(path)
    with pytest.raises(InputError, match=message):
        file.read()


def test_what_comes_of_a_change_is_reported_as_the_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    with pytest.raises(InputError, match="has changed"), InputFile(tmp_path / "a").unchanged():
        change_content(tmp_path / "a")
        raise ValueError("a number that ends in its middle")


def test_damaged_gzip(tmp_path: Path) -> None:
    path, packed = tmp_path / "a.gz", gzip.compress(TEXT, mtime=0)
    path.write_bytes(packed[:-9])
    with pytest.raises(InputError, match=r"a\.gz must be gzip but is damaged: Compressed file ended"):
        InputFile(path).read()
    path.write_bytes(b"plain")
    with pytest.raises(InputError, match=r"a\.gz must be gzip, as its name says, but begins with b'pl'"):
        InputFile(path).read()
    for seed in seeds(200):
        path.write_bytes(mutated(packed, seed))
        try:
            InputFile(path).read()
        except InputError as error:
            assert "a.gz must be gzip" in str(error), seed


def test_gzip_that_expands_too_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FREE_EXPANSION", 1 << 16)
    (tmp_path / "small").write_bytes(gzip.compress(bytes(1 << 16)))
    assert len(InputFile(tmp_path / "small").read()) == 1 << 16
    (tmp_path / "bomb").write_bytes(zlib.compress(bytes(1 << 24), wbits=31))
    with pytest.raises(InputError, match=r"bomb must be gzip that expands at most 256 times but \d+ bytes give \d+"):
        InputFile(tmp_path / "bomb").read()
