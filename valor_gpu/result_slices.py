"""Methods of Result about slices of its images. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valor_gpu.analysis.slices import Slices
    from valor_gpu.exports.column_table import ColumnTable
    from valor_gpu.stats.intervals import Bootstrap


class Sliced:
    """Part of every result: numbers of slices, and a search for low ones."""

    def by(
        self,
        table: Any,
        *columns: str | Sequence[str],
        bins: Mapping[str, Sequence[Any]] | None = None,
        intervals: int | Bootstrap | None = None,
        numbers: Sequence[str] | None = None,
        iou_type: str | None = None,
    ) -> Slices:
        """Computes the numbers of slices of the images, each as a run on the images of the slice alone.

        Numbers are bit-identical to such a run; nothing is matched again. Images without a value of a column form a
        slice of their own. What the result knows needs no table, and may stand beside the columns of one:
        ``by("crowding")`` slices by the ground truths that count in an image, ``by("image_size")`` by the square root
        of its width times its height in pixels.
        ``by("size")`` and ``by("aspect_ratio")`` slice the objects, by their area in pixels and by width over height of
        their boxes: ground truths outside of a bin are ignored, and so are detections outside that match none. As in
        COCO's area ranges, an object on an edge belongs to both bins, unless ``convention`` is ``corrected``.

        Args:
            table: a DataFrame, a table of pyarrow, a mapping of columns, a list of mappings, or the path of a file
                (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.npz``), with a row for each image. The first column of
                ``image_id``, ``image`` and ``file_name`` that it has says which image a row is of; numbers match their
                texts. A file name may lack its suffix, or have one where the result knows none, if all rows of the
                table then name images without doubt. The ground truth of ``valor-gpu panoptic`` knows the names of
                label maps and of photos. Of a metric that knows no ids, rows are the images in the order of their
                arrival, or ``image_id`` counts them from 0.
            columns: names of columns, each with slices of its own; a tuple of names gives the crossing of these
                columns, such as ``("weather", "hour")``.
            bins: column to ascending edges. A slice is then a bin of values from one edge to below the next; values
                below the first edge, and those at or above the last, have a bin of their own.
            intervals: replicates of a bootstrap over the images of each slice, or its choices, clusters included.
            numbers: names of the numbers, such as ``map`` and ``map_per_class/cat``; ``map_per_class`` stands for those
                of all classes. None: all numbers but those of classes.
            iou_type: which of several that the result has.

        Returns:
            A table with a row for each slice that has images; see :class:`valor_gpu.analysis.slices.Slices`.

        Raises:
            InputError: an image has no row or two, a row is of no image, there is no such column or number, edges do
                not ascend, or the metric keeps too little of each image: ``keep_images=True`` makes it keep enough.

        Example:
            >>> import torch
            >>> from valor_gpu.segmentation import mIOU
            >>> metric = mIOU(2, keep_images=True)
            >>> target = torch.tensor([[[0, 1]], [[0, 1]], [[0, 0]]])
            >>> metric.update(torch.tensor([[[0, 1]], [[1, 1]], [[0, 0]]]), target)
            >>> table = {"weather": ["sun", "rain", "sun"], "hour": [6, 9, 12]}
            >>> print(metric.result().by(table, "weather", "hour", bins={"hour": [8]}))
            slice             images    mIOU
            weather: rain          1  0.2500
            weather: sun           2  1.0000
            hour: below 8          1  1.0000
            hour: 8 or above       2  0.5833
        """
        choices: dict[str, Any] = {"bins": bins, "intervals": intervals, "numbers": numbers}
        found: Slices = self._asked("by", iou_type).by(table, columns, **choices)
        return found

    def worst_slices(
        self,
        table: Any,
        *columns: str,
        number: str | None = None,
        bins: Mapping[str, Sequence[Any]] | None = None,
        least: int = 20,
        candidates: int = 10,
        level: float = 0.05,
        permutations: int = 2000,
        seed: int = 0,
        clusters: Mapping[Any, Any] | Sequence[Any] | None = None,
        higher_is_better: bool = True,
        iou_type: str | None = None,
    ) -> ColumnTable:
        """Searches for slices whose number is low, and tests each on images that took no part in the search.

        Candidates are the values of each column and the combinations of the values of every two columns. On one half
        of the images those that lie furthest below the others are chosen. On the other half each chosen slice is
        compared with sets of images drawn at random from that half, of the size of the slice: the p-value is the share
        of sets whose number is at most that of the slice. Sets of equal size make the comparison fair where a number
        depends on how many images it is taken over, as average precision does. P-values are adjusted by the method of
        Benjamini and Yekutieli, which holds for overlapping slices: of all confirmed slices at most the share ``level``
        is expected to be no worse than others.

        A slice that is not confirmed may still be bad: half of its images may be too few to tell. That a slice is
        confirmed says that it is hard, not why: a column may stand for another that is not in the table.

        Args:
            table: see :meth:`by`; also the name of a column that the result knows, such as ``"crowding"``.
            columns: names of the columns to search.
            number: name of the number, such as ``map_50`` or ``map_per_class/cat``, of which lower is worse. None: the
                first number of the result.
            bins: see :meth:`by`. A column of many different numbers needs them: single values have too few images.
            least: fewest images of a slice in each half, at least 2.
            candidates: how many slices are chosen at most. Fewer make each test stronger.
            level: false discovery rate, above 0 and below 1.
            permutations: sets of images that are drawn for a slice at most: enough that the lowest p-value, 1 /
                (``permutations`` + 1), can be confirmed among so many ``candidates``. Drawing ends early where a slice
                is clearly not low (Besag and Clifford 1991).
            seed: of the halves and of the sets.
            clusters: images that belong together, such as frames of a video, by id or in the order of the images: a
                cluster lies in one half as a whole, and what is drawn are the parts of clusters inside and outside of
                the slice.
            higher_is_better: whether a low number is bad; False of distances.
            iou_type: which of several that the result has.

        Returns:
            A table with a row for each chosen slice, the lowest p-value first: ``column`` and ``value``; ``images`` in
            all; the number on both halves, ``discovery`` and ``confirmation``; on the latter ``rest``, the number of
            the other images, and ``difference`` from it; ``p_value``; ``adjusted_p_value``; ``confirmed``.

        Raises:
            InputError: a choice is out of its range, there is no such number, or :meth:`by` raises.

        Source: Chung et al., "Slice Finder" (2019), for the search; Benjamini and Yekutieli (2001); Besag and Clifford,
        "Sequential Monte Carlo p-values" (1991).

        Example:
            >>> import torch
            >>> from valor_gpu.segmentation import mIOU
            >>> metric, night = mIOU(2, keep_images=True), torch.arange(80) % 2 == 0
            >>> target = torch.arange(80 * 8).reshape(80, 1, 8) % 2
            >>> noise = torch.rand(target.shape, generator=torch.Generator().manual_seed(0))
            >>> wrong = noise < torch.where(night, 0.4, 0.1)[:, None, None]
            >>> metric.update(torch.where(wrong, 1 - target, target), target)
            >>> found = metric.result().worst_slices({"night": night.tolist()}, "night", least=10)
            >>> [(row["column"], row["value"], row["confirmed"]) for row in found.rows()]
            [('night', 'True', True)]
        """
        choices: dict[str, Any] = {
            "number": number, "bins": bins, "least": least, "candidates": candidates, "level": level,
            "permutations": permutations, "seed": seed, "clusters": clusters,
            "higher_is_better": higher_is_better,
        }  # fmt: skip
        found: ColumnTable = self._asked("worst_slices", iou_type).worst_slices(table, columns, **choices)
        return found

    def _asked(self, name: str, iou_type: str | None) -> Any:
        """The analysis that answers."""
        raise NotImplementedError
