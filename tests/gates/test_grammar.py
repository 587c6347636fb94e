"""The grammar of gates: names of any characters, exact percentages, errors that name the character."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.gates import Condition, Gate, parse_gate

READ = [
    ("map>=0.4", [("map", ">=", 0.4)]),
    ("  map  >=  4e-1  ", [("map", ">=", 0.4)]),
    ("map < .5 and p_map < 5.%", [("map", "<", 0.5), ("p_map", "<", 0.05)]),
    ("delta_map < -0.003 and p_map < 0.05 and map>+0", [
        ("delta_map", "<", -0.003), ("p_map", "<", 0.05), ("map", ">", 0.0)]),
    ("map_per_class/salt and pepper > 0.5 and map < 1", [
        ("map_per_class/salt and pepper", ">", 0.5), ("map", "<", 1.0)]),
    ("a > 1 and and b > 2", [("a", ">", 1.0), ("and b", ">", 2.0)]),
    ("map_per_class/c++ != 1E2%", [("map_per_class/c++", "!=", 1.0)]),
    ("map_per_class/50% off == 1", [("map_per_class/50% off", "==", 1.0)]),
    ("map_per_class/ねこ <= 1\tand\nmap_per_class/Straßen bahn > 2", [
        ("map_per_class/ねこ", "<=", 1.0), ("map_per_class/Straßen bahn", ">", 2.0)]),
    ('"map_per_class/a < b and c > 1" > 0.5 and x < 1', [("map_per_class/a < b and c > 1", ">", 0.5), ("x", "<", 1.0)]),
    ("'cat=1'<1", [("cat=1", "<", 1.0)]),
    ("'it''s \"x\"' < 1", [("it's \"x\"", "<", 1.0)]),
    ('""< 1', [("", "<", 1.0)]),
    ("it's < 1", [("it's", "<", 1.0)]),
    ("accuracy >= 37.3 %", [("accuracy", ">=", 0.373)]),
    ("accuracy >= 1.1e1%", [("accuracy", ">=", 0.11)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "conditions"), READ)
def test_what_is_read(text: str, conditions: list[tuple[str, str, float]]) -> None:
    assert [(each.name, each.sign, each.limit) for each in parse_gate(text).conditions] == conditions


WRONG = [
    ("", 1, "the name of a number is expected"),
    ("  ", 3, "the name of a number is expected"),
    (">= 3", 1, "the name of a number is expected"),
    ("f1", 3, "one of >= <= == != > < is expected"),
    ("f1 = 3", 4, "one of >= <= == != > < is expected: equal is =="),
    ("f1 => 3", 4, "one of >= <= == != > < is expected: equal is =="),
    ("wow! > 3", 4, "one of >= <= == != > < is expected"),
    ("f1 >=", 6, "a finite number is expected"),
    ("f1 >= x", 7, "a finite number is expected; a name that holds < > = or ! needs quotes"),
    ("f1 >> 3", 5, "a finite number is expected"),
    ("f1 >= nan", 7, "a finite number is expected"),
    ("f1 >= -inf", 7, "a finite number is expected"),
    ("f1 >= 1e999", 7, "a finite number is expected"),
    ("f1 >= 1e99999", 7, "a finite number is expected"),
    ("f1 >= 1_000", 7, "a finite number is expected"),
    ("f1 >= 1.2.3", 7, "a finite number is expected"),
    ("f1 >= ٣", 7, "a finite number is expected"),
    ("a > b > 3", 5, "a finite number is expected"),
    ("a > 3and b > 4", 5, "a finite number is expected"),
    ("a > 3%and b > 4", 7, "and, or the end, is expected"),
    ("a > 3 and", 7, "and, or the end, is expected"),
    ("a > 3 and b", 12, "one of >= <= == != > < is expected"),
    ("a > 3 b > 4", 7, "and, or the end, is expected"),
    ("a > 3 %% and b > 4", 8, "and, or the end, is expected"),
    ("a > 3 AND b > 2", 7, "and, or the end, is expected: conditions are joined by and"),
    ("a > 3 && b > 2", 7, "and, or the end, is expected: conditions are joined by and"),
    ("a > 3 or b > 2", 7, "and, or the end, is expected: alternatives are gates of their own"),
    ("a > 3 || b > 2", 7, "and, or the end, is expected: alternatives are gates of their own"),
    ("x < 1 and \"a > 3", 11, "the quote has no end"),
    ("map_per_class/'a<b' > 1", 18, "a finite number is expected; a name that holds < > = or ! needs quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "character", "problem"), WRONG)
def test_errors_name_the_character(text: str, character: int, problem: str) -> None:
    with pytest.raises(InputError, match=r"gate must be like 'map >= 0\.4 and p_map < 0\.05' but is ") as found:
        parse_gate(text)
    assert f"but is {text!r}: at character {character} {problem}" in str(found.value)


@pytest.mark.parametrize("number", ["1" * 100_000 + "x", "1." + "1" * 100_000 + "x", "1" * 50_000 + "." + "1" * 50_000])
def test_long_numbers_are_read_in_one_pass(number: str) -> None:
    with pytest.raises(InputError, match="a finite number is expected"):  # minutes by a pattern that splits the digits
        parse_gate(f"map < {number}")


def test_another_type() -> None:
    with pytest.raises(InputTypeError, match="gate must be str but got float"):
        parse_gate(0.5)  # type: ignore[arg-type]


def test_what_is_written_is_read_as_the_same() -> None:
    draw = random.Random(34)
    pieces = ["a", " ", "and", " and ", "<", ">", "=", "!", '"', "'", "/", "%", "5", "ß", "\n", "map", "\x00", "\ud800"]
    for _ in range(3000):
        conditions = []
        for _ in range(draw.randint(1, 3)):
            name = "".join(draw.choices(pieces, k=draw.randint(0, 5)))
            limit = draw.choice([0.0, -1.0, 1 / 3, 1e-300, 12345678.9, draw.uniform(-1, 1), float(draw.randint(-9, 9))])
            conditions.append(Condition(name, draw.choice([">=", "<=", "==", "!=", ">", "<"]), limit))
        gate = Gate(tuple(conditions))
        assert parse_gate(str(gate)) == gate, gate


def test_percentages_are_rounded_once() -> None:
    for thousandth in range(1, 1000):
        found = parse_gate(f"a < {thousandth / 10}%").conditions[0].limit
        assert found == float(Fraction(thousandth, 1000)), thousandth
