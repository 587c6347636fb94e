"""Whether a Parquet file is one whole file, which pyarrow does not ask. No torch."""

from __future__ import annotations

import mmap
import os

from valor_gpu.errors import InputError

_MAGIC = b"PAR1"


def check_one_parquet(path: str) -> None:
    """Raises InputError for files that were joined: the last footer would be read with the first file's rows."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if data.find(_MAGIC + _MAGIC) >= 0:
                    raise InputError(f"{path} must be one Parquet file but is several that were joined")
