"""Rows of two models in pairs: every replicate is the metric on copies of the same rows, whatever their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.ddp import run_ranks
from valor_gpu.classification import (
    EER,
    ROC,
    ROCAUC,
    Accuracy,
    AveragePrecision,
    CohenKappa,
    F1Score,
    MultilabelF1Score,
)
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.metric import Metric
from valor_gpu.result import Result
from valor_gpu.stats import compare
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.ranks import mid_ranks
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.row_samples import Arrivals, Pooled, RowSample
from valor_gpu.stats.units import Pairing, Units, pair_units
from valor_gpu.text import BLEU, ROUGE, SQuAD, TokenF1, WordErrorRate

N, C = 120, 4
IGNORED = 9
WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "rain", "with", "blue"]


@dataclass(frozen=True)
class Case:
    """A metric and the rows of two models: of each model predictions, and targets of both."""

    make: Callable[[], Metric[Any]]
    sides: tuple[Sequence[Any], Sequence[Any]]
    target: Sequence[Any]

    def metric(self, side: int, rows: Sequence[int] | None = None, split: int | None = None) -> Metric[Any]:
        metric, order = self.make(), list(range(len(self.target)) if rows is None else rows)
        for first in range(0, max(len(order), 1), split or max(len(order), 1)):
            part = order[first : first + (split or len(order))]
            metric.update(_taken(self.sides[side], part), _taken(self.target, part))
        return metric


def _taken(values: Sequence[Any], rows: Sequence[int]) -> Any:
    return values[rows] if isinstance(values, torch.Tensor) else [values[row] for row in rows]


def _scores(shape: tuple[int, ...], target: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with many ties, of a model and of a better one."""
    rng = np.random.default_rng(seed)
    hot = target if len(shape) == 1 or target.ndim == 2 else torch.nn.functional.one_hot(target % C, C)
    noise = [torch.from_numpy(rng.random(shape)) for _ in range(2)]
    first, second = (((each + gain * (hot == 1)) * 8).round() / 16 for each, gain in zip(noise, (0.2, 0.5)))
    return first.float(), second.float()


def _scored(make: Callable[[], Metric[Any]], kind: str, ignored: bool = False) -> Case:
    rng = np.random.default_rng(3)
    shape = (N,) if kind == "binary" else (N, C)
    target = torch.from_numpy(rng.integers(0, C if kind == "multiclass" else 2, N if kind == "multiclass" else shape))
    sides = _scores(shape, target, 5)
    if ignored:
        target[torch.from_numpy(rng.random(target.shape) < 0.2)] = IGNORED
    return Case(make, sides, target)


def _texts(make: Callable[[], Metric[Any]]) -> Case:
    rng = np.random.default_rng(7)
    target = [" ".join(rng.choice(WORDS, rng.integers(1, 5))) for _ in range(N)]

    def said(kept: float) -> list[str]:
        return [" ".join(w if rng.random() < kept else str(rng.choice(WORDS)) for w in row.split()) for row in target]

    return Case(make, (said(0.6), said(0.7)), target)


def _questions() -> Case:
    texts = _texts(SQuAD)
    sides = [[{"prediction_text": said, "id": str(n)} for n, said in enumerate(side)] for side in texts.sides]
    answers = [{"answers": {"answer_start": [0], "text": [true]}, "id": str(n)} for n, true in enumerate(texts.target)]
    return Case(SQuAD, (sides[0], sides[1]), answers)


CASES = {
    "ROCAUC": _scored(ROCAUC, "binary"),
    "ROCAUC macro": _scored(lambda: ROCAUC(num_classes=C), "multiclass"),
    "ROCAUC micro": _scored(lambda: ROCAUC(num_labels=C, average="micro"), "multilabel"),
    "AveragePrecision ignored": _scored(
        lambda: AveragePrecision(num_labels=C, ignore_index=IGNORED), "multilabel", ignored=True
    ),
    "AveragePrecision rows ignored": _scored(
        lambda: AveragePrecision(num_classes=C, ignore_index=IGNORED), "multiclass", ignored=True
    ),
    "EER": _scored(EER, "binary"),
    "Accuracy": _scored(lambda: Accuracy(keep_rows=True), "binary"),
    "F1Score": _scored(lambda: F1Score(num_classes=C, average="macro", keep_rows=True), "multiclass"),
    "F1Score ignored": _scored(
        lambda: F1Score(num_classes=C, average="macro", keep_rows=True, ignore_index=IGNORED),
        "multiclass",
        ignored=True,
    ),
    "MultilabelF1Score": _scored(
        lambda: MultilabelF1Score(num_labels=C, keep_rows=True, ignore_index=IGNORED), "multilabel", ignored=True
    ),
    "TokenF1": _texts(TokenF1),
    "ROUGE": _texts(ROUGE),
    "BLEU": _texts(lambda: BLEU(keep_rows=True)),
    "WordErrorRate": _texts(lambda: WordErrorRate(keep_rows=True)),
    "SQuAD": _questions(),
}
RANKED = [name for name in CASES if name.startswith(("ROCAUC", "AveragePrecision", "EER"))]
MEANS = ("TokenF1", "ROUGE", "SQuAD")
EVERY = pytest.mark.parametrize("name", CASES)


