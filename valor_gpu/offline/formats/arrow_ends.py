"""Whether Arrow files are one whole file, which pyarrow does not ask. No torch."""

from __future__ import annotations

from typing import Any

from valor_gpu.errors import InputError

_ARROW = b"ARROW1"
_ARROW_START = 8  # bytes before the first message of a file: the magic, padded
_ARROW_TAIL = 10  # bytes behind the footer: its length in four bytes, the magic


def is_arrow_file(path: str, source: Any) -> bool:
    """Whether this is a file in Arrow's format and no stream; reads the headers of its messages alone.

    Of joined streams pyarrow reads the first, of joined files the first with the footer of the last, and a stream whose
    writer was killed between two batches is whole to it.

    Args:
        path: for messages.
        source: the file as ``pyarrow.memory_map`` gives it; left at its beginning.

    Raises:
        InputError: the mark of the end is missing, or there is more behind it.
    """
    import pyarrow as pa

    is_file = bytes(source.read(len(_ARROW))) == _ARROW
    source.seek(_ARROW_START if is_file else 0)
    messages, at = pa.ipc.MessageReader.open_stream(source), -1
    try:
        while True:
            at = source.tell()
            messages.read_next_message()
    except StopIteration:
        end = source.tell()
    if end == at:
        raise InputError(f"{path} must end with the mark of its end but does not: its writer did not close it")
    footer = _footer_bytes(source) if is_file else 0
    if end + footer != source.size():
        raise InputError(f"{path} must be one Arrow file but has more after its end, as joined files have")
    source.seek(0)
    return is_file


def _footer_bytes(source: Any) -> int:
    source.seek(source.size() - _ARROW_TAIL)
    return int.from_bytes(bytes(source.read(4)), "little") + _ARROW_TAIL
