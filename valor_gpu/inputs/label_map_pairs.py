"""Ground truths and predictions in two folders, paired by their names. Imports nothing heavy."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.inputs.label_map_files import FORMATS

_SHOWN = 5  # names in a message


@frozen
class Pair:
    """Two files of one image.

    Attributes:
        name: path of both inside their folders, without suffix and ending; ``/`` between folders.
        ground_truth: path of the file.
        prediction: path of the file.
    """

    name: str
    ground_truth: str
    prediction: str


@frozen
class Side:
    """Where the files of one side are, and how they are called.

    Attributes:
        path: of the folder, or of a single file.
        suffix: what names end in, before the ending; files with other names are left out.
        option: what messages call the folder.
    """

    path: str
    suffix: str = ""
    option: str = "folder"


@frozen
class Pairing:
    """What was found in two folders.

    Attributes:
        pairs: by name, ascending.
        without_prediction: names of ground truths that have none.
        without_ground_truth: names of predictions that have none.
        other_files: files of both folders that are no label maps by their ending and suffix.
    """

    pairs: list[Pair]
    without_prediction: list[str]
    without_ground_truth: list[str]
    other_files: int

    def describe_missing(self, sides: tuple[Side, Side]) -> str:
        """How many files have no partner, and which; empty where all have one."""
        parts = []
        for lone, other in ((self.without_prediction, sides[1]), (self.without_ground_truth, sides[0])):
            if lone:
                parts.append(f"{other.option} has no partner of {len(lone):,}: {_some(lone)}")
        return "; ".join(parts)


def pair_files(ground_truths: Side, predictions: Side, flat: bool = False) -> Pairing:
    """Finds the files of two folders, nested folders included, and pairs those of the same name.

    Hidden files and folders (names that begin with a dot) are left out. Two single files are a pair of any names.

    Args:
        ground_truths: one side.
        predictions: the other side.
        flat: names alone count, whatever folder they are in.

    Raises:
        InputError: a folder is not there or holds no label map, or two files of one side have the same name.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("gt/ulm/a_gt.png", "gt/b_gt.png", "pred/ulm/a.npy"):
        ...         path = pathlib.Path(folder, name)
        ...         path.parent.mkdir(parents=True, exist_ok=True)
        ...         path.touch()
        ...     found = pair_files(Side(f"{folder}/gt", "_gt"), Side(f"{folder}/pred"))
        >>> [pair.name for pair in found.pairs], found.without_prediction
        (['ulm/a'], ['b'])
    """
    sides = (ground_truths, predictions)
    files = [os.path.isfile(side.path) for side in sides]
    if all(files):
        return Pairing([Pair(_stem(ground_truths.path), *(side.path for side in sides))], [], [], 0)
    if any(files):
        folder, file = sorted(zip(files, (side.option for side in sides)))
        raise InputError(f"{folder[1]} must be a file, as {file[1]} is, but is a folder")
    (true, others), (found, more) = (_label_maps(side, flat) for side in sides)
    both = sorted(true.keys() & found.keys())
    pairs = [Pair(name, true[name], found[name]) for name in both]
    return Pairing(pairs, sorted(true.keys() - found.keys()), sorted(found.keys() - true.keys()), others + more)


def hint_at_names(pairing: Pairing, flat: bool) -> str:
    """What may be meant where names of two folders do not agree; empty where nothing comes to mind."""
    true, found = pairing.without_prediction, pairing.without_ground_truth
    if not true or not found:
        return ""
    if not flat and {name.split("/")[-1] for name in true} & {name.split("/")[-1] for name in found}:
        return ": --flat pairs files by their names alone, whatever folder they are in"
    first = true[0]
    close = any(_common_start(os.path.basename(first), os.path.basename(name)) for name in found)
    suffixes = ": --gt-suffix and --pred-suffix name the ends that are no part of what is paired" if close else ""
    common = max((_common_start(first, name) for name in found), key=len)
    best = next(name for name in found if name.startswith(common))
    if not common or common.endswith("/"):
        return suffixes
    ends = [name[len(common) :] for name in (first, best)]
    if not all(name.endswith(end) for names, end in zip((true, found), ends) for name in names):
        return suffixes
    options = [f"{option} {end}" for option, end in zip(("--gt-suffix", "--pred-suffix"), ends) if end]
    return f": is {' '.join(options)} meant?"


def _label_maps(side: Side, flat: bool) -> tuple[Mapping[str, str], int]:
    """Path by name of the label maps of a folder, and how many other files it has."""
    if not os.path.isdir(side.path):
        raise InputError(f"{side.option} must be a folder but {side.path} does not exist")
    found: dict[str, str] = {}
    others = 0
    for path in _files(side.path):
        stem, ending = os.path.splitext(path)
        if ending.lower() not in FORMATS or not stem.endswith(side.suffix):
            others += 1
            continue
        name = stem.removesuffix(side.suffix)
        name = os.path.basename(name) if flat else name
        whole = os.path.join(side.path, path)
        if name in found:
            raise InputError(f"{side.option} must have one file of each name but has {found[name]} and {whole}")
        found[name] = whole
    if not found:
        named = f"*{side.suffix}" if side.suffix else "*"
        forms = ", ".join(named + ending for ending in FORMATS)
        raise InputError(f"{side.option} must have label maps ({forms}) but {side.path} has none of {others:,} files")
    return found, others


def _files(folder: str) -> Iterator[str]:
    """Paths inside the folder of all files that are not hidden; links are followed, but none back to a folder above."""

    def fail(error: OSError) -> None:
        raise error

    for root, folders, files in os.walk(folder, onerror=fail, followlinks=True):
        here = os.path.realpath(root)
        folders[:] = [name for name in folders if name[0] != "." and not _leads_above(os.path.join(root, name), here)]
        inside = os.path.relpath(root, folder)
        yield from (os.path.normpath(os.path.join(inside, name)) for name in files if name[0] != ".")


def _leads_above(folder: str, here: str) -> bool:
    return os.path.islink(folder) and f"{here}/".startswith(f"{os.path.realpath(folder)}/")


def _common_start(a: str, b: str) -> str:
    same = itertools.takewhile(lambda chars: chars[0] == chars[1], zip(a, b))
    return a[: sum(1 for _ in same)]


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN:,} more"
