"""Methods of Result about the data behind its numbers: errors, operating points, tables, slices. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.result_slices import Sliced

if TYPE_CHECKING:
    from valor_gpu.analysis.match_table import MatchTable
    from valor_gpu.analysis.points_result import OperatingPoints
    from valor_gpu.analysis.tide_result import DetectionErrors
    from valor_gpu.exports.column_table import ColumnTable
    from valor_gpu.result_data import ResultData
    from valor_gpu.stats.intervals import Bootstrap

_UNKNOWN = (
    "{name}() needs the data that the result came from, which this one does not have: it is from a file, or"
    " {metric} answers no such questions"
)
_UNDEFINED = "{name}() is not defined for results of {metric}{advice}"


class Analysed(Sliced):
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
                data would show. Detections beyond the limit have no part, in the mended data neither. To metrics by
                Valor's rules, detections of equal score stand as they came, which may move ``ap``. ``tidecv``:
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
            >>> import torch
            >>> from valor_gpu.detection import MeanAveragePrecision
            >>> metric, box = MeanAveragePrecision(errors=True), torch.tensor([[0.0, 0.0, 10.0, 10.0]])
            >>> dog = {"boxes": box, "scores": torch.tensor([0.9]), "labels": torch.tensor([2])}
            >>> cat = {"boxes": box, "labels": torch.tensor([1])}
            >>> metric.update([dog], [cat])  # a cat that is called a dog
            >>> errors = metric.result().errors()
            >>> round(errors.values["ap"], 3), round(errors.values["gains"]["classification"], 3)
            (0.0, 1.0)
            >>> errors.counts["classification"], errors.values["counts_per_class"]["classification"]["2"]
            (1, 1)
        """
        found: DetectionErrors = self._asked("errors", iou_type).errors(iou, background, protocol)
        return found

    def olrp(self, iou: float = 0.5, iou_type: str | None = None) -> ResultData:
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
        found: ResultData = self._asked("olrp", iou_type).olrp(iou)
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

    def _asked(self, name: str, iou_type: str | None) -> Any:
        """The analysis that answers; several by prefix where there are several ``iou_type``."""
        own = vars(self)
        if own.get("_analysis") is None:
            metric = own.get("signature", {}).get("metric", "its metric")
            # A result has a state where it was made, and has none from a file.
            message = _UNKNOWN if own.get("_state") is None else _UNDEFINED
            advice = ": update one metric for each slice" if name in ("by", "worst_slices") else ""
            raise InputError(message.format(name=name, metric=metric, advice=advice))
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
        if iou_type is not None:
            check_choice("iou_type", iou_type, (None, *_iou_type_of(found)))
        return found


def _iou_type_of(analysis: Any) -> tuple[str, ...]:
    """The ``iou_type`` of a result that has one alone; none of what is not compared by IoU."""
    return tuple(str(kind) for kind in [getattr(analysis, "choices", {}).get("iou_type")] if kind is not None)