def state_of(result: Result) -> Resampled:
    state = vars(result)["_state"]
    found: Resampled = state() if callable(state) else state
    return found


def states_of(case: Case) -> tuple[Resampled, Resampled]:
    return state_of(case.metric(0).result()), state_of(case.metric(1).result())


def paired(states: tuple[Resampled, Resampled], clusters: Any = None) -> Pairing:
    return pair_units(states[0].identities(), states[1].identities(), clusters)


@EVERY
def test_replicates_of_both_models_are_the_metric_on_copies_of_their_rows(name: str) -> None:
    case = CASES[name]
    states = states_of(case)
    for side, (state, codes) in enumerate(zip(states, paired(states).codes)):
        draws = Draws(state.units, 4, seed=2, clusters=codes)
        weights, arrival = draws.array(), state.identities().arrival
        assert arrival is not None and sorted(codes.tolist()) == list(range(state.units))
        found = state.replicates(draws)
        for lane in range(4):
            rows = np.repeat(arrival, weights[:, lane]).tolist()
            wanted = dict(numbers_of(case.metric(side, rows).result().values))
            numbers = {key: values[lane] for key, values in found.items() if key in wanted}
            ours = {key: wanted[key] for key in numbers}
            # The mean of a metric adds scores in another order than weights of rows do.
            assert numbers == (pytest.approx(ours, rel=1e-13) if name in MEANS else ours) and numbers


@EVERY
def test_every_row_is_drawn_for_both_models_at_once(name: str) -> None:
    """Pairs of what equal codes have are the rows: rows of a state that hold the same may stand for each other."""
    states = states_of(CASES[name])
    units = [state.identities() for state in states]
    by_code, by_row = [], []
    for side, codes in zip(units, paired(states).codes):
        assert side.arrival is not None
        by_code.append(side.ranks[np.argsort(codes)])
        by_row.append(side.ranks[np.argsort(side.arrival)])
    assert sorted(zip(*by_code)) == sorted(zip(*by_row))
    assert by_code[0].tolist() == sorted(by_code[0].tolist())


