"""Weights of resampled units: the words of Philox, C++ against the numpy definition, and what draws must keep to."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.stats import draws as module
from valor_gpu.stats.draws import KINDS, Draws, philox
from valor_gpu.stats.weighted_sums import _weighted_defined, weighted_sums

SIZES = (1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 128, 1000, 1024, 1025, 4097)


def _words(*numbers: str) -> list[int]:
    return [int(number, 16) for number in numbers]


@pytest.mark.parametrize(
    ("counter", "seed", "words"),
    [
        (("0",) * 4, "0", ("6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8")),
        (("ffffffff",) * 4, "f" * 16, ("408f276d", "41c83b0e", "a20bc7c6", "6d5451fd")),
        (
            ("243f6a88", "85a308d3", "13198a2e", "03707344"),
            "299f31d0a4093822",
            ("d16cfe09", "94fdcceb", "5001e420", "24126ea1"),
        ),
    ],
)
def test_words_are_the_known_answers_of_random123(counter, seed, words) -> None:
    found = philox(np.array(_words(*counter), np.uint32), int(seed, 16))
    assert found.tolist() == _words(*words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", SIZES)
@pytest.mark.parametrize("seed", [0, 7, (1 << 64) - 1])
def test_kernel_has_the_bytes_of_the_definition(kind: str, units: int, seed: int) -> None:
    units *= 1 + (kind == "swap")  # pairs
    draws = Draws(units, 19, 3, seed, kind, 10)
    weights = draws.array()
    assert weights.tobytes() == draws.defined().tobytes() and weights.shape == (units, 19)
    cells = np.random.default_rng(units).multinomial(units, [0.4, 0, 0.3, 0.2, 0.0, 0.1])
    sums = np.stack([weights[each].sum(0) for each in np.split(np.arange(units), np.cumsum(cells)[:-1])])
    assert draws.cells(cells).tolist() == draws._defined_cells(cells).tolist() == sums.tolist()


def test_words_that_would_bias_a_draw_are_drawn_again() -> None:
    units = (1 << 20) - 3  # of 2 ** 32 so many words are drawn again that some are
    draws = Draws(units, 1, 5)
    least = (1 << 32) % units
    products = draws._words(-(-units // 4), 5)[:units].astype(np.uint64) * np.uint64(units)
    assert ((products & np.uint64(0xFFFFFFFF)) < least).any()
    assert draws.array().tobytes() == draws.defined().tobytes()


@pytest.mark.smoke
@pytest.mark.parametrize("kind", KINDS)
def test_portions_join_to_the_whole(kind: str) -> None:
    whole = Draws(302, 40, seed=2, kind=kind, groups=40)
    parts = [replace(whole, first=first, count=count) for first, count in ((0, 1), (1, 16), (17, 23))]
    assert np.concatenate([part.array() for part in parts], 1).tobytes() == whole.array().tobytes()
    counts = np.array([100, 0, 202])
    assert np.concatenate([part.cells(counts) for part in parts], 1).tolist() == whole.cells(counts).tolist()


def test_no_number_of_threads_changes_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, values = Draws(40_000, 70), np.random.default_rng(0).normal(size=(40_000, 2))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(native, "threads", lambda threads=threads: threads)
        found.append((draws.array().tobytes(), weighted_sums(values, draws).tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.smoke
def test_sums_of_weights_are_what_is_drawn() -> None:
    assert set(Draws(1000, 30).array().sum(0)) == {1000}
    assert set(Draws(1001, 30, kind="half").array().sum(0)) == {500}
    shares = Draws(1001, 10, kind="delete", groups=10).array()
    assert set((1 - shares).sum(1)) == {1} and set((1 - shares).sum(0)) == {100, 101}


def test_weights_are_spread_as_a_multinomial() -> None:
    weights = Draws(1000, 500, seed=11).array().astype(np.float64)
    totals = weights.sum(1)  # each unit: binomial of 500,000 draws
    chi_square = ((totals - 500) ** 2 / 500).sum()
    assert abs(chi_square - 999) < 4 * np.sqrt(2 * 999)
    table = np.bincount(weights.astype(int).ravel(), minlength=8)[:6] / weights.size
    poisson = np.exp(-1) / np.array([1, 1, 2, 6, 24, 120])
    assert np.abs(table - poisson).max() < 0.002
    assert abs(np.corrcoef(weights[:500].ravel(), weights[500:].ravel())[0, 1]) < 0.01
    halves = Draws(1000, 500, seed=11, kind="half").array().mean(1)
    assert abs(halves - 0.5).max() < 5 * np.sqrt(0.25 / 500)


@pytest.mark.smoke
def test_clusters_give_their_weight_to_each_unit() -> None:
    clusters = np.array([0, 0, 1, 2, 1])
    draws = Draws(5, 9, clusters=clusters)
    assert draws.drawn == 3
    assert draws.array().tobytes() == Draws(3, 9).array()[clusters].tobytes()
    with pytest.raises(InputError, match="clusters must be None where counts are drawn"):
        draws.cells(np.array([5]))


@pytest.mark.smoke
def test_no_units_and_no_replicates_are_no_error() -> None:
    for kind in KINDS:
        assert Draws(0, 4, kind=kind, groups=4).array().shape == (0, 4)
        assert Draws(4, 0, kind=kind, groups=4).array().shape == (4, 0)
        assert Draws(0, 4, kind=kind, groups=4).cells(np.zeros(2, np.int64)).tolist() == [[0] * 4] * 2
    assert weighted_sums(np.zeros((0, 2)), Draws(0, 3)).tolist() == [[0.0] * 3] * 2


def test_weight_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # No seed draws a unit 256 times by chance: all words of the definition are made that of one unit, and the
    # kernel says that a weight does not fit.
    monkeypatch.setattr(Draws, "_words", lambda self, blocks, *_: np.zeros(4 * blocks, np.uint32))
    monkeypatch.setattr(module, "draw_weights", lambda draws: None)
    with pytest.raises(InputError, match="drawn at most 255 times but was drawn 512 times: take another seed"):
        Draws(512, 1).array()


def test_counts_that_are_not_of_the_units_are_errors() -> None:
    with pytest.raises(InputError, match="counts must be at least 0 and add up to 5 units but the sum is 4"):
        Draws(5, 1).cells(np.array([2, 2]))
    with pytest.raises(InputError, match="counts must be at least 0"):
        Draws(5, 1).cells(np.array([6, -1]))
    with pytest.raises(InputError, match=r"fewer than 2\*\*32 units to draw from but there are 4,294,967,296"):
        Draws(1 << 32, 1)


def test_many_units_of_few_cells_take_no_memory() -> None:
    code = """if True:
        import json, resource
        import numpy as np
        from valor_gpu.stats.draws import Draws
        Draws(100, 1).cells(np.array([60, 40]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sums = [Draws(30_000_000, 1, kind=kind).cells(np.array([20_000_000, 10_000_000])).sum() for kind in KINDS]
        print(json.dumps([int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before), *map(int, sums)]))
    """.replace("KINDS", "('multinomial', 'half')")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kilobytes, drawn, half = json.loads(run.stdout)
    assert kilobytes < 8_000 and drawn == 30_000_000 and half == 15_000_000


@pytest.mark.parametrize("count", [1, pytest.param(17, marks=pytest.mark.smoke), 15, 16, 64, 81, 200])
def test_weighted_sums_have_the_bytes_of_the_definition(count: int) -> None:
    rng = np.random.default_rng(count)
    draws = Draws(500, count, 3)
    values = rng.normal(size=(500, 3)) * 10.0 ** rng.integers(-8, 9, (500, 3))
    weights = draws.defined()
    assert weighted_sums(values, draws).tobytes() == _weighted_defined(values, weights).tobytes()
    whole = rng.integers(-(1 << 40), 1 << 40, (500, 3))
    assert weighted_sums(whole, draws).tolist() == (whole.T @ weights.astype(np.int64)).tolist()
    assert weighted_sums(whole % 2 == 0, draws).dtype == np.int64


@pytest.mark.smoke
def test_weighted_sums_of_portions_are_those_of_the_whole() -> None:
    values, draws = (
        np.random.default_rng(0).normal(size=(200_000, 1)),
        Draws(200_000, 70),
    )  # more than is held at a time
    assert weighted_sums(values, draws).tobytes() == b"".join(
        weighted_sums(values, replace(draws, first=first, count=35)).tobytes() for first in (0, 35)
    )


def test_weighted_sums_refuse_other_units() -> None:
    with pytest.raises(InputError, match=r"values must be \[3, C\], a row a unit, but has shape \[2, 1\]"):
        weighted_sums(np.zeros((2, 1)), Draws(3, 1))


def test_definitions_serve_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, values = Draws(90, 5, clusters=np.arange(90) // 2), np.random.default_rng(0).normal(size=(90, 2))
    counts, plain = np.array([80, 10]), Draws(90, 5)
    found = draws.array(), plain.cells(counts), weighted_sums(values, draws)
    monkeypatch.setattr(native, "usable", lambda _: False)
    again = draws.array(), plain.cells(counts), weighted_sums(values, draws)
    assert [part.tobytes() for part in found] == [part.tobytes() for part in again]


@pytest.mark.parametrize("value", [np.int64(2**62), np.int64(-(2**63)), np.uint64(2**63)])
def test_sums_of_integers_that_would_wrap_are_refused(value: np.generic) -> None:
    with pytest.raises(InputError, match=r"values must be below 2\*\*63 in sums but one of 4 is"):
        weighted_sums(np.full((4, 1), value), Draws(4, 3))
    assert weighted_sums(np.full((4, 1), np.int64(-(2**50))), Draws(4, 1)).tolist() == [[-(2**52)]]


@pytest.mark.parametrize("pairs", [1, 31, 32, 33, 127, 128, 129, 300])
def test_a_swap_draws_one_unit_of_each_pair_by_a_bit_of_the_words(pairs: int) -> None:
    found = Draws(2 * pairs, 5, 3, seed=9, kind="swap").array()
    for column in range(5):
        words: list[int] = []
        for block in range(-(-pairs // 128)):
            words += philox(np.array([block, 0, 3 + column, 4], np.uint32), 9).tolist()
        bits = [words[pair // 32] >> pair % 32 & 1 for pair in range(pairs)]
        assert found[:, column].tolist() == [1 - bit for bit in bits] + bits


def test_swapped_clusters_go_together_and_exchanged_codes_draw_the_other_unit() -> None:
    codes = np.array([0, 1, 0, 2, 1])
    both, other = np.concatenate((codes, codes + 3)), np.concatenate((codes + 3, codes))
    found = Draws(10, 40, seed=1, kind="swap", clusters=both).array()
    assert found.tolist() == Draws(6, 40, seed=1, kind="swap").array()[both].tolist()
    assert (found + Draws(10, 40, seed=1, kind="swap", clusters=other).array() == 1).all()
    assert (found[:5] + found[5:] == 1).all()


def test_a_swap_takes_each_unit_of_a_pair_as_often() -> None:
    found = Draws(2 * 64, 4000, seed=5, kind="swap").array()[64:]
    assert abs(found.mean() - 0.5) < 0.005 and np.abs(found.mean(1) - 0.5).max() < 0.04
    assert np.abs(np.corrcoef(found) - np.eye(64)).max() < 0.08


def test_units_to_swap_come_in_pairs() -> None:
    with pytest.raises(InputError, match="units to swap must come in pairs but there are 3"):
        Draws(3, 1, kind="swap")


def test_streams_of_the_generator_stay_what_stored_numbers_were_drawn_with() -> None:
    assert module._STREAMS == {"multinomial": 0, "half": 1, "delete": 2, "swap": 4}
    assert module.SPLITS not in module._STREAMS.values() and module.SPLITS == 3
