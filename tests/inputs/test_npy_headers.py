"""Headers of npy files: what they say, and that threads take turns."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np
import pytest

from valor_gpu.inputs import npy_headers
from valor_gpu.inputs.npy_headers import NpyHeader, read_npy_header


def saved(values: Any, version: tuple[int, int] | None = None) -> io.BytesIO:
    file = io.BytesIO()
    np.lib.format.write_array(file, values, version)
    file.seek(0)
    return file


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_a_header_is_read_up_to_the_values(version: tuple[int, int]) -> None:
    values = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    file = saved(values, version)
    assert read_npy_header(file) == NpyHeader((2, 3), True, np.dtype(np.int16))
    assert file.read() == values.tobytes(order="F")


def test_other_versions_and_damage() -> None:
    assert read_npy_header(saved(np.zeros(2), (3, 0))) == (3, 0)
    with pytest.raises(ValueError, match="magic string"):
        read_npy_header(io.BytesIO(b"no numbers"))


def test_threads_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two evaluations of a header at once raise SystemError in CPython 3.11, rarely."""
    inside, most = [0], []
    read = npy_headers._READERS[1, 0]

    def counted(file: IO[bytes]) -> Any:
        inside[0] += 1
        most.append(inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return read(file)

    monkeypatch.setitem(npy_headers._READERS, (1, 0), counted)
    barrier = threading.Barrier(4)

    def work(_: int) -> object:
        barrier.wait()
        return read_npy_header(saved(np.zeros(3)))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert found == [NpyHeader((3,), False, np.dtype(float))] * 4 and most == [1] * 4