@EVERY
def test_no_order_split_or_merge_changes_a_bit(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(1)
    clusters = [row // 3 for row in range(N)]
    order = rng.permutation(N).tolist()
    merged = [case.metric(side, order[:50]) for side in (0, 1)]
    for side, metric in enumerate(merged):
        metric.merge_state(case.metric(side, order[50:]))
    made = {
        "whole": ([case.metric(side) for side in (0, 1)], clusters),
        "parts": ([case.metric(side, split=17) for side in (0, 1)], clusters),
        "other order": ([case.metric(side, order, 40) for side in (0, 1)], [clusters[row] for row in order]),
        "merged": (merged, [clusters[row] for row in order]),
    }
    for grouped in (False, True):
        found = {
            key: repr(_compared(*metrics, clusters=groups if grouped else None))
            for key, (metrics, groups) in made.items()
        }
        assert len(set(found.values())) == 1


def _compared(first: Any, second: Any, clusters: Any = None) -> Any:
    found = compare(first, second, replicates=20, clusters=clusters)
    return found.values, dict(found.intervals), found.counts, found.reasons


def _of_rank(rank: int, world: int) -> list[str]:
    shares = np.array_split(np.arange(N), world)
    return [
        repr(_compared(*(CASES[name].metric(side, shares[rank].tolist()) for side in (0, 1))))
        for name in ("ROCAUC macro", "F1Score", "TokenF1", "BLEU")
    ]


def test_every_rank_has_the_bits_of_one_process(tmp_path: Path) -> None:
    alone = [
        repr(_compared(*(CASES[name].metric(side) for side in (0, 1))))
        for name in ("ROCAUC macro", "F1Score", "TokenF1", "BLEU")
    ]
    assert all(found == alone for found in run_ranks(_of_rank, tmp_path))


@EVERY
def test_units_of_a_cluster_have_one_weight(name: str) -> None:
    states, clusters = states_of(CASES[name]), [f"c{row % 11}" for row in range(N)]
    pairing = paired(states, clusters)
    assert (pairing.unit, pairing.drawn) == ("clusters", 11)
    by_place = paired(states, dict(enumerate(clusters)))
    for state, codes, same in zip(states, pairing.codes, by_place.codes):
        units = state.identities()
        assert units.arrival is not None
        assert codes.tolist() == same.tolist()
        held: dict[str, list[int]] = {}
        for place, rank in zip(units.arrival.tolist(), units.ranks.tolist()):
            held.setdefault(clusters[place], []).append(rank)
        ranks = [units.ranks[codes == code].tolist() for code in range(11)]
        assert sorted(map(sorted, ranks)) == sorted(map(sorted, held.values()))


def test_a_number_is_compared_from_both_states_by_hand() -> None:
    """Three rows, two replicates: weights by the pair, differences by hand."""
    first, second = RowSample({"f1": np.array([1.0, 0.0, 0.5])}), RowSample({"f1": np.array([0.25, 0.75, 0.75])})
    pairing = pair_units(first.identities(), second.identities())
    # Pairs in the order of what they hold: (0, 0.75), (0.5, 0.75), (1, 0.25).
    assert [codes.tolist() for codes in pairing.codes] == [[0, 1, 2], [2, 0, 1]]
    weights = Draws(3, 5).array().T.tolist()
    for state, codes, values in zip((first, second), pairing.codes, ((0, 0.5, 1), (0.75, 0.75, 0.25))):
        found = state.replicates(Draws(3, 5, clusters=codes))["f1"]
        assert found.tolist() == pytest.approx([sum(w * v for w, v in zip(row, values)) / 3 for row in weights])


@pytest.mark.parametrize("name", ["ROCAUC", "ROCAUC macro", "AveragePrecision ignored", "F1Score", "MultilabelF1Score"])
def test_other_targets_name_the_first_row(name: str) -> None:
    case = CASES[name]
    target = torch.as_tensor(case.target).clone()
    kept = [row for row in range(N) if (target[row] != IGNORED).all()]
    for row in kept[5], kept[9]:
        target[row] = (target[row] + 1) % 2
    changed = replace(case, target=target)
    with pytest.raises(
        InputError, match=rf"both sides must have the same target but that of row {kept[5]} \(counted from 0\) differs"
    ):
        compare(case.metric(0), changed.metric(1), replicates=10)


def test_other_weights_name_the_first_row() -> None:
    case, weight = CASES["ROCAUC"], torch.ones(N)
    sides = [ROCAUC(), ROCAUC()]
    for side, metric in enumerate(sides):
        weight[3] += side
        metric.update(case.sides[side], case.target, sample_weight=weight)
    with pytest.raises(InputError, match=r"the same target and weight but that of row 3 \(counted from 0\) differs"):
        compare(*sides, replicates=10)


def test_other_numbers_of_rows_are_an_error() -> None:
    case = CASES["TokenF1"]
    with pytest.raises(InputError, match="the same rows but 120 came to the first and 119 to the second"):
        compare(case.metric(0), case.metric(1, range(119)))


def test_rows_that_count_on_one_side_alone_are_an_error() -> None:
    case = CASES["F1Score ignored"]
    target = torch.as_tensor(case.target).clone()
    row = int((target != IGNORED).nonzero()[0])
    target[row] = IGNORED
    missing = rf"1 of \d+ are missing from the second, such as {row}"
    with pytest.raises(InputError, match=missing):
        compare(case.metric(0), replace(case, target=target).metric(1))


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ([1] * 119, "clusters must be one for each of 120 rows but are 119"),
        ({0: 1}, "clusters must name every one of the rows but lack 1"),
        ([None] * 120, "clusters must name the cluster of every unit"),
    ],
)
def test_clusters_that_do_not_fit(clusters: Any, message: str) -> None:
    case = CASES["TokenF1"]
    with pytest.raises(InputError, match=message):
        compare(case.metric(0), case.metric(1), clusters=clusters)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (Accuracy, "binary", r"keeps counts alone: make the metric with Accuracy\(keep_rows=True\)"),
        (lambda: ROCAUC(thresholds=20), "binary", "keeps counts alone: make the metric with thresholds=None"),
        (
            lambda: ROC(thresholds=20),
            "binary",
            r"keeps counts alone: take a number of the curve, such as that of AUROC",
        ),
        (CohenKappa, "binary", "keeps counts alone, and no choice of its metric keeps them"),
    ],
)
def test_counts_of_rows_say_how_to_keep_the_rows(make: Any, kind: str, message: str) -> None:
    case = _scored(make, kind)
    with pytest.raises(InputError, match=message):
        compare(case.metric(0), case.metric(1))


