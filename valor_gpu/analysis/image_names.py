"""Names of images in tables: those that a result knows, with or without the suffix of a file. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.errors import InputError
from valor_gpu.inputs._table import whole_text

Names = Sequence[Any]

_TWO_ROWS = (
    "table must have one row for each image but {0} {1} and {2} are one name without suffixes, which the result does"
    " not know"
)
_TWO_IMAGES = "table must have {0} with suffixes, since images {1} and {2} have one name without them"


def id_text(value: Any) -> str:
    """Returns an id as text: a whole number without fraction, whether it came as text, float or integer.

    Example:
        >>> id_text(7), id_text(7.0), id_text("7.0"), id_text(" a.jpg")
        ('7', '7', '7', 'a.jpg')
    """
    return whole_text(str(value).strip())


def names_of_images(analysis: ImageNumbers, column: str) -> list[Names]:
    """Returns the ways to name the images in a column, the usual one first.

    Args:
        analysis: whose images they are.
        column: ``image_id``, ``image`` or ``file_name``.

    Raises:
        InputError: the column names files, which the result does not know.
    """
    ids = analysis.arrival() if analysis.image_ids is None else analysis.image_ids
    if column == "image_id":
        return [ids]
    files = [names for names in (analysis.file_names(), analysis.other_file_names()) if names is not None]
    if column == "image":
        return [ids, *files]
    if not files:
        raise InputError(
            "table must have a column 'image_id' but names images by 'file_name', which the result does not know"
        )
    return list(files)


def agreeing_names(column: str, rows: Names, ways: Sequence[Names]) -> tuple[Names, Names]:
    """Returns rows and images by names that agree.

    These are the names as they are, where every row then is of an image; else file names, with the suffix left out on
    one side, where every row then is of an image; else those as they are in the usual way.

    Args:
        column: of the table, for messages.
        rows: of that column.
        ways: of :func:`names_of_images`.

    Raises:
        InputError: without suffixes, two rows or two images have one name.

    Example:
        >>> agreeing_names("file_name", ["b.png", "a.png"], [["a", "b"]])
        (['b', 'a'], ['a', 'b'])
    """
    if any(row is None for row in rows):
        return rows, ways[0]
    for images in ways:
        if _within(rows, images):
            return rows, images
    doubt = None
    for images in ways:
        if not all(isinstance(name, str) for name in images):
            continue
        sides = (_stems(rows), images, rows, _TWO_ROWS), (rows, _stems(images), images, _TWO_IMAGES)
        for short_rows, short_images, shortened, message in sides:
            if _within(short_rows, short_images):
                two = _of_one_stem(shortened)
                if two is None:
                    return short_rows, short_images
                doubt = doubt or message.format(column, *map(repr, two))
    if doubt is not None:
        raise InputError(doubt)
    return rows, ways[0]


def _within(rows: Names, images: Names) -> bool:
    return set(map(id_text, rows)) <= set(map(id_text, images))


def _stems(names: Names) -> list[str]:
    return [os.path.splitext(name.strip())[0] if isinstance(name, str) else id_text(name) for name in names]


def _of_one_stem(names: Names) -> tuple[str, str] | None:
    """The first two different names that are one without suffixes, None without such."""
    first: dict[str, str] = {}
    for name, stem in zip(map(id_text, names), _stems(names)):
        if first.setdefault(stem, name) != name:
            return first[stem], name
    return None
