"""Uploaded data sets: stored under names of ours, read once, kept in the list of data sets."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.store import Store, StoredDataset

MOST = 200 << 20
"""Bytes of an uploaded file."""
MOST_COLUMNS = 2_000
"""Of an uploaded file: pages list all of them for every field."""
LONGEST_NAME = 500
"""Characters of a column's name."""
ENDINGS = (".csv", ".jsonl")
_CHUNK = 1 << 20


def keep_upload(store: Store, folder: Path, name: str, content: BinaryIO) -> StoredDataset:
    """Stores an uploaded file and lists it as a data set; the same content is stored once.

    Args:
        store: that lists it.
        folder: of uploads, made for its owner alone.
        name: that the user's file has; it decides the format and is shown, and names no file of ours.
        content: read piece by piece.

    Raises:
        InputError: another kind of file, a larger one, one of more columns or longer names of them, or one that has no
            row that can be read; nothing is stored.
    """
    shown = name.replace("\\", "/").rsplit("/", 1)[-1][:200]
    ending = os.path.splitext(shown)[1].lower()
    if ending not in ENDINGS:
        raise InputError(f"{shown} must be a file that ends in .csv or .jsonl")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{secrets.token_hex(8)}{ending}"
    try:
        _copy(content, path, shown)
        return _listed(store, path, shown)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, InputError):
            raise InputError(str(error).replace(str(path), shown)) from None
        raise


def _copy(content: BinaryIO, path: Path, shown: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        size = 0
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if size > MOST:
                raise InputError(f"{shown} must have at most {MOST >> 20} MB")
            file.write(chunk)


def _listed(store: Store, path: Path, shown: str) -> StoredDataset:
    source = open_data(path).with_all_columns()
    if len(source.columns) > MOST_COLUMNS:
        raise InputError(f"{shown} must have at most {MOST_COLUMNS:,} columns but has {len(source.columns):,}")
    longest = max(source.columns, key=len)
    if len(longest) > LONGEST_NAME:
        raise InputError(
            f"{shown} must have names of columns of at most {LONGEST_NAME} characters but has one of {len(longest):,}"
        )
    known = {each.hash: each for each in store.datasets.list()}.get(source.hash)
    if known is not None and known.source != str(path) and os.path.isfile(known.source):
        path.unlink()
        return known
    return store.datasets.save(source.hash, shown, source.columns, source.count_rows(), str(path))
