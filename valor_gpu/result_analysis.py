"""Methods of Result about the data behind its numbers: errors, operating points, tables, slices. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.analysis.match_table import MatchTable
    from valor_gpu.analysis.slices import Slices
    from valor_gpu.analysis.tide_result import DetectionErrors
    from valor_gpu.analysis.points_result import OperatingPoints
    from valor_gpu.exports.column_table import ColumnTable
    from valor_gpu.result import Result
    from valor_gpu.stats.intervals import Bootstrap

_UNKNOWN = (
    "{name}() needs the data that the result came from, which no file of a result holds: ask the metric or the"
    " evaluation for result() again"
)


class Analysed:
    """Part of every result: questions about the data behind its numbers.

    A result of several ``iou_type`` is asked about one of them by ``iou_type``.
    """

    def errors(
        self,
        iou: float | Sequence[float] = 0.5,
        background: float | Sequence[float] = 0.1,
        protocol: str = "coco",
        iou_type: str | None = None,
    ) -> DetectionErrors:
        """Returns the gain of average precision from mending each kind of error, each kind alone: TIDE.

        Every false positive has one kind, by its best IoU with the ground truths that count. The first that holds:
        ``localization``: with its class from ``background`` to below ``iou``; ``classification``: with another class
        from ``iou`` on; ``duplicate``: with its class from ``iou`` on, but another detection took the ground truth;
        ``background``: up to ``background`` with every class; ``both``: the rest. A ground truth without a hit is
        ``missed``, unless a classification or localization error is about it. To mend is to remove the detection or
        the missed ground truth; of the classification and localization errors about one ground truth without a hit,
        the one of the highest score becomes a hit when its kind is mended, the others are removed.
        ``false_positives`` removes all of them, ``false_negatives`` all ground truths without a hit. Gains do not add
        up, and may be negative. Source: Bolya et al., "TIDE: A General Toolbox for Identifying Object Detection
        Errors", ECCV 2020, arXiv 2008.08115.

        Args:
            iou: threshold of a match, above 0, at most 1; several: the gains at each.
            background: IoU up to which a detection shows background, above 0, below ``iou``; several: one for each
                ``iou``, or for one ``iou``.
            protocol: ``coco``: matching, limits, ignored detections, recall samples and mean are those of this result,
                so that ``ap`` is its number at ``iou`` to the last bit, and a gain is what an evaluation of the mended
                data would show. Detections beyond the limit have no part, in the mended data neither. ``tidecv``:
                those of the program of the authors, version 1.0.1: 100 detections of an image over all classes,
                detections in crowds are among the errors, classes with detections alone have an AP of 0, and the
                gains of the first six kinds are at least 0.
            iou_type: of a result of several.

        Returns:
            ``values``: ``ap``; ``gains`` by kind, differences of AP as a fraction; ``ap_per_class`` by class;
            ``gains_per_class`` and ``counts_per_class`` by kind and class, the class of a detection its own. NaN, with
            a reason, where no ground truth counts or is left. ``counts``: of each kind, of hits, ignored detections,
            ground truths that count, images. With several thresholds ``values`` has all of these under the text of
            each, such as ``0.75``, and :meth:`~valor_gpu.analysis.tide_result.DetectionErrors.at` is the result of one.
            ``table()`` has a row per kind.

        Raises:
            InputError: a threshold is out of range; the result keeps no pairs of so low an IoU; errors are not defined
                for the metric.

        Example:
            >>> import contextlib, io
            >>> from valor_gpu.coco import COCO, COCOeval
            >>> one = {"image_id": 1, "bbox": [0, 0, 10, 10]}
            >>> truth, cat = COCO(), {"id": 1, "category_id": 1, "area": 100, "iscrowd": 0, **one}
            >>> names = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
            >>> truth.dataset = {"images": [{"id": 1}], "categories": names, "annotations": [cat]}
            >>> dog = {"category_id": 2, "score": 0.9, **one}  # a cat that is called a dog
            >>> with contextlib.redirect_stdout(io.StringIO()):
            ...     truth.createIndex()
            ...     evaluation = COCOeval(truth, truth.loadRes([dog]), "bbox")
            ...     evaluation.evaluate()
            ...     evaluation.accumulate()
            >>> errors = evaluation.result().errors()
            >>> round(errors.values["ap"], 3), round(errors.values["gains"]["classification"], 3)
            (0.0, 1.0)
            >>> errors.counts["classification"], errors.values["counts_per_class"]["classification"]["dog"]
            (1, 1)
        """
        found: DetectionErrors = self._asked("errors", iou_type).errors(iou, background, protocol)
        return found

    def olrp(self, iou: float = 0.5, iou_type: str | None = None) -> Result:
        """Returns the optimal localisation recall precision error and its parts, of every class and their means.

        Of the detections of a class whose score reaches a threshold, TP are true positives at ``iou``, FP false
        positives, and FN ground truths without one. Their error is LRP = (sum of (1 - IoU) / (1 - ``iou``) over TP
        + FP + FN) / (TP + FP + FN): 0 is perfect, 1 as bad as no detection. oLRP is the least LRP over all thresholds;
        of equal ones the lowest threshold counts. Detections that match a crowd or an ignored ground truth count
        nowhere.

        Panoptic segments have no scores and match above an IoU of 0.5. Their result has LRP errors as they are:
        ``lrp``, ``lrp_localization``, ``lrp_false_positive`` and ``lrp_false_negative``, over all categories, with
        ``_things`` or ``_stuff`` behind the name over some, and with ``_per_class`` of each.

        Source: Oksuz, Cam, Kalkan, Akbas, "One Metric to Measure Them All: Localisation Recall Precision (LRP) for
        Evaluating Visual Detection Tasks", TPAMI 2021.

        Args:
            iou: least IoU (of keypoints OKS) of a true positive, above 0 and below 1.
            iou_type: of a result that has several.

        Returns:
            ``olrp``; at the optimum ``olrp_localization``, the mean 1 - IoU of true positives,
            ``olrp_false_positive``, 1 - precision, and ``olrp_false_negative``, 1 - recall; each also as a mapping by
            class, such as ``olrp_per_class``; and ``score_threshold_per_class``, the lowest score that the optimum
            keeps. A class without a ground truth that counts is NaN. One without a true positive has oLRP 1, false
            negative error 1, and no other part. Means are over the classes that have the number, as in the
            authors' program. ``with_intervals`` chooses thresholds anew in every replicate.

        Raises:
            InputError: ``iou`` is out of range, the metric did not keep IoUs (``errors=True`` keeps them), or LRP is
                not defined for it.

        Example:
            >>> import contextlib, io
            >>> from valor_gpu.coco import COCO, COCOeval
            >>> with contextlib.redirect_stdout(io.StringIO()):
            ...     truth = COCO("examples/data/instances_val2014_100.json")
            ...     found = truth.loadRes("examples/data/instances_val2014_fakebbox100_results.json")
            ...     evaluation = COCOeval(truth, found, "bbox")
            ...     evaluation.evaluate(), evaluation.accumulate()
            >>> olrp = evaluation.result().olrp()
            >>> round(olrp.values["olrp"], 4), olrp.values["score_threshold_per_class"]["dog"]
            (0.5015, 0.236)
        """
        found: Result = self._asked("olrp", iou_type).olrp(iou)
        return found

    def operating_points(
        self,
        beta: float | None = None,
        precision: float | None = None,
        recall: float | None = None,
        cost: tuple[float, float] | None = None,
        *,
        iou: float = 0.5,
        split: float | None = None,
        seed: int = 0,
        intervals: int | Bootstrap | None = None,
        iou_type: str | None = None,
    ) -> OperatingPoints:
        """Returns the score threshold of each class that serves a purpose, with precision, recall and F there.

        Thresholds are chosen among all scores: a threshold keeps the detections whose score is at least it. Of
        thresholds that serve the purpose alike the highest is taken; of those of the highest precision with a recall
        asked for, the one of the highest recall. Detections that match a crowd or an ignored ground truth count
        nowhere. Without a purpose it is ``beta=1``.

        A threshold flatters the numbers of the data that it was chosen on. ``split`` takes that out.

        Args:
            beta: the largest F of this beta, above 0: (1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP).
            precision: the largest recall with a precision of at least this, above 0 and at most 1.
            recall: the highest precision with a recall of at least this, above 0 and at most 1.
            cost: the least cost of errors, of a false positive and of a missed ground truth.
            iou: least IoU (of keypoints OKS) of a true positive.
            split: the fraction of the images that thresholds are chosen on; the numbers are those of the others. Both
                parts are drawn by ``seed``, the same on every machine.
            seed: of ``split``, 0 to 2**64 - 1.
            intervals: replicates of a bootstrap over images, or its choices; each replicate chooses its thresholds
                anew, so that the intervals are those of the numbers that such a choice gives on images like these.
            iou_type: of a result that has several.

        Returns:
            ``score_threshold``, ``precision``, ``recall``, the F (``f1``, or of another beta ``f2``, ``f0.5``) and,
            where it is the purpose, ``cost``: of all detections at one threshold, those of classes without a ground
            truth as false positives; and by class, such as ``precision_per_class``. Where no threshold reaches the
            number, they are NaN, and the reason names the best that can be reached. Where no detection is a true
            positive, or to keep none costs least, there is no threshold and no precision, and recall and F are 0.
            ``lines("ultralytics")``, ``lines("detectron2")`` and ``lines("yaml")`` are text to paste; ``plot()`` draws
            the lines over scores.

        Raises:
            InputError: there are several purposes, a number is out of range, or the metric has no scores.

        Example:
            >>> import contextlib, io
            >>> from valor_gpu.coco import COCO, COCOeval
            >>> with contextlib.redirect_stdout(io.StringIO()):
            ...     truth = COCO("examples/data/instances_val2014_100.json")
            ...     found = truth.loadRes("examples/data/instances_val2014_fakebbox100_results.json")
            ...     evaluation = COCOeval(truth, found, "bbox")
            ...     evaluation.evaluate(), evaluation.accumulate()
            >>> points = evaluation.result().operating_points(precision=0.9)
            >>> points.values["score_threshold"], round(points.values["recall"], 3)
            (0.643, 0.287)
            >>> points.values["score_threshold_per_class"]["dog"]
            0.236
            >>> print(points.lines("yaml"))  # doctest: +ELLIPSIS
            # metric:OperatingPoints|of:COCOeval|iou_type:bbox...
        """
        asked = {"beta": beta, "precision": precision, "recall": recall, "cost": cost}
        choices: dict[str, Any] = {**asked, "iou": iou, "split": split, "seed": seed, "intervals": intervals}
        found: OperatingPoints = self._asked("operating_points", iou_type).operating_points(**choices)
        return found

    def images(self, iou: float = 0.5, score: float | None = None, iou_type: str | None = None) -> ColumnTable:
        """Returns a table with a row per image: what was found and missed there, and the numbers of the image alone.

        Of detection, at one IoU threshold and by the metric's own matching over all classes, in the first area range
        and the last limit of detections:

        - ``image_id``, or the place of the image where it has no id, and ``file_name`` where it is known
        - ``ground_truths`` and ``detections`` that count, which are ``true_positives`` and ``false_negatives``, and
          ``true_positives`` and ``false_positives``: their sums are the totals of the data set
        - ``precision``, ``recall`` and ``f1``, NaN where the image has nothing to divide by
        - ``mean_iou`` of the true positives, NaN without one; only where the state keeps pairs, as a COCOeval does, and
          MeanAveragePrecision with ``errors=True``
        - ``ignored_ground_truths``, such as crowds, and ``ignored_detections``, which match these, or match nothing
          and are out of the area range or of a class that is not annotated exhaustively

        Of segmentation, where the metric keeps the counts of images (``keep_images=True``): ``image_id``,
        ``file_name`` where it is known, and each single number of the result, of the image alone; of every class, by
        its place, where there is no other. Of panoptic segments also ``true_positives``, ``false_positives``,
        ``false_negatives`` and ``mean_iou`` of the matches.

        Args:
            iou: from which on a detection matches; above 0, at most 1. MeanAveragePrecision without ``errors=True``
                knows its ``iou_thresholds`` alone.
            score: detections below it are left out; the others match as they did, and a ground truth whose hit is left
                out is missed. None: all.
            iou_type: which one, of a result of several.

        Raises:
            InputError: a threshold is out of range or not known, the images are not kept, or the result does not know
                its data.

        Example:
            >>> import torch
            >>> from valor_gpu.detection import MeanAveragePrecision
            >>> metric = MeanAveragePrecision(errors=True)
            >>> boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.4]), "labels": torch.tensor([0, 1])}
            >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([0, 0])}])
            >>> row = metric.result().images().rows()[0]
            >>> row["true_positives"], row["false_positives"], row["false_negatives"], row["f1"], row["mean_iou"]
            (1, 1, 1, 0.5, 1.0)
        """
        found: ColumnTable = self._asked("images", iou_type).image_table(iou=iou, score=score)
        return found

    def matches(
        self, iou: float = 0.5, score: float | None = None, background: float = 0.1, iou_type: str | None = None
    ) -> MatchTable:
        """Returns a table with a row per detection and missed ground truth: outcome, kind of error and partner.

        Images come in their order, their detections by descending score, then their missed ground truths. Columns:

        - ``image_id``, or the place of the image where it has no id
        - ``outcome``: ``true positive``, ``false positive``, ``false negative`` or ``ignored``; see :meth:`images`,
          whose columns are the numbers of these rows
        - ``kind`` of the error, by the rules of TIDE (Bolya et al., ECCV 2020) as :meth:`errors` applies them: of a
          false positive ``classification``, ``localization``, ``both``, ``duplicate`` or ``background``. Of a false
          negative that of the detection with the highest score whose wrong class or misplaced box accounts for it, or
          ``missed``. None of what is no error, and of false positives of keypoints, for which TIDE is not defined
        - ``class`` of the detection, or of the missed ground truth; ``score`` of the detection, NaN of a miss
        - ``detection_id``: of a miss the detection that accounts for it; ``ground_truth_id`` and
          ``ground_truth_class``: the hit, the target of the error, or the missed one; ``iou`` of both, NaN without one
          of them. Without ids a row is known by its place in its image
        - ``x``, ``y``, ``width`` and ``height`` of the detection, or of the missed ground truth, in pixels, where the
          result knows them, as that of a COCOeval does

        ``table.to_coco(path)`` writes false positives and misses for a labelling tool.

        Args:
            iou: from which on a detection matches; above 0, at most 1.
            score: detections below it are left out; the others match as they did, and a ground truth whose hit is left
                out is missed. None: all.
            background: IoU up to which a false positive is background; above 0, below ``iou``.
            iou_type: which one, of a result of several.

        Raises:
            InputError: a threshold is out of range, the result knows no pairs of detections and ground truths
                (MeanAveragePrecision needs ``errors=True``), or no data.

        Example:
            >>> import torch
            >>> from valor_gpu.detection import MeanAveragePrecision
            >>> metric = MeanAveragePrecision(errors=True)
            >>> boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.4]), "labels": torch.tensor([0, 1])}
            >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([0, 0])}])
            >>> for row in metric.result().matches().rows():
            ...     print(row["outcome"], row["kind"], row["class"], row["ground_truth_class"])
            true positive None 0 0
            false positive classification 1 0
            false negative classification 0 0
        """
        found: MatchTable = self._asked("matches", iou_type).match_table(iou=iou, score=score, background=background)
        return found

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
        slice of their own. What the result knows needs no table: ``by("crowding")`` slices by the ground truths that
        count in an image, ``by("image_size")`` by the square root of its width times its height in pixels.
        ``by("size")`` and ``by("aspect_ratio")`` slice the objects, by their area in pixels and by width over height of
        their boxes: ground truths outside of a bin are ignored, and so are detections outside that match none.

        Args:
            table: a DataFrame, a table of pyarrow, a mapping of columns, a list of mappings, or the path of a file
                (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.npz``), with a row for each image. The first column of
                ``image_id``, ``image`` and ``file_name`` that it has says which image a row is of; numbers match their
                texts. Of a metric that knows no ids, rows are the images in the order of their arrival, or ``image_id``
                counts them from 0.
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
            permutations: sets of images that are drawn for a slice at most; drawing ends early where a slice is clearly
                not low (Besag and Clifford 1991).
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
        """The analysis that answers; several by prefix where there are several ``iou_type``."""
        own = vars(self)
        if own.get("_analysis") is None:
            raise InputError(_UNKNOWN.format(name=name))
        if callable(own["_analysis"]):
            own["_analysis"] = own["_analysis"]()
        found = own["_analysis"]
        if isinstance(found, Mapping):
            kinds = tuple(found)
            if iou_type is None:
                raise InputError(f"iou_type must be one of {', '.join(map(repr, kinds))}, which the result has, for"
                                 f" {name}()")  # fmt: skip
            check_choice("iou_type", iou_type, kinds)
            return found[iou_type]
        return found
