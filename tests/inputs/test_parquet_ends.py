"""Parquet files that were joined are told from whole ones, whatever stands in their cells."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.inputs.parquet_ends import check_one_parquet
from valor_gpu.inputs.tables import read_table
from valor_gpu.offline.formats.arrow_rows import read_parquet
from valor_gpu.offline.shards import Shard

pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
JOINED = "must be one Parquet file but is several that were joined"
CHOICES: tuple[dict[str, Any], ...] = (
    {"compression": "NONE", "use_dictionary": False, "store_schema": False},
    {"compression": "NONE", "use_dictionary": True, "row_group_size": 2, "write_page_index": True},
    {"compression": "gzip"},
)


def written(path: Path, cells: list[str], **choices: Any) -> bytes:
    table = pyarrow.table({"text": pyarrow.array(cells, pyarrow.string()), "n": pyarrow.array(range(len(cells)))})
    parquet.write_table(table, path, **choices)
    return path.read_bytes()


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("cells", [["PAR1PAR1"], ["see PAR1PAR1 here"] * 5, ["a", "PAR1PAR1", "PAR1PAR1PAR1"], []])
def test_cells_that_look_like_a_join_are_cells(tmp_path: Path, cells: list[str], choices: dict[str, Any]) -> None:
    path = tmp_path / "data.parquet"
    whole = written(path, cells, **choices)
    footer = parquet.read_metadata(path)
    check_one_parquet("data", str(path), footer)
    check_one_parquet("data", whole, footer)
    if cells:
        assert [row.values["text"] for row in open_data(path)] == cells
        assert read_table(path, ["text"]).texts == (cells,)
    shard = Shard(0, {"data": str(path)})
    assert [text for chunk in read_parquet(shard, ["text"], 2) for text in chunk.columns["text"]] == cells


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("n", [2, 3])
def test_joined_files_are_told(tmp_path: Path, n: int, choices: dict[str, Any]) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(written(path, ["PAR1PAR1", "b", "c"], **choices) * n)
    footer = parquet.read_metadata(path)
    for source in (str(path), path.read_bytes()):
        with pytest.raises(InputError, match=f"data {JOINED}"):
            check_one_parquet("data", source, footer)
    with pytest.raises(InputError, match=f"data.parquet {JOINED}"):
        open_data(path)
    with pytest.raises(InputError, match=f"data.parquet {JOINED}"):
        next(read_parquet(Shard(0, {"data": str(path)}), ["n"], 2))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_joined_files_from_a_pipe_are_told(tmp_path: Path) -> None:
    pipe, twice = tmp_path / "pipe.parquet", written(tmp_path / "data.parquet", ["a", "b"]) * 2
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(twice,))
    writer.start()
    with pytest.raises(InputError, match=f"pipe.parquet {JOINED}"):
        read_table(pipe, ["text"])
    writer.join()
