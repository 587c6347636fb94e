"""Options of the commands that ask for intervals."""

from __future__ import annotations

import argparse

import pytest

from valor_gpu.cli.options import add_interval_options, bootstrap_of
from valor_gpu.errors import InputError
from valor_gpu.stats import Bootstrap


def parsed(*texts: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_interval_options(parser)
    return parser.parse_args(texts)


def test_options_are_the_choices_of_a_bootstrap() -> None:
    assert bootstrap_of(parsed()) is None
    assert repr(bootstrap_of(parsed("--intervals", "50"))) == repr(Bootstrap(50))
    given = parsed("--intervals", "50", "--seed", "7", "--confidence", "0.9")
    assert repr(bootstrap_of(given)) == repr(Bootstrap(50, confidence=0.9, seed=7))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("--seed", "0"), "--seed needs --intervals N"),
        (("--confidence", "0.9", "--seed", "1"), "--confidence needs --intervals N"),
        (("--intervals", "9", "--seed", "-1"), "seed must be at least 0 but got -1"),
        (("--intervals", "9", "--confidence", "1"), "confidence must be above 0 and below 1 but is 1.0"),
    ],
)
def test_choices_out_of_range_are_named(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bootstrap_of(parsed(*texts))


@pytest.mark.parametrize("text", ["1", "-5", "1.5", "many"])
def test_replicates_are_at_least_two(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="must be a whole number of at least 2"):
        parsed("--intervals", text)
