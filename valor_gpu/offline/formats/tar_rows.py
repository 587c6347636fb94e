"""Shards in the form of WebDataset: a tar file whose members ``key.field.ending`` of one key are a row. No torch.

Members of a row lie next to one another. Their endings say what they hold: ``png`` a label map, ``npy`` an array,
``npz`` the only array in it, ``json`` any value, ``txt`` a text, ``cls`` a whole number.
"""

from __future__ import annotations

import contextlib
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any

from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError
from valor_gpu.inputs.label_map_files import array_of_bytes, label_map_of_png
from valor_gpu.offline.chunks import Chunk, in_chunks
from valor_gpu.offline.shards import Shard

_BLOCK = 512  # bytes of a tar header
_PIECE = 1 << 16  # bytes read at a time behind the last member


def read_webdataset(shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
    """A tar file, read from its beginning to its end; also gzip.

    Args:
        shard: the file.
        columns: what follows the first point in the names of members, such as ``gt.png``.
        batch_size: rows of a chunk.
    """
    return in_chunks(_rows(shard.files["data"], columns), columns, batch_size, _lacking)


def _rows(path: str, columns: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    key, error = "", ""
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for name, content in _members(path):
        folder, _, base = name.rpartition("/")
        stem, _, column = base.partition(".")
        here = f"{folder}/{stem}" if folder else stem
        if here != key and key:
            yield f"{path}, sample {key}", error or values
        if here != key:
            if here in seen:
                raise InputError(f"{path} must have the members of a sample side by side but {here} comes again")
            seen.add(here)
            key, values, error = here, {}, ""
        if column in columns and not error:
            try:
                if column in values:
                    raise InputError(f"{path}, member {name} must be there once but comes again")
                values[column] = _decode(f"{path}, member {name}", column, content())
            except InputError as problem:
                error = str(problem)
    if key:
        yield f"{path}, sample {key}", error or values


def _members(path: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Name of each member that is no folder, and what reads it.

    Raises:
        InputError: the tar file is damaged or ends too early.
    """
    with _reading(path), tarfile.open(path, "r:*") as archive:
        while (member := archive.next()) is not None:
            if not member.isdir():
                yield member.name, partial(_content, path, archive, member)
            archive.members = []  # type: ignore[attr-defined]  # or tarfile keeps the headers of all
        _check_end(path, archive)


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turns what tarfile and its decompressors raise for damaged bytes into InputError."""
    try:
        yield
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        if isinstance(error, (FileNotFoundError, PermissionError)):
            raise
        raise InputError(f"{path} must be a tar file but cannot be read: {str(error).partition(chr(10))[0]}") from error


def _check_end(path: str, archive: tarfile.TarFile) -> None:
    """Raises unless the archive ends as tar files do, with blocks of zeros and nothing else.

    tarfile takes a cut archive for whole, and of archives that were joined by ``cat`` it reads the first alone.
    """
    stream: IO[bytes] = archive.fileobj  # type: ignore[assignment]
    stream.seek(archive.offset)
    if stream.read(_BLOCK) != bytes(_BLOCK):
        raise InputError(f"{path} must be a whole tar file but ends without its last block")
    while rest := stream.read(_PIECE):
        if rest.count(0) != len(rest):
            raise InputError(f"{path} must be one tar file but has more after its last block, as joined files have")


def _content(path: str, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if not member.isfile():
        raise InputError(f"{path}, member {member.name} must be a regular file but is a link or a device")
    with _reading(path):
        file = archive.extractfile(member)
        content = b"" if file is None else file.read()
    if len(content) != member.size:
        raise InputError(f"{path}, member {member.name} must be {member.size} bytes but is cut to {len(content)}")
    return content


def _decode(place: str, column: str, content: bytes) -> Any:
    ending = column.rpartition(".")[2].lower()
    if ending == "png":
        return label_map_of_png(place, content)
    if ending in ("npy", "npz"):
        return array_of_bytes(place, content, ending)
    try:
        if ending == "json":
            # Of bytes, json would take halves of pairs of UTF-16.
            return json.loads(content.decode(json.detect_encoding(content)), object_pairs_hook=keys_once)
        text = content.decode("utf-8-sig")
        return _whole_number(text) if ending == "cls" else text
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} must be {'a whole number' if ending == 'cls' else ending} but: {error}") from None


def _whole_number(text: str) -> int:
    """The number in ASCII; ``int`` alone would take 1_0 and the digits of every script."""
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text, re.ASCII):
        raise ValueError(f"is {text[:40]!r}")
    return int(text)


def _lacking(place: str, column: str, row: Mapping[str, Any]) -> str:
    return f"{place} must have a member {column} but has {', '.join(row) or 'none of those asked for'}"
