"""Whether a Parquet file is one whole file, which pyarrow does not ask. No torch."""

from __future__ import annotations

import mmap
import struct
from typing import Any

from valor_gpu.errors import InputError

_MAGIC = b"PAR1"
_END = struct.Struct("<I4s")  # size of the footer, magic


def check_one_parquet(name: str, source: str | bytes, footer: Any) -> None:
    """Raises InputError for files that were joined: the last footer would be read with the first file's rows.

    Between the last rows of a file and its footer lie indexes, and as many bytes as all files before it have. Only the
    first so many bytes are searched for a join: a whole file has few, and cells that look like one mostly lie behind.

    Args:
        name: of the file, for the message.
        source: its path, or its content.
        footer: ``metadata`` of pyarrow's ``ParquetFile``.
    """
    if isinstance(source, bytes):
        joined = _is_joined(source, footer)
    else:
        with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            joined = _is_joined(data, footer)
    if joined:
        raise InputError(f"{name} must be one Parquet file but is several that were joined")


def _is_joined(data: bytes | mmap.mmap, footer: Any) -> bool:
    size, _ = _END.unpack(data[-_END.size :])
    most = max(len(data) - _END.size - size - _end_of_rows(footer), 0) + len(_MAGIC)
    at = data.find(_MAGIC + _MAGIC, 0, most)
    while at >= 0:
        if _ends_a_file(data, at):
            return True
        at = data.find(_MAGIC + _MAGIC, at + 1, most)
    return False


def _end_of_rows(footer: Any) -> int:
    """Bytes of a file up to the end of its last row group, or fewer."""
    if not footer.num_row_groups:
        return 0
    last = footer.row_group(footer.num_row_groups - 1)
    return max((_end_of_column(last.column(place)) for place in range(last.num_columns)), default=0)


def _end_of_column(column: Any) -> int:
    begin = column.dictionary_page_offset if column.has_dictionary_page else None
    return int((begin or column.data_page_offset) + column.total_compressed_size)


def _ends_a_file(data: bytes | mmap.mmap, at: int) -> bool:
    """Whether a footer lies before a place, which the text of a cell has not."""
    import pyarrow
    from pyarrow import parquet

    size = int.from_bytes(data[max(at - 4, 0) : at], "little")
    if size > at - 8:
        return False
    ending = _MAGIC + data[at - 4 - size : at + len(_MAGIC)]
    try:
        parquet.read_metadata(pyarrow.BufferReader(ending))
    except (pyarrow.ArrowException, OSError):
        return False
    return True