def test_a_corpus_that_keeps_no_rows_says_how_to() -> None:
    case = _texts(BLEU)
    with pytest.raises(InputError, match=r"make the metric with BLEU\(keep_rows=True\)"):
        compare(case.metric(0), case.metric(1))


@pytest.mark.parametrize("name", [name for name in CASES if name != "EER"])
def test_units_of_one_model_alone_give_its_numbers(name: str) -> None:
    """Ranks within a model keep every number of ranks."""
    states = states_of(CASES[name])
    joined = states[0].swapping(states[1])
    assert joined is not None and joined.units == 2 * states[0].units
    pairing = paired(states)
    codes = np.concatenate((pairing.codes[0], pairing.drawn + pairing.codes[1]))

    class OfOne(Draws):
        def array(self) -> Any:
            drawn = np.zeros((2 * pairing.drawn, 2), np.uint8)
            drawn[: pairing.drawn, 0] = drawn[pairing.drawn :, 1] = 1
            return drawn if self.clusters is None else drawn[self.clusters]

    found = joined.replicates(OfOne(joined.units, 2, clusters=codes, kind="swap"))
    for side in (0, 1):
        values = dict(numbers_of(CASES[name].metric(side).result().values))
        numbers = {key: each[side] for key, each in found.items() if key in values}
        assert numbers == pytest.approx({key: values[key] for key in numbers}, rel=1e-12) and numbers


@pytest.mark.parametrize("name", RANKED)
def test_the_scale_of_a_model_changes_no_swap(name: str) -> None:
    case = CASES[name]
    mapped = replace(case, sides=(case.sides[0], torch.as_tensor(case.sides[1]) ** 3 * 0.2))
    found = []
    for each in (case, mapped):
        states = states_of(each)
        joined = states[0].swapping(states[1])
        assert joined is not None
        pairing = paired(states)
        codes = np.concatenate((pairing.codes[0], pairing.drawn + pairing.codes[1]))
        made = joined.replicates(Draws(joined.units, 6, clusters=codes, kind="swap"))
        found.append({key: values.tolist() for key, values in made.items()})
    assert found[0] == found[1]
    assert any(len(set(values)) > 1 for values in found[0].values())


def test_swapped_rows_are_the_metric_of_the_rows_that_were_chosen() -> None:
    case = CASES["ROCAUC"]
    states = states_of(case)
    joined = states[0].swapping(states[1])
    assert joined is not None
    pairing = paired(states)
    codes = np.concatenate((pairing.codes[0], pairing.drawn + pairing.codes[1]))
    draws = Draws(joined.units, 3, clusters=codes, kind="swap")
    weights, found = draws.array(), joined.replicates(draws)["ROCAUC"]
    ranks = [torch.from_numpy(mid_ranks(torch.as_tensor(side).numpy())) for side in case.sides]
    for lane in range(3):
        scores, target = [], []
        for side, first in zip((0, 1), (0, N)):
            arrival = states[side].identities().arrival
            assert arrival is not None
            rows = arrival[weights[first : first + N, lane] == 1]
            scores.append(ranks[side][rows])
            target.append(torch.as_tensor(case.target)[rows])
        metric = ROCAUC(score_dtype=torch.float64)
        metric.update(torch.cat(scores), torch.cat(target))
        assert len(torch.cat(target)) == N
        assert metric.result().values["ROCAUC"] == found[lane]


def test_states_of_other_kinds_have_no_swap() -> None:
    states = [states_of(CASES[name])[0] for name in ("ROCAUC", "EER", "F1Score", "TokenF1")]
    assert [each.swapping(other) for each, other in zip(states, states[1:] + states[:1])] == [None] * 4
    multiclass = states_of(_scored(lambda: EER(num_classes=C), "multiclass"))
    assert multiclass[0].swapping(multiclass[1]) is None


