"""Rows of tables that name images by files: with and without suffixes, and by the names of photos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from valor_gpu.analysis.base import Analysis
from valor_gpu.analysis.slice_columns import joined_columns
from valor_gpu.errors import InputError


class Known(Analysis):
    """Images with names.

    Args:
        ids: of the images.
        files: their names.
        photos: their other names.
    """

    metric = "Known"

    def __init__(self, ids: Sequence[Any], files: Sequence[str] | None, photos: Sequence[str] | None = None) -> None:
        self.image_ids, self.images, self._files, self._photos = ids, len(ids), files, photos

    def file_names(self) -> Sequence[str] | None:
        return self._files

    def other_file_names(self) -> Sequence[str] | None:
        return self._photos


def joined(analysis: Analysis, column: str, names: Sequence[Any]) -> list[Any]:
    """Values 0, 1, ... of the rows, in the order of the images."""
    return joined_columns(analysis, {column: list(names), "value": list(range(len(names)))}, ["value"])["value"]


STEMS = Known(["b/000192", "b/7.v2", "c"], ["b/000192", "b/7.v2", "c"])
PNG = Known([11, 12, 13], ["x.png", "y.png", "z.png"], ["p.jpg", "q.jpg", "r.jpg"])


@pytest.mark.parametrize(
    ("analysis", "column", "names"),
    [
        (STEMS, "file_name", ["c", "b/000192", "b/7.v2"]),
        (STEMS, "file_name", ["c.png", "b/000192.png", " b/7.v2.png"]),
        (STEMS, "image", ["c.jpg", "b/000192.png", "b/7.v2.tif"]),
        (PNG, "file_name", ["z.png", "x.png", "y.png"]),
        (PNG, "file_name", ["z", "x", "y"]),
        (PNG, "file_name", ["r.jpg", "p.jpg", "q.jpg"]),
        (PNG, "file_name", ["r", "p", "q"]),
        (PNG, "image", ["13", 11, 12.0]),
        (PNG, "image", ["r", "p", "q"]),
        (PNG, "image", ["z.png", "x.png", "y.png"]),
        # Names as they are go before names without suffixes.
        (Known([0, 1, 2], ["a", "a.png", "b"]), "file_name", ["b", "a", "a.png"]),
        # The photos are named as the label maps of other images are: those come first.
        (Known([0, 1, 2], ["a.png", "b.png", "c.png"], ["b.png", "c.png", "a.png"]), "file_name",
         ["c.png", "a.png", "b.png"]),
    ],
)  # fmt: skip
def test_rows_name_images(analysis: Known, column: str, names: list[Any]) -> None:
    assert joined(analysis, column, names) == [1, 2, 0]


@pytest.mark.parametrize(
    ("analysis", "column", "names", "said"),
    [
        (STEMS, "file_name", ["c.png", "b/000192", "b/7.v2"], "1 of 3 are of none, the first is file_name 'c.png'"),
        (PNG, "file_name", ["z.tif", "x.tif", "y.tif"], "3 of 3 are of none, the first is file_name 'z.tif', where the "
         "result has 'x.png'"),
        (PNG, "image_id", ["z", "x", "y"], "3 of 3 are of none, the first is image_id 'z', where the result has 11"),
        (PNG, "file_name", ["z", "x"], "but 1 of 3 are missing, the first is file_name 'y'"),
        (PNG, "file_name", ["z", "x", "y", "y"], "one row for each image but file_name 'y' is in rows 2 and 3"),
        (PNG, "file_name", ["z", None, "y"], "table must have file_name in every row but row 1 has none"),
        (Known([1, 2], ["a.png", "a.jpg"]), "file_name", ["a", "a"],
         "table must have file_name with suffixes, since images 'a.png' and 'a.jpg' have one name without them"),
        (Known([1, 2], ["a", "b"]), "image", ["a.png", "b.png", "a.jpg"],
         "one row for each image but image 'a.png' and 'a.jpg' are one name without suffixes, which the result does"),
        # No number is a name with a suffix.
        (Known([42, 43], None), "image", ["42.7", "43.7"], "2 of 2 are of none, the first is image '42.7'"),
        (Known([42, 43], None), "file_name", ["a", "b"], "names images by 'file_name', which the result does not know"),
    ],
)  # fmt: skip
def test_names_that_are_of_no_image_or_of_two(analysis: Known, column: str, names: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        joined(analysis, column, names)
