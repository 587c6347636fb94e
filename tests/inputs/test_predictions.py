"""Files of predictions: classes by name in every form of scores, and errors that name line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.inputs.predictions import IGNORED, Columns, read_predictions

ROWS = [("cat", 0.7, 0.2, 0.1), ("bird", 0.2, 0.5, 0.3), ("dog", 0.0, 1.0, -3.5)]
SCORES = np.array([row[1:] for row in ROWS])


def written(folder: Path, header: str, *rows: str) -> Path:
    path = folder / "data.csv"
    path.write_text("\n".join([header, *rows, ""]))
    return path


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    return written(tmp_path, "truth,p_cat,p_dog,p_bird,w", *(",".join(map(str, (*row, 1.5))) for row in ROWS))


@pytest.mark.parametrize("columns", [Columns("truth", prefix="p_"), Columns("truth", ("p_cat", "p_dog", "p_bird"))])
def test_classes_are_those_of_the_columns(columns: Columns, animals: Path) -> None:
    labels = None if columns.prefix else ("cat", "dog", "bird")
    found = read_predictions(animals, columns, labels)
    assert found.names == ("cat", "dog", "bird") and not found.binary
    assert found.target.tolist() == [0, 2, 1] and found.weight is None and found.labels is None
    assert found.scores is not None and np.array_equal(found.scores, SCORES)


def test_columns_named_like_classes(tmp_path: Path) -> None:
    path = written(tmp_path, "cat,truth,dog", "1,dog,2")
    found = read_predictions(path, Columns("truth", ("dog", "cat")))
    assert found.names == ("dog", "cat") and found.target.tolist() == [0]
    assert found.scores is not None and found.scores.tolist() == [[2.0, 1.0]]


def test_a_prefix_leaves_out_target_and_weight(tmp_path: Path) -> None:
    path = written(tmp_path, "p_truth,p_0,p_1,p_weight", "1,0.25,0.75,2")
    found = read_predictions(path, Columns("p_truth", prefix="p_", weight="p_weight"))
    assert found.names == ("0", "1") and found.weight is not None and found.weight.tolist() == [2.0]


def test_lists_of_scores_have_classes_by_number(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=[2, 0, 1], scores=SCORES)
    found = read_predictions(tmp_path / "a.npz", Columns("y", ("scores",)))
    assert found.names == ("0", "1", "2") and found.target.tolist() == [2, 0, 1]
    named = read_predictions(tmp_path / "a.npz", Columns("y", ("scores",)), ("2", "0", "1"))
    assert named.target.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("labels", "texts"), [(None, ("0", "1")), (("no", "yes"), ("no", "yes"))])
def test_a_single_column_is_that_of_the_second_class(labels: Any, texts: tuple[str, str], tmp_path: Path) -> None:
    path = written(tmp_path, "truth,p", f"{texts[1]},0.75", f"{texts[0]},0.5")
    found = read_predictions(path, Columns("truth", ("p",)), labels)
    assert found.binary and found.names == texts and found.target.tolist() == [1, 0]
    assert found.scores is not None and found.scores.tolist() == [0.75, 0.5]


def test_predicted_classes_are_all_that_occur_numbers_first(tmp_path: Path) -> None:
    rows = [("10", "9"), ("b", "10"), ("a", "a"), ("", "9")]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"t": t, "guess": g}) for t, g in rows))
    found = read_predictions(path, Columns("t", pred="guess"), ignore="")
    assert found.names == ("9", "10", "a", "b") and found.scores is None and not found.binary
    assert found.target.tolist() == [1, 3, 2, IGNORED]
    assert found.labels is not None and found.labels.tolist() == [0, 1, 2, 0]


def test_an_ignored_class_stays_a_class(animals: Path) -> None:
    found = read_predictions(animals, Columns("truth", prefix="p_", weight="w"), ignore="dog")
    assert found.names == ("cat", "dog", "bird") and found.target.tolist() == [0, 2, IGNORED]
    assert found.weight is not None and found.weight.tolist() == [1.5] * 3


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        (Columns("truth", ("p_cat", "p_dog")), None,
         r"data.csv, line 2, column 'truth' must be one of the classes p_cat, p_dog but got 'cat'"),
        (Columns("truth", prefix="p_"), ("cat", "dog"), "labels must name 3 classes in the order .* but names 2"),
        (Columns("truth", ("p_cat",)), ("cat",), "labels must name 2 classes in the order of the scores but names 1"),
        (Columns("truth", prefix="p_"), ("cat", "cat", "dog"), "two classes of different names but got cat, cat, dog"),
        (Columns("truth", prefix="q"), None, "have columns that begin with 'q' but has truth, p_cat, p_dog"),
        (Columns("truth", prefix="p_", weight="p_bird"), ("cat", "dog"),
         r"data.csv, line 3, column 'truth' must be one of the classes cat, dog but got 'bird'"),
        (Columns("truth", pred="w"), ("cat", "bird", "dog"), r"line 2, column 'w' must be one of .* but got '1.5'"),
        (Columns("truth", prefix="p_c", weight="p_bird"), ("bird", "cat"), r"line 4, column 'truth' must be one of"),
    ],
)  # fmt: skip
def test_errors(columns: Columns, labels: Any, message: str, animals: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_predictions(animals, columns, labels)


@pytest.mark.parametrize(
    ("weight", "need"), [("-1", "number of at least 0 but got -1.0"), ("inf", "finite number but")]
)
def test_weights_are_finite_and_not_negative(weight: str, need: str, tmp_path: Path) -> None:
    path = written(tmp_path, "t,p,w", "1,0.5,0", f"0,0.5,{weight}")
    with pytest.raises(InputError, match=rf"line 3, column 'w' must hold a {need}"):
        read_predictions(path, Columns("t", ("p",), weight="w"))


def test_a_long_list_of_classes_is_cut(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=[20], scores=np.zeros((1, 12)))
    with pytest.raises(InputError, match=r"0, 1, 2, 3, 4, 5, 6, 7, ... \(12 in all\) but got '20'"):
        read_predictions(tmp_path / "a.npz", Columns("y", ("scores",)))


def test_an_unknown_class_to_ignore(animals: Path) -> None:
    with pytest.raises(
        InputError, match="ignore must be a class of column 'truth' but got 'zzz': it holds bird, cat, dog"
    ):
        read_predictions(animals, Columns("truth", prefix="p_"), ignore="zzz")
    assert read_predictions(animals, Columns("truth", prefix="p_"), ("cat", "dog", "bird"), "cat").target[0] == IGNORED


def test_a_class_without_rows_may_be_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "t,p_a,p_b", "a,1,0", "a,0,1")
    assert read_predictions(path, Columns("t", prefix="p_"), ignore="b").target.tolist() == [0, 0]


@pytest.mark.parametrize("score", ["0.25", "-1.5e0", ".5", "5e-1"])
def test_scores_are_no_predicted_classes(score: str, tmp_path: Path) -> None:
    path = written(tmp_path, "t,p", "1,1", f"0,{score}")
    with pytest.raises(InputError, match=rf"line 3, column 'p' must hold classes but got '{score}', a fraction: give"):
        read_predictions(path, Columns("t", pred="p"))
    swapped = written(tmp_path, "p,t", "1,1", f"0,{score}")
    with pytest.raises(InputError, match="column 't' must hold classes"):
        read_predictions(swapped, Columns("t", pred="p"))
    assert read_predictions(path, Columns("t", pred="p"), ("0", "1", score)).labels is not None


@pytest.mark.parametrize("text", ["1.0", "2", "v1.5", "1e3", "10.0.1"])
def test_texts_that_are_classes(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, "t,p", f"{text},{text}", f"x,{text}")
    assert text in read_predictions(path, Columns("t", pred="p")).names


@pytest.mark.parametrize(
    "rows", [("1,1.0", "0,0.0"), ("1.0,1", "0.0,0.00"), ("1,1.0", "0,0", "1,1"), ("-0.0,0", "1,1")]
)
def test_whole_numbers_that_are_written_as_floats_are_those_classes(rows: tuple[str, ...], tmp_path: Path) -> None:
    found = read_predictions(written(tmp_path, "t,p", *rows), Columns("t", pred="p"))
    assert found.names == ("0", "1") and found.labels is not None
    assert found.target.tolist() == found.labels.tolist()


def test_a_bar_separates_columns_where_nothing_else_does(tmp_path: Path) -> None:
    found = read_predictions(written(tmp_path, "t|p", "a|b", "b|b"), Columns("t", pred="p"))
    assert found.names == ("a", "b") and found.target.tolist() == [0, 1]


def test_names_of_classes_and_cells_may_be_the_same_number(tmp_path: Path) -> None:
    path = written(tmp_path, "t,p,s0,s1", "0.0,0,1,0", "1.0,1,0,1", "255.0,0,1,0")
    for labels in (("0", "1"), ("0.0", "1.0")):
        of_scores = read_predictions(path, Columns("t", ("s0", "s1")), labels, ignore="255")
        assert of_scores.names == labels and of_scores.target.tolist() == [0, 1, IGNORED]
        predicted = read_predictions(path, Columns("t", pred="p"), labels, ignore="255")
        assert predicted.labels is not None and predicted.labels.tolist() == [0, 1, 0]
    assert read_predictions(path, Columns("t", pred="p"), ignore="255.0").names == ("0", "1")


def test_names_that_are_one_number_are_themselves_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "t,p", "1,1.0", "1.0,1", "0,0")
    found = read_predictions(path, Columns("t", pred="p"), ("0", "1", "1.0"))
    assert found.labels is not None and (found.target.tolist(), found.labels.tolist()) == ([1, 2, 0], [2, 1, 0])
    leading = written(tmp_path, "t,p", "1,01", "0,0")
    assert read_predictions(leading, Columns("t", pred="p")).names == ("0", "01", "1")
    with pytest.raises(InputError, match="'p' must be one of the classes 0, 1 but got '01'"):
        read_predictions(leading, Columns("t", pred="p"), ("0", "1"))


def test_predictions_that_are_never_a_target(tmp_path: Path) -> None:
    path = written(tmp_path, "t,p", "cat,0", "dog,1", "?,1")
    message = r"column 'p' must hold the classes of column 't' \(cat, dog\) but has none of them: it holds 0, 1; if"
    with pytest.raises(InputError, match=message):
        read_predictions(path, Columns("t", pred="p"), ignore="?")
    labels = ("cat", "dog", "0", "1")
    assert read_predictions(path, Columns("t", pred="p"), labels, "?").target.tolist() == [0, 1, IGNORED]


@pytest.mark.parametrize("rows", [("a,a", ",a"), ("a,a", "a,")])
def test_an_empty_cell_is_no_class(rows: tuple[str, str], tmp_path: Path) -> None:
    path = written(tmp_path, "t,p", *rows, "b,b")
    with pytest.raises(
        InputError, match=r"line 3, column '[tp]' must hold a class but is empty: ignore the empty class"
    ):
        read_predictions(path, Columns("t", pred="p"))
    assert read_predictions(path, Columns("t", pred="p"), ("a", "b", "")).names == ("a", "b", "")


def test_empty_targets_may_be_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "t,p", "a,a", ",a", "b,b")
    assert read_predictions(path, Columns("t", pred="p"), ignore="").target.tolist() == [0, IGNORED, 1]