def test_rows_without_a_number_are_left_out_of_both_models() -> None:
    nan = np.nan
    first = RowSample({"f1": np.array([1.0, nan, 0.5, 0.25]), "em": np.array([1.0, 0, 1, 0])})
    second = RowSample({"f1": np.array([0.5, 1.0, nan, 0.75]), "em": np.array([0.0, 0, 1, 0])})
    mine, other = first.shared(second), second.shared(first)
    assert (mine.values, other.values) == ({"f1": 0.625}, {"f1": 0.625})
    assert mine.left_out == other.left_out == {"f1": 2}
    pairing = pair_units(mine.state.identities(), other.state.identities())
    for state, codes, values in zip((mine.state, other.state), pairing.codes, ([1.0, 0.25], [0.5, 0.75])):
        units = state.identities()
        assert units.arrival is not None
        weights = np.zeros((4, 5))
        weights[units.arrival] = Draws(4, 5, clusters=codes).array()
        found = state.replicates(Draws(4, 5, clusters=codes))
        with np.errstate(invalid="ignore"):
            wanted = (np.array(values) @ weights[[0, 3]]) / weights[[0, 3]].sum(0)
        assert found["f1"].tolist() == pytest.approx(wanted.tolist(), nan_ok=True)


def test_rows_that_one_model_could_not_read_and_counts_that_one_lacks_are_left_out() -> None:
    def ratio(sums: Sequence[int]) -> dict[str, float]:
        return {"wer": sums[0] / sums[1] if sums[1] else np.nan}

    def sample(places: list[int], counts: list[list[int]], there: list[bool]) -> RowSample:
        pooled = Pooled(np.array(counts), ratio, np.array(there))
        return RowSample({}, [pooled], arrivals=Arrivals(np.array(places), 4, np.array(places) * 7))

    first = sample([0, 1, 3], [[1, 2], [1, 4], [2, 2]], [True] * 3)
    second = sample([0, 2, 3], [[0, 0], [1, 4], [1, 2]], [False, True, True])
    mine, other = first.shared(second), second.shared(first)
    assert (mine.values, other.values, mine.left_out) == ({"wer": 1.0}, {"wer": 0.5}, {"wer": 3})
    units = mine.state.identities()
    assert units.arrival is not None and units.truths is not None
    assert (sorted(units.arrival.tolist()), sorted(units.truths.tolist())) == ([0, 3], [0, 21])
    assert other.state.identities().arrived == 4


def test_references_that_differ_name_the_first_row() -> None:
    samples = [
        RowSample({"f1": np.array(values)}, arrivals=Arrivals(np.arange(3), 3, np.array(marks)))
        for values, marks in (([0.5, 1, 0], [4, 5, 6]), ([1.0, 1, 1], [4, 7, 8]))
    ]
    with pytest.raises(
        InputError, match=r"both sides must have the same references but that of row 1 \(counted from 0\) differs"
    ):
        pair_units(samples[0].identities(), samples[1].identities())


def test_units_with_ids_are_paired_by_them() -> None:
    first = Units("images", [7, 10, 30], None, 3, np.arange(3), np.array([1, 2, 3]))
    second = replace(first, ids=[30, 7, 10], truths=np.array([3, 1, 2]))
    assert [codes.tolist() for codes in pair_units(first, second).codes] == [[0, 1, 2], [2, 0, 1]]
    named = pair_units(first, second, ["a", "b", "a"])  # of 7, 10, 30: ids ascend as numbers
    assert [codes.tolist() for codes in named.codes] == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(InputError, match="the same ground truth but that of image 10 differs"):
        pair_units(first, replace(second, truths=np.array([3, 1, 9])))
    with pytest.raises(InputError, match="1 of 3 are missing from the second, such as 10"):
        pair_units(first, replace(second, ids=[30, 7, 11]))
    with pytest.raises(InputError, match="the same units but are of images and of rows"):
        pair_units(first, replace(second, unit="rows"))
    with pytest.raises(InputError, match="must be told apart but have no ids"):
        pair_units(first, replace(second, ids=None))


def test_mid_ranks_are_those_of_scipy() -> None:
    import scipy.stats  # type: ignore[import-untyped,unused-ignore]

    values = np.random.default_rng(0).integers(0, 20, 101) / 7
    assert mid_ranks(values).tolist() == pytest.approx(((scipy.stats.rankdata(values) - 0.5) / 101).tolist())
    assert mid_ranks(np.zeros(0)).tolist() == []
