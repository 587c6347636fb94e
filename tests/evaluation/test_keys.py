"""Keys of rows."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.evaluation.rows.keys import RowKeys
from valor_gpu.evaluation.rows.mapping import resolve_mapping


def keys_of(rows: list[Any], data_mapping: Any = None, outputs: Any = None, column: str | None = None) -> list[str]:
    source = open_data(rows)
    keys = RowKeys(source.columns, resolve_mapping(data_mapping, source.columns, outputs), column)
    return [keys.next(row) for row in source]


def test_columns_of_keys() -> None:
    rows = [{"key": "k", "id": 1, "name": "n", "answer": "a"}]
    assert keys_of(rows) == ["k"]
    assert keys_of([{"id": 1, "name": "n", "answer": "a"}]) == ["1"]
    assert keys_of(rows, column="name") == ["n"]
    with pytest.raises(
        InputError, match=r"key must be a column but is 'nme'; did you mean 'name'\?; columns: 'key', 'id'"
    ):
        keys_of(rows, column="nme")


@pytest.mark.parametrize(
    ("value", "key"), [("007", "007"), (7, "7"), (7.0, "7"), (7.5, "7.5"), (True, "true"), (["a", 1], '["a", 1]')]
)
def test_values_of_keys(value: Any, key: str) -> None:
    assert keys_of([{"id": value, "answer": "a"}]) == [key]


def test_keys_that_repeat_are_numbered() -> None:
    assert keys_of([{"id": name} for name in ("a", "a#2", "a", "a", "b", "a#2", "b")]) == [
        "a", "a#2", "a#3", "a#4", "b", "a#2#2", "b#2",
    ]  # fmt: skip
    many = keys_of([{"id": "a"}] * 3000)
    assert (many[-1], len(set(many))) == ("a#3000", 3000)


def test_hashes_are_of_the_mapped_inputs_without_the_answer() -> None:
    first, second = keys_of(
        [{"q": "1", "answer": "a", "note": 1}, {"q": "2", "answer": "a", "note": 1}], {"question": "q"}
    )
    assert first != second and len(first) == 16
    assert keys_of([{"question": "1", "response": "other", "note": 2}]) == [first]
    assert keys_of([{"question": "1", "answer": "x"}], outputs=["answer", "context"]) == [first]
    assert keys_of([{"question": "1", "context": "c"}]) != [first]
    assert keys_of([{"id": "", "question": "1"}, {"id": None, "question": "1"}]) == [first, f"{first}#2"]


def test_hashes_of_conversations_leave_out_what_the_assistant_said() -> None:
    def turns(reply: str) -> list[Any]:
        asked = {"role": "user", "content": "hi", "context": {"citations": [reply]}}
        return [asked, {"role": "assistant", "content": reply}, "no turn"]

    one, same = keys_of([{"messages": turns("a")}]), keys_of([{"messages": turns("b")}])
    assert one == same
    other = keys_of([{"messages": [{"role": "user", "content": "ho"}]}, {"messages": "text"}])
    assert len({*one, *other}) == 3


def test_conversations_of_every_form_have_the_keys_of_a_list() -> None:
    plain = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    shared = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "else"}]
    forms: list[Any] = [plain, {"messages": plain, "context": "c"}, json.dumps(plain), shared]
    assert len({key for form in forms for key in keys_of([{"messages": form}])}) == 1
    assert keys_of([{"conversation": plain}]) == keys_of([{"messages": plain}])


def test_rows_without_known_fields_have_the_hash_of_all_columns_but_the_answer() -> None:
    first, second, third = keys_of([{"x": 1, "answer": "a"}, {"x": 2, "answer": "a"}, {"x": 1, "answer": "b"}])
    assert (first != second, third) == (True, f"{first}#2")


def test_hashes_stay_the_same_over_releases() -> None:
    """Stored runs are joined by them."""
    assert keys_of([{"question": "2 + 2?", "ground_truth": "four \ud800\0"}]) == ["0adca28b49f4f7ce"]


def test_rows_that_could_not_be_read_have_keys_too() -> None:
    assert keys_of([{"id": "a"}, 3, {"id": "row-2"}]) == ["a", "row-2", "row-2#2"]


def test_long_keys_are_shortened() -> None:
    first, second = keys_of([{"id": "x" * 10_000 + end} for end in "ab"])
    assert first != second and first.startswith("x" * 100 + "...") and len(first) == 119
    assert keys_of([{"id": "x" * 200}]) == ["x" * 200]


def test_keys_themselves_are_not_remembered() -> None:
    rows = [{"id": f"{number:0100}"} for number in range(20_000)]
    source = open_data(rows)
    keys = RowKeys(source.columns, resolve_mapping(None, source.columns))
    tracemalloc.start()
    for row in source:
        keys.next(row)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 20_000 * 149  # bytes of a text of 100 characters alone


def test_keys_of_epochs_differ_from_those_of_other_rows() -> None:
    source = open_data([{"id": "a"}, {"id": "a@2"}, {"id": "b@2"}, {"id": "b"}])
    keys = RowKeys(source.columns, resolve_mapping(None, source.columns))
    found = [(key := keys.next(row), keys.epoch(key, 2)) for row in source]
    assert found == [("a", "a@2"), ("a@2#2", "a@2#2@2"), ("b@2", "b@2@2"), ("b", "b@2#2")]
