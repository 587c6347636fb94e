"""ResultData: numbers, the choices that made them, counts, and why a number is missing. Imports no torch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from valor_gpu._frozen import frozen
from valor_gpu._headline import headline
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.exports.intervals import bounds_text, exists, interval_document, interval_scalars
from valor_gpu.exports.leaves import json_value, leaves, numbers_of, plain, read_only, reasons_of
from valor_gpu.exports.result_text import result_text
from valor_gpu.exports.signature import Signature
from valor_gpu.exports.texts import is_scalar, value_text
from valor_gpu.stats.intervals import Bootstrap, Intervals

if TYPE_CHECKING:
    import os

    import pandas
    import pyarrow
    from typing_extensions import Self

    from valor_gpu.stats.resample import Resampled
    from valor_gpu.store.saved import SavedRun


def require_matplotlib(purpose: str) -> None:
    """Raises :class:`MissingExtraError` unless matplotlib is installed; ``purpose`` is what needs it."""
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot", purpose)


@frozen
class ResultData:
    """Numbers with the choices that made them, counts, and reasons for missing numbers.

    A :class:`valor_gpu.result.Result` also answers questions about the data behind its numbers; its answers are
    results of this class.

    Attributes:
        values: name to number, to array (anything with ``shape`` and ``tolist``), or to a mapping of these. NaN: the
            number does not exist on this data.
        signature: the choices that made the numbers.
        counts: how many there were, for example, of images, ground truths, predictions, failures; the text shows those
            that are not 0.
        reasons: name to why that number is NaN. Nested names are joined by ``/``; the reason of a mapping
            holds for everything in it.
        plotter: called as ``plotter(result, ax=..., **options)`` by :meth:`plot`.
        intervals: leaf name to :class:`valor_gpu.stats.Interval`, and the choices that made them; empty unless asked
            for.

    Args:
        state: what the numbers came from, or a function that returns it, for :meth:`with_intervals`; it is never saved.
        provenance: the mapping of :attr:`provenance`, or a function that returns it at the first access; None: unknown.

    Raises:
        InputError: a value is of another kind, or a reason names no value.
    """

    values: Mapping[str, Any]
    signature: Signature
    counts: Mapping[str, int]
    reasons: Mapping[str, str]
    plotter: Callable[..., Any] | None = field(repr=False)
    intervals: Intervals = field(repr=False)

    def __init__(
        self,
        values: Mapping[str, Any],
        signature: Signature,
        counts: Mapping[str, int] | None = None,
        reasons: Mapping[str, str] | None = None,
        plotter: Callable[..., Any] | None = None,
        provenance: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        intervals: Intervals | None = None,
        state: Resampled | Callable[[], Resampled] | None = None,
    ) -> None:
        vars(self).update(
            _provenance=provenance,
            _state=state,
            values=read_only(values),
            signature=signature,
            counts=read_only(counts or {}),
            reasons=read_only(reasons or {}),
            plotter=plotter,
            intervals=Intervals() if intervals is None else intervals,
        )
        names = {name for name, _ in leaves(self.values)}
        for reason in self.reasons:
            if reason not in names and not any(name.startswith(f"{reason}/") for name in names):
                raise InputError(f"reasons must name values but got {reason!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        names = (*(f.name for f in fields(self) if f.name != "intervals"), "provenance", "intervals")
        return ResultData, tuple(plain(getattr(self, name)) for name in names)

    def __copy__(self) -> Self:
        found = object.__new__(type(self))  # not by __reduce__: a copy knows the data of its numbers, a file does not
        vars(found).update(vars(self))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found = copy.copy(self)
        vars(found)["values"] = read_only(copy.deepcopy(plain(self.values), memo))
        return found

    @property
    def provenance(self) -> dict[str, Any]:
        """Data, protocol, device and kernels of the numbers; found at the first access, a new plain dict at each.

        It is no part of the signature: numbers of any device can be compared. ``docs/guides/results.md`` says for each
        metric what is hashed.

        Returns:
            ``ground_truth`` and ``predictions``: SHA-256 of the data, free of the order of updates, batches and ranks;
            None where ``reasons`` says why. ``hashed``: of what: ``annotations``, ``images``, ``rows``, ``texts`` or
            ``files``. ``deviations``: what is no default of the protocol. ``dtype`` and ``world_size``: of the state,
            and how many ranks it is of. ``version``, ``versions``: of this package, of others. ``device``: ``cpu``, the
            name of the CUDA device, or another. ``kernels``: of each op that may have had a part ``C++``, ``CUDA``,
            ``Triton`` or ``reference`` (torch); ``host``, beside the ops: ``C++`` or ``Python``. Empty where unknown.

        Example:
            >>> from valor_gpu.segmentation import PanopticQuality
            >>> made = PanopticQuality(things={0}, stuffs={1}).result().provenance
            >>> made["device"], sorted(made["kernels"])
            ('cpu', ['count_panoptic', 'host'])
        """
        own = vars(self)
        if not isinstance(own["_provenance"], MappingProxyType):
            given = own["_provenance"] or {}
            own["_provenance"] = read_only(given() if callable(given) else given)
        return dict(plain(own["_provenance"]))

    def with_intervals(self, intervals: int | str | Bootstrap = 1000) -> Self:
        """Returns this result with an interval beside every number that has one; nothing is matched or judged again.

        Args:
            intervals: replicates of the bootstrap, all of its choices, or the method ``delong``, ``wilson`` or
                ``clopper_pearson``.

        Raises:
            InputError: the result does not know the state that it came from: it was read from a file, or its metric
                keeps too little.
        """
        from valor_gpu.stats.resample import intervals_of

        state = vars(self)["_state"]
        if state is None:
            raise InputError(
                "intervals need the state that the result came from, which no file of a result holds: ask the metric"
                " for result(intervals=1000), or the command for --intervals 1000"
            )
        state = state() if callable(state) else state
        found = copy.copy(self)
        vars(found)["intervals"] = intervals_of(dict(numbers_of(self.values)), state, Bootstrap.of(intervals))
        return found

    def reason(self, name: str) -> str | None:
        """Why ``name`` (nested: ``a/b``, or named as in :meth:`scalars`) is NaN, None when nothing is known."""
        parts = name.split("/")
        names = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
        if len(parts) > 1 and parts[0] == self.signature.get("metric"):  # numbers of classes alone
            names.append("per_class")
        return next((self.reasons[n] for n in names if n in self.reasons), None)

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """Every number by its name after ``prefix``, for any logger; arrays are left out, NaN stays.

        A result with numbers of classes alone (``average=None``) has one for each, such as ``Accuracy/0``. With
        intervals the ends of each number that has one follow, such as ``map_low`` and ``map_high``; those of numbers in
        a mapping, such as classes, do not.
        """
        from valor_gpu.exports.logs import numbers_by_class

        found = dict((name, float(value)) for name, value in leaves(self.values) if is_scalar(value))
        found = found or dict(numbers_by_class(self.values, self.signature))
        ends = interval_scalars(self.intervals, self.values)
        return {prefix + name: value for name, value in {**found, **ends, **found}.items()}

    def log(self, logger: Any, step: int | None = None, prefix: str = "") -> None:
        """Logs every number of :meth:`scalars`.

        Args:
            logger: the module ``wandb`` or one of its runs; the module ``mlflow``; a ``SummaryWriter`` of TensorBoard;
                a ``LightningModule``, a logger of Lightning, or ``Fabric``.
            step: of the logger; None: it counts itself. A LightningModule always does.
            prefix: before every name, such as ``"val/"``.

        Raises:
            InputTypeError: ``logger`` is none of these.
            InputError: ``step`` is given to a LightningModule, or two names are the same to MLflow, which gets ``_``
                for characters that it refuses.

        Example:
            >>> class Writer:  # as torch.utils.tensorboard.SummaryWriter
            ...     def add_scalar(self, name, value, step):
            ...         print(name, value, step)
            >>> ResultData({"map": 0.5}, Signature({})).log(Writer(), step=3, prefix="val/")
            val/map 0.5 3
        """
        from valor_gpu.exports.logs import log_scalars

        log_scalars(logger, self.scalars(prefix), step)

    def to_dict(self, arrays: bool = True) -> dict[str, Any]:
        """A dict that ``json.dumps(..., allow_nan=False)`` takes: what is not finite is None.

        Args:
            arrays: keep the arrays, as nested lists.

        Returns:
            ``values``, ``signature``, ``counts``, ``reasons`` with an entry for every number that is None and for every
            array with such a number whose reason is known, and ``provenance``, which two results of the same numbers
            need not share. With intervals also ``intervals``, the attributes of :class:`valor_gpu.stats.Interval` by
            name, and ``interval_choices``.
        """
        return {
            "values": json_value(self.values, arrays),
            "signature": json_value(self.signature),
            "counts": dict(self.counts),
            "reasons": dict(reasons_of(self.values, self.reason, arrays)),
            "provenance": json_value(self.provenance),
            **interval_document(self.intervals),
        }

    def to_json(self, arrays: bool = True, indent: int | None = None) -> str:
        """Strict JSON of :meth:`to_dict`: what is not finite is ``null``, and ``reasons`` says why.

        Args:
            arrays: keep the arrays, as nested lists.
            indent: spaces of each level; None: all on one line.

        Example:
            >>> data = ResultData({"ap": float("nan")}, Signature({"version": "1"}), reasons={"ap": "no truth"})
            >>> data.to_json().partition(', "provenance": ')[0]
            '{"values": {"ap": null}, "signature": {"version": "1"}, "counts": {}, "reasons": {"ap": "no truth"}'
        """
        import json

        return json.dumps(self.to_dict(arrays), allow_nan=False, indent=indent)

    def to_pandas(self, arrays: bool = False) -> pandas.DataFrame:
        """A table with one row for each number.

        Args:
            arrays: also one row for each number of an array; without it arrays are left out.

        Returns:
            Columns ``name``; ``key`` (within a mapping, such as the class; in an array the place, such as ``0,3``;
            missing for a number of its own); ``value`` (float64, NaN: does not exist); ``reason`` (why). ``attrs`` has
            ``signature`` and ``counts``. With intervals also ``low``, ``high`` and ``standard_error``, missing where a
            number has none; ``reason`` then says why; and ``interval_choices`` in ``attrs``.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> frame = ResultData({"map": 0.5, "map_per_class": {"cat": 0.25, "dog": 0.75}}, Signature({})).to_pandas()
            >>> frame["value"].tolist(), frame["key"].tolist()[1:]
            ([0.5, 0.25, 0.75], ['cat', 'dog'])
        """
        from valor_gpu.exports.frames import pandas_table

        return pandas_table(self._entries(), arrays, self._choices(), self.intervals)

    def to_arrow(self, arrays: bool = False) -> pyarrow.Table:
        """The table of :meth:`to_pandas` as one of pyarrow: strings and float64; what is missing is null, NaN stays.

        ``schema.metadata`` has ``signature`` and ``counts`` as JSON.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        from valor_gpu.exports.frames import arrow_table

        return arrow_table(self._entries(), arrays, self._choices(), self.intervals)

    def _repr_html_(self) -> str:
        """Tables for notebooks: numbers with their bars and reasons, classes folded, counts and the signature."""
        from valor_gpu.exports.html import result_html

        return result_html(self._entries(), self.counts, str(self.signature), self.intervals)

    def _choices(self) -> dict[str, Any]:
        choices = {"interval_choices": json_value(self.intervals.choices)} if self.intervals.choices else {}
        return {"signature": json_value(self.signature), "counts": dict(self.counts), **choices}

    def _entries(self) -> Iterator[tuple[str, str | None, Any, str | None]]:
        """Name, key within it, number or array, reason."""
        for name, value in self.values.items():
            if isinstance(value, Mapping):
                for key, part in leaves(value):
                    yield name, key, part, self.reason(f"{name}/{key}")
            else:
                yield name, None, value, self.reason(name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes this result to a file of strict JSON, in one step; :meth:`load` reads it.

        Numbers, arrays with their dtypes, NaN, infinities, counts, reasons and the signature come back with the same
        bits: tensors as arrays of numpy (bfloat16 as float32), the picture of :meth:`plot` not at all.

        Raises:
            OSError: the file cannot be written; an older one stays as it is.
        """
        from valor_gpu.exports.files import file_text, write_text

        document = self.to_dict() | {"reasons": dict(self.reasons)}
        write_text(path, file_text(document, leaves(self.values), self.intervals))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a file of :meth:`save`; nothing in it is executed.

        Raises:
            InputError: the file is not one of :meth:`save`, is damaged, or has a newer format.
            OSError: the file cannot be read.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ResultData({"map": 0.37}, Signature({"metric": "mAP"})).save(f"{folder}/map.json")
            ...     ResultData.load(f"{folder}/map.json").values["map"]
            0.37
        """
        from valor_gpu.exports.files import read_parts

        values, signature, counts, reasons, provenance, intervals = read_parts(path)
        return cls(values, Signature(signature), counts, reasons, provenance=provenance, intervals=intervals)

    def to_run(self, kind: str | None = None, names: Sequence[str] | Mapping[str, str] | None = None) -> SavedRun:
        """This result as :meth:`valor_gpu.store.Store.save` keeps it.

        Args:
            kind: ``detection``, ``segmentation`` or ``classification``; by default the signature says it.
            names: of classes that the result knows by their numbers: one each, or by the number as text.

        Raises:
            InputError: the signature does not say what it is a result of.
        """
        from valor_gpu.store.result_runs import run_of_document

        return run_of_document({**self.to_dict(), "signature": dict(self.signature)}, kind, names)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draws this result with matplotlib; returns the axes.

        Args:
            ax: matplotlib axes; None makes new ones with pyplot.
            options: of the picture. All take ``source`` (what was evaluated, for the title) and ``resize`` (fit the
                figure of ``ax`` to the picture); pictures of classification take ``names`` (of the classes), and the
                confusion matrix takes ``label`` (which label of the multilabel task) and ``normalize`` (``true``,
                ``pred`` or ``all``). Of detection by Valor's rules, bars and the confusion matrix take ``names`` (label
                to name), ``iou`` and ``score`` (which of the thresholds, by index), curves over scores ``label``.

        Raises:
            MissingExtraError: matplotlib is not installed.
            InputError: results of this metric have no picture.
        """
        require_matplotlib("Result.plot")
        if self.plotter is None:
            name = self.signature.get("metric", "this metric")
            raise InputError(
                f"plot needs a result with a picture but that of {name} has none: ROC, PrecisionRecallCurve,"
                " CostCurve, RetrievalPrecisionRecallCurve, ConfusionMatrix, PixelConfusionMatrix, CalibrationError,"
                " MeanAveragePrecision, COCOeval and metrics of detection by Valor's rules have one; a metric's own"
                " plot() draws its value"
            )
        return self.plotter(self, ax=ax, **options)

    def __repr__(self) -> str:
        shown = {name: value_text(value) for name, value in self.values.items()}
        for name in shown.keys() & self.intervals.keys():
            if exists(self.intervals[name]):
                shown[name] += f" {bounds_text(self.intervals[name])}"
        return headline("Result", str(self.signature.get("metric", "")), shown, text=str)

    def __str__(self) -> str:
        return result_text(self.values, self.counts, str(self.signature), self.reason, self.intervals)
