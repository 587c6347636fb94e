"""compare: is one model better than another on the same data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from valor_gpu.comparison.built import built
from valor_gpu.comparison.choices import Choices
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.comparisons import Comparisons
from valor_gpu.comparison.families import SLICES, Path, adjusted, other_tests, path_of
from valor_gpu.comparison.pairs import Pair, Pairs, numbers_of_pairs
from valor_gpu.comparison.same_protocol import check_protocols
from valor_gpu.comparison.sides import Side, side_of, text_run
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.methods import FEW_UNITS
from valor_gpu.stats.paired_states import SAME, PairedNumber
from valor_gpu.stats.units import Pairing

_NAMES = ("first", "second", "third")


def compare(
    first: Any,
    second: Any = None,
    *others: Any,
    baseline: Any = None,
    replicates: int = 1000,
    permutations: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    clusters: Mapping[Any, Any] | Sequence[Any] | None = None,
    adjust: str = "max_t",
    smallest_difference: float | None = None,
    power: float = 0.8,
    observed_power: bool = False,
    table: Any = None,
    by: Any = None,
) -> ComparisonResult | Comparisons:
    """Compares two models, or more, on the same data.

    Units, such as images, are drawn anew with replacement, the same ones for every model, and the difference is taken
    in each replicate. Its interval is paired: what makes an image hard for all models cancels. The p-value is the least
    error rate whose interval leaves out 0, so that interval and test never disagree. Beside it stands the p-value of a
    permutation that swaps whole units between the models. Its hypothesis is stronger, that models are exchangeable.

    A number is of the units that both models have it for: a row that failed for one of two is left out of both means,
    and counted as ``left_out_of_<number>``.

    Some numbers have a test of their own in place of the bootstrap, with the interval of that test: areas under the ROC
    curve that of DeLong, accuracies and other shares of rows that of McNemar, and means of at most 200 rows, or
    clusters, the test of sign flips, which is exact up to 16 of them: the bootstrap alarms too often on few rows.

    Units are paired by their ids, or by the order in which they came, those of the first rank first. Both models then
    need the same order: other ground truths at a place are an error, and where a metric keeps none, such as the scores
    of texts and of distances between boundaries, a note says that nothing tells.

    Args:
        first: the model that is there: a result of this process, a metric, an evaluation, the path of a state file, or
            a stored run; or a mapping of names to two models and more, which is then the only model argument.
        second: the model that may replace it; likewise.
        others: further models; likewise.
        baseline: the model that each other one is compared with, one of those given, or its name in a mapping. None:
            the first of two; of more models each is compared with every one before it.
        replicates: of the bootstrap.
        permutations: how many; None: as many as replicates, 0: none.
        confidence: of the intervals, above 0 and below 1.
        seed: of the draws.
        clusters: of the units, which are drawn and swapped as a whole; see :class:`valor_gpu.stats.Bootstrap`. Of runs
            of texts it is a column of their data.
        adjust: p-values are adjusted over the classes of a number, over slices, and over pairs of models: ``max_t`` by
            step-down maxima of the same replicates, ``holm``, or for the false discovery rate ``benjamini_hochberg``
            and ``benjamini_yekutieli``.
        smallest_difference: the least difference that would matter, above 0: ``units_needed`` says how many units show
            it with this ``power``. It is one size for all numbers.
        power: probability of finding a difference that is there, above 0 and below 1.
        observed_power: also give the power for the difference that was seen, which follows from the p-value.
        table: of the units, for ``by``; see :meth:`valor_gpu.result.Result.by`. None: the result knows the columns.
        by: column, or columns, whose values make slices of images or queries, each compared on its own; a mapping of
            columns has their ascending edges, None for the values themselves.

    Returns:
        Differences, second less first, with paired intervals and tests. Of three models and more a mapping of the pairs
        by names such as ``detr vs yolo``.

    Raises:
        InputError: the models have other units, thresholds or protocols, and the message names the first difference;
            an argument is out of its range, or ``baseline`` is none of the models.
        InputTypeError: an argument is no model.

    Source: Efron and Tibshirani, "An introduction to the bootstrap" (1993), chapters 8 and 15; Westfall and Young,
    "Resampling-based multiple testing" (1993); Phipson and Smyth, "Permutation p-values should never be zero" (2010).

    Example:
        >>> import torch
        >>> from valor_gpu.segmentation import mIOU
        >>> target = torch.randint(0, 2, (40, 1, 8), generator=torch.Generator().manual_seed(0))
        >>> old, new = mIOU(2, keep_images=True), mIOU(2, keep_images=True)
        >>> for metric, wrong in ((old, 4), (new, 3)):
        ...     preds = target.clone()
        ...     preds[::2, :, :wrong] = 1 - preds[::2, :, :wrong]  # of every other image
        ...     metric.update(preds, target)
        >>> found = compare(old, new, replicates=200)
        >>> found.values["difference"]["mIOU"] > 0, found.values["p"]["mIOU"] < 0.05
        (True, True)
    """
    bootstrap = Bootstrap(replicates, confidence, seed)
    permutations = replicates if permutations is None else permutations
    choices = Choices(bootstrap, permutations, adjust, smallest_difference, power, observed_power)
    if table is not None and by is None:
        raise InputError("by must name columns of the table but is None")
    models = _models(first, second, others)
    pairs = _pairs(models, baseline)
    if any(text_run(model) is not None for model in models.values()):
        from valor_gpu.comparison.text_runs import compare_text_runs

        results = compare_text_runs(models, pairs, clusters, choices, by is not None)
    else:
        sides = [side_of(model, name) for name, model in models.items()]
        results = _results(sides, pairs, clusters, choices, None if by is None else (table, by))
    if len(results) == 1:
        return results[0]
    names = list(models)
    return Comparisons({f"{names[two]} vs {names[one]}": each for (one, two), each in zip(pairs, results)})


def _models(first: Any, second: Any, others: Sequence[Any]) -> dict[str, Any]:
    """Models by their names."""
    if not isinstance(first, Mapping):
        if second is None:
            raise InputTypeError("second must be a model but is None: compare takes two models, or a mapping of them")
        given = (first, second, *others)
        return {
            _NAMES[place] if place < len(_NAMES) else f"model {place + 1}": each for place, each in enumerate(given)
        }
    if second is not None or others:
        raise InputTypeError("second must be None where first is a mapping of models: put all models in the mapping")
    if len(first) < 2:
        raise InputError(f"a mapping of models must have at least 2 but has {len(first)}")
    odd = next((name for name in first if not isinstance(name, str)), None)
    if odd is not None:
        raise InputTypeError(f"names of models must be texts but one is {odd!r}")
    return dict(first)


def _pairs(models: Mapping[str, Any], baseline: Any) -> Pairs:
    """Places of the models of each pair."""
    count = len(models)
    if baseline is None:
        return [(one, two) for two in range(1, count) for one in range(two)]
    places = [place for place, (name, model) in enumerate(models.items()) if model is baseline or name is baseline]
    if not places and isinstance(baseline, str):
        places = [place for place, (name, model) in enumerate(models.items()) if baseline in (name, model)]
    if not places:
        raise InputError(f"baseline must be one of the models, or the name of one in a mapping, but is {baseline!r}")
    return [(places[0], other) for other in range(count) if other != places[0]]


def _results(
    sides: Sequence[Side], pairs: Pairs, clusters: Any, choices: Choices, sliced: tuple[Any, Any] | None
) -> list[ComparisonResult]:
    for one, two in pairs:
        _check(sides[one], sides[two])
    whole = numbers_of_pairs(sides, pairs, clusters, choices)
    notes = [_notes(pair) for pair in whole]
    found: list[dict[Path, PairedNumber]] = [
        {path_of(name): each for name, each in pair.numbers.items()} for pair in whole
    ]
    drawn_of: dict[str, int] = {}
    if sliced is not None:
        from valor_gpu.comparison.sliced import slices_of

        for name, (parts, named) in slices_of(sides, *sliced, clusters).items():
            sliced_pairs = numbers_of_pairs(parts, pairs, named, choices)
            drawn_of[name] = sliced_pairs[0].pairing.drawn
            for mine, pair in zip(found, sliced_pairs):
                mine |= {(SLICES, name, number): each for number, each in pair.numbers.items() if "/" not in number}
    others = other_tests(found) if choices.adjust == "max_t" else []
    more = (
        [f"p_adjusted of {', '.join(others)}: their normal deviates against maxima of the bootstrap"] if others else []
    )
    notes = [[*noted, *more, *_few(pair.pairing, drawn_of)] for pair, noted in zip(whole, notes)]
    return [
        built(pair.sides, numbers, p_values, pair.pairing, choices, noted, drawn_of)
        for pair, numbers, p_values, noted in zip(whole, found, adjusted(found, choices.adjust), notes)
    ]


def _check(first: Side, second: Side) -> list[str]:
    return check_protocols(first.signature, second.signature, (first.called, second.called))


def _few(pairing: Pairing, drawn_of: Mapping[str, int]) -> list[str]:
    """A note on a bootstrap of few units, or clusters, whose spread is known badly and whose shape is not normal."""
    drawn = {"all data": pairing.drawn, **drawn_of}
    few = [f"{name} ({number:,})" for name, number in drawn.items() if 1 < number < FEW_UNITS]
    if not few:
        return []
    return [f"below {FEW_UNITS} {pairing.unit} tests and intervals of the bootstrap are approximate: {', '.join(few)}"]


def _grouped(names: Iterable[str], among: Iterable[str]) -> list[str]:
    """Names of numbers, those of classes by the name that they share, with how many where not all are named."""
    named, whole = (Counter(name.partition("/")[0] for name in each) for each in (names, among))
    return [name if count == whole[name] else f"{name} ({count} of {whole[name]})" for name, count in named.items()]


def _notes(pair: Pair) -> list[str]:
    """Notes on both sides, on how their units are paired, and on what is not compared."""
    (first, second), doubt = pair.sides, pair.pairing.doubt
    notes = [*first.notes, *second.notes, *_check(first, second)]
    notes += [doubt] if doubt else []
    same = [name for name, each in pair.numbers.items() if each.interval.low == each.interval.high == 0]
    notes += [f"{SAME}: {', '.join(_grouped(same, pair.numbers))}"] if same else []
    mine, theirs = first.values, second.values
    for name, alone in ((first.name, mine.keys() - theirs.keys()), (second.name, theirs.keys() - mine.keys())):
        if alone:
            numbers = "1 number is" if len(alone) == 1 else f"{len(alone):,} numbers are"
            notes.append(f"{numbers} of {name} alone, such as {min(alone)}")
    single = (name for name in single_numbers(first.result.values) if name in theirs and name not in pair.numbers)
    left = dict.fromkeys(name.partition("/")[0] for name in single)
    if left:
        notes.append(f"not compared, since the metric gives no replicates of them: {', '.join(left)}")
    return notes
