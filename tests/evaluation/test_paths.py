"""Paths into objects, and columns that begin behind the first rows: in mappings, of targets, keys, reports and runs."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from valor_gpu import evaluate
from valor_gpu.cli import main
from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.rows import shown_text
from valor_gpu.evaluation.rows.columns import ColumnNames, leads_to, value_at
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.evaluation.rows.mapping import Mapping, resolve_mapping
from valor_gpu.store import StoredRow

NESTED = {"outputs": {"answer": "four", "meta": {"tone": "dry"}}, "ground_truth": "four"}


def run(tmp_path: Path, data: Any, **more: Any) -> Any:
    return evaluate(data=data, store=str(tmp_path / "store.sqlite"), **{"metrics_list": ["exact_match"], **more})


@pytest.mark.parametrize("reference", ["${data.outputs.answer}", "${data$outputs.answer}", "outputs.answer"])
def test_dots_lead_into_objects(tmp_path: Path, reference: str) -> None:
    found = run(tmp_path, [NESTED, {"outputs": "text", "ground_truth": "g"}], data_mapping={"answer": reference})
    assert found.metrics_summary == {"mean_exact_match": 1.0}
    assert [each["status"] for each in found.errors] == ["missing_field"]
    assert found.run.config["data_mapping"]["answer"] == "${data.outputs.answer}"
    row = StoredRow(1, "k", NESTED)
    assert shown_text(row, "answer", found.run.config["data_mapping"]) == "four"


def test_the_command_takes_paths(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(NESTED))
    options = ["--data", str(path), "--metrics", "exact_match", "--map", "answer=${data.outputs.answer}"]
    assert (
        main(["eval", "run", *options, "--store", str(tmp_path / "s.sqlite"), "--fail-if", "mean_exact_match < 1"]) == 0
    )


def test_a_column_with_dots_wins_and_both_are_an_error() -> None:
    mapping = resolve_mapping({"answer": "${data.a.b}"}, ColumnNames.of([{"a.b": 1, "a": "text"}], "all 1 rows"))
    assert mapping.values({"a.b": 1, "a": "text"})["answer"] == 1
    both = ColumnNames.of([{"a.b": 1}, {"a": {"b": 2}}], "all 2 rows")
    with pytest.raises(
        InputError, match=r"'answer' is 'a\.b', which is a column and also 'b' of the objects in column 'a'"
    ):
        resolve_mapping({"answer": "${data.a.b}"}, both)
    assert value_at({"a.b": {"c": 1}, "a": {}}, "a.b.c") == 1 and not leads_to({"a": {"b": {}}}, "a.b.c")


def test_a_path_that_no_row_has_is_an_error_that_says_where_was_looked() -> None:
    columns = open_data([NESTED] * 3).columns
    with pytest.raises(
        InputError, match=r"column 'outputs' has no 'anser' in all 3 rows; did you mean 'outputs.answer'"
    ):
        resolve_mapping({"answer": "${data.outputs.anser}"}, columns)
    with pytest.raises(InputError, match=r"'nowhere.x', which is no column; columns of all 3 rows: 'outputs', 'ground"):
        resolve_mapping({"answer": "${data.nowhere.x}"}, columns)


def test_paths_of_targets(tmp_path: Path) -> None:
    def target(question: str, tone: str = "none") -> dict[str, Any]:
        return {"reply": {"text": f"{question} {tone}"}, "reply.mark": 1}

    rows = [{"question": "q", "meta": {"tone": "dry"}, "ground_truth": "q dry"}]
    mapped = {"answer": "${target.reply.text}", "tone": "${data.meta.tone}"}
    assert run(tmp_path, rows, target=target, data_mapping=mapped).metrics_summary == {"mean_exact_match": 1.0}
    mapping = resolve_mapping({"answer": "${target.reply.text}"}, ["question"], ())
    with pytest.raises(InputError, match=r"'answer' is \$\{target.reply.text\}, which it does not return"):
        mapping.check_outputs({"reply": {"txt": "x"}})
    with pytest.raises(InputError, match="an output of this name and within 'reply': rename one of them"):
        mapping.check_outputs({"reply": {"text": "x"}, "reply.text": "y"})
    declared = resolve_mapping({"answer": "${target.reply.text}"}, ["question"], ("reply", "note"))
    assert declared.values({}, {"reply": {"text": "x"}})["answer"] == "x"


def test_keys_of_mapped_paths_are_those_of_their_values() -> None:
    columns = ColumnNames.of([{"in": {"q": "a"}}], "all 1 rows")
    mapping = resolve_mapping({"question": "${data.in.q}"}, columns)
    assert mapping.key_values({"in": {"q": "a"}}) == {"question": "a"}
    assert Mapping.from_dict(mapping.to_dict(), list(columns)).key_values({"in": {"q": "b"}}) == {"question": "b"}


def late(n: int = 151) -> list[dict[str, Any]]:
    return [{"question": "q", "answer": "a"}] * (n - 1) + [
        {"answer": "a", "ground_truth": "a", "x": {"y": "a"}, "id": 7}
    ]


@pytest.mark.parametrize("mapped", [{}, {"ground_truth": "ground_truth"}, {"ground_truth": "${data.x.y}"}])
def test_columns_that_begin_behind_the_first_rows(tmp_path: Path, mapped: dict[str, str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, late())))
    for data in (late(), path):
        found = run(tmp_path, data, data_mapping=mapped, slice_by=["x"], key="id")
        assert found.metrics_summary == {"mean_exact_match": 1.0}
        assert found.summary["evaluators"]["exact_match"]["n"] == 1
    message = r"'answer' is 'anser', which is no column; did you mean 'answer'\?; columns of all 151 rows: 'question'"
    with pytest.raises(InputError, match=message):
        run(tmp_path, late(), data_mapping={"answer": "anser"})


def test_the_names_of_first_rows_say_that_there_are_more() -> None:
    source = open_data(late())
    assert source.columns == ("question", "answer") and source.columns.is_partial
    assert source.columns.seen == "the first 100 rows"
    assert source.with_all_columns().columns == ("question", "answer", "ground_truth", "x", "id")
    assert open_data(late(99)).columns.is_partial is False


def test_all_columns_of_many_rows_take_the_memory_of_few(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"question": f"{n}", "in": {"deep": f"{n}"}}) for n in range(20_000)))
    source = open_data(path)
    tracemalloc.start()
    source.with_all_columns()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_too_many_names_are_an_error() -> None:
    rows = [{f"c{n}-{k}": 1 for k in range(1000)} for n in range(200)]
    with pytest.raises(InputError, match="data must have at most 100,000 columns but have more"):
        open_data(rows).with_all_columns()
    assert ColumnNames.of([{"a": {f"k{n}": 1 for n in range(10_001)}}], "all 1 rows").paths is None
