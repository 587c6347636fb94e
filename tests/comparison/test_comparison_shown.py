"""Comparisons as text, Markdown, markup, one HTML file and a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.made import FEW, UNTESTED, Number, coco_comparison, comparison
from tests.html_pages import Page
from valor_gpu.comparison.comparison_markdown import markdown, markdown_of_pairs
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.comparison_text import answer
from valor_gpu.comparison.comparisons import Comparisons
from valor_gpu.comparison.forest_plot import forest_plot
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.gates.decisions import Decision, decide
from valor_gpu.report.comparison_html import comparison_report, comparisons_report, write_comparison

NAN = math.nan
CLASSES = {
    "cat": Number(0.05, p=0.004),
    "dog": Number(-0.04, p=0.0002),
    "a|b <b>x</b>": Number(0.001, p=0.9),
    "bat": UNTESTED,
    "bee": UNTESTED,
}
ODD = ["<script>alert(1)</script>", "חתול\u202eevil", "[x](javascript:y) @team #12", "a\x00b", "$\\frac$"]


# ---------------------------------------------------------------------------------------------------------------- text


def test_the_first_line_is_the_answer() -> None:
    result = coco_comparison(CLASSES)
    line = "map +0.006 (0.001 to 0.011), p 0.021; 2 of 3 tested classes differ"
    assert str(result).splitlines()[0] == line == answer(result)
    assert repr(result) == f"ComparisonResult({line})"


def test_text_of_coco_is_short_and_says_all() -> None:
    result = coco_comparison(CLASSES, permutations=1000, adjust="max_t", power=0.8, notes=["version: 1.0 and 1.1"])
    lines = str(result).splitlines()
    assert len(lines) <= 25
    assert lines[2].split() == ["first", "second", "difference", "interval", "p", "permutation", "p", "detectable"]
    assert lines[3].split() == ["map", "0.340", "0.346", "+0.006", "0.001", "to", "0.011", "0.021", "0.030", "0.007"]
    assert all(len(line) == len(lines[2]) for line in lines[3:15])
    assert lines[16] == (
        "map_per_class: 2 of 3 tested classes differ: dog -0.040 (-0.045 to -0.035), p < 0.001;"
        " cat +0.050 (0.045 to 0.055), p 0.0040; 2 not tested: too few images; p adjusted by maxT"
    )
    assert lines[17:] == [
        "these data can show a difference of map of 0.007 or more, with power 0.8",
        "5,000 images, 1,000 replicates, 1,000 permutations (smallest p 0.001), 95% intervals, seed 0",
        "p: bootstrap; null hypothesis: both models have the same expected number",
        "permutation p: null hypothesis: for each unit it does not matter which model a prediction is of",
        "note: version: 1.0 and 1.1",
    ]


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ({}, "no number can be compared"),
        ({"f1": Number(-0.006, p=0.021)}, "f1 -0.006 (-0.011 to -0.001), p 0.021"),
        ({"f1": Number(0.0, NAN, NAN)}, f"f1 0.000, no interval: {FEW}"),
        ({"f1": Number(0.0003, 0.0001, 0.2)}, "f1 +0.00030 (0.00010 to 0.00050), p 0.20"),
        ({"f1": Number(NAN, NAN, NAN)}, f"f1: no difference: {FEW}"),
        ({"f1": Number(2.0, 0.5, 1e-9)}, "f1 +2.000 (1.000 to 3.000), p < 0.001"),
        ({"f1": Number(0.1), "f1_per_class/0": Number(0.1, p=0.01)}, "f1 +0.100 (0.095 to 0.105), p 0.50; "
         "1 of 1 class differs"),
        ({"f1_per_class/0": UNTESTED}, "no number can be compared"),
        ({"c/0": UNTESTED, "c/1": Number(0.1, p=0.01)}, "c: 1 of 1 tested class differs"),
    ],
)  # fmt: skip
def test_answers(numbers: dict[str, Number], line: str) -> None:
    assert answer(comparison(numbers)) == line
    assert str(comparison(numbers)).splitlines()[0] == line


def test_large_numbers_have_fewer_decimals() -> None:
    result = comparison({"f1": Number(0.1), "tp": Number(300.0, 1.0), "distance": Number(12.0, 1.0)})
    lines = [line.split() for line in str(result).splitlines()]
    assert ["tp", "0.3", "300.3", "+300.0", "298.0", "to", "302.0", "0.50"] in lines
    assert ["distance", "0.34", "12.34", "+12.00", "10.00", "to", "14.00", "0.50"] in lines


def test_different_tests_are_named_with_their_numbers() -> None:
    tests = {"auroc": "delong: both AUROCs are equal", "accuracy": "mcnemar_clusters: both err alike"}
    text = str(comparison({"auroc": Number(0.1), "accuracy": Number(0.1)}, tests=tests))
    assert "p of auroc: DeLong; null hypothesis: both AUROCs are equal" in text
    assert "p of accuracy: McNemar with clusters; null hypothesis: both err alike" in text


def test_numbers_without_a_p_value_have_no_test() -> None:
    tests = {"f1": "sign_flip: signs are random", "skill": "bootstrap: equal", "skill_per_class": "bootstrap: equal"}
    numbers = {"f1": Number(0.1), "skill": UNTESTED, "skill_per_class/0": UNTESTED}
    lines = str(comparison(numbers, tests=tests)).splitlines()
    assert [line for line in lines if "null hypothesis" in line] == ["p: sign flip; null hypothesis: signs are random"]


def test_many_numbers_and_classes_are_counted() -> None:
    numbers = {f"n{i}": Number(0.1) for i in range(20)}
    classes = {f"n0_per_class/{i}": Number(0.1, p=0.001) for i in range(30)}
    text = str(comparison(numbers | classes))
    assert "and 6 more, which table() has" in text and "; and 25 more" in text
    assert len(text.splitlines()) < 25


def test_asked_power_and_left_out_rows_are_told(tmp_path: Path) -> None:
    result = comparison({"f1": Number(0.006, p=0.2, detectable=0.01)}, smallest_difference=0.005)
    more = {"units_needed": {"f1": 20_000.0}, "observed_power": {"f1": 0.3456}}
    told = ComparisonResult({**result.values, **more}, result.signature, {"images": 5000, "left_out_of_f1": 3})
    lines = str(told).splitlines()
    assert "a difference of 0.005 takes 20,000 images" in lines
    assert "power for the difference that was seen: 0.35" in lines
    assert any(line.startswith("5,000 images, 3 left out of f1, 1,000 replicates") for line in lines)
    for shown in (comparison_report(told), told._repr_html_()):
        assert "a difference of 0.005 takes 20,000 images" in Page(shown).text.replace("A difference", "a difference")
    several = Comparisons({"b vs a": told, "c vs a": told})
    assert "c vs a  a difference of 0.005 takes 20,000 images" in str(several).splitlines()
    write_comparison(tmp_path / "page.html", several)
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("takes 20,000 images") == 2


def test_one_number_has_a_table_too() -> None:
    lines = str(comparison({"f1": Number(0.006, p=0.021, p_permutation=0.03)})).splitlines()
    assert lines[3].split() == ["f1", "0.340", "0.346", "+0.006", "0.001", "to", "0.011", "0.021", "0.030"]


def test_numbers_without_an_interval_say_why() -> None:
    reasonless = {"f1": Number(0.0, math.nan, math.nan), "ece": Number(0.1, math.nan, math.nan), "iou": Number(0.1)}
    lines = str(comparison(reasonless | {"mce": Number(0.1, math.nan, math.nan)})).splitlines()
    assert f"no interval of ece, mce: {FEW}" in lines


def test_a_count_of_1_is_singular() -> None:
    one = comparison({"f1": Number(0.1)})
    told = ComparisonResult(one.values, one.signature, {"clusters": 1, "images": 60})
    assert any(line.startswith("1 cluster, 60 images, ") for line in str(told).splitlines())


def test_classes_named_by_numbers_have_a_word() -> None:
    text = str(comparison({"f1": Number(0.1), "f1_per_class/3": Number(0.1, p=0.001), "f1_per_class/cat": Number(0.1)}))
    assert "differs: class 3 +0.100" in text


def test_notes_of_every_pair_are_told() -> None:
    pairs = {name: comparison({"f1": Number(0.1)}, notes=[f"note of {name}", "of all"]) for name in ("b", "c")}
    lines = str(Comparisons(pairs)).splitlines()
    assert [line for line in lines if "note" in line] == ["note: note of b", "note: of all", "note: note of c"]


def test_slices_of_the_first_number_are_told() -> None:
    result = comparison({"f1": Number(0.01), "iou": Number(0.01)})
    slices = {name: {"f1": p, "iou": p} for name, p in (("weather: rain", 0.01), ("weather: sun", 0.4))}
    first = {name: dict.fromkeys(each, 0.1) for name, each in slices.items()}
    values = {name: {**column, "slices": first} for name, column in result.values.items()}
    values["p_adjusted"] = {**result.values["p_adjusted"], "slices": slices}
    sliced = ComparisonResult(values, result.signature, result.counts)
    lines = str(sliced).splitlines()
    place = lines.index("f1: 1 of 2 slices differs: weather: rain +0.100, p 0.010")
    assert [line.split()[-3] for line in lines[place + 3 : place + 5]] == ["0.010", "0.40"]
    assert lines[place + 2].split()[:6] == ["first", "second", "difference", "interval", "adjusted", "p"]
    assert lines[place + 3].startswith("weather: rain  ") and lines[place + 1] == lines[place + 5] == ""
    assert not any(line.startswith("iou: ") for line in lines) and "classes" not in lines[0]
    text = Page(comparison_report(sliced)).text
    assert "weather: rain" in text and "F1 by slice" in text and "IoU by slice" in text


def test_several_models_have_a_line_each() -> None:
    pairs = {"new vs old": Number(0.1, p=0.001), "best vs old": Number(0.2, p=0.02)}
    found = Comparisons({name: comparison({"f1": each}, adjust="holm") for name, each in pairs.items()})
    assert str(found).splitlines() == [
        "new vs old   f1 +0.100 (0.095 to 0.105), p 0.0010",
        "best vs old  f1 +0.200 (0.195 to 0.205), p 0.020",
        "5,000 images, 1,000 replicates, 95% intervals, seed 0",
        "p: bootstrap; null hypothesis: both models have the same expected number",
        "p adjusted over pairs by Holm",
    ]
    assert repr(found) == "Comparisons(new vs old, best vs old)"
    parsed = Page(found._repr_html_())
    assert "best vs old: f1 +0.200 (0.195 to 0.205), p 0.020" in parsed.text and len(parsed.of("details")) == 2


def test_p_values_of_several_models_are_adjusted_ones() -> None:
    one = comparison({"f1": Number(0.1, p=0.01)})
    values = {**one.values, "p_adjusted": {"f1": 0.03}}
    found = Comparisons({"b vs a": ComparisonResult(values, one.signature, one.counts, intervals=one.intervals)})
    assert str(found).splitlines()[0] == "b vs a  f1 +0.100 (0.095 to 0.105), p 0.030"


def test_markdown_of_several_models_has_adjusted_p_values_and_the_answers_first() -> None:
    one = comparison({"f1": Number(0.1, p=0.01)})
    values = {**one.values, "p_adjusted": {"f1": 0.03}}
    adjusted = ComparisonResult(values, one.signature, one.counts, intervals=one.intervals)
    found = Comparisons({"b vs a": adjusted, "c @d vs a": adjusted})
    lines = markdown_of_pairs(found).splitlines()
    said = "f1 +0.100 (0.095 to 0.105), p 0.030"
    answers = [f"- <code>b vs a</code>: {said}", f"- <code>c @d vs a</code>: {said}"]
    assert lines[:5] == ["### 2 pairs of models", "", *answers, ""]
    assert lines[5] == f"#### <code>b vs a</code>: {said}"
    assert sum("| adjusted p |" in line for line in lines) == 2
    assert not any("0.010" in line for line in lines) and sum(line.startswith("#") for line in lines) == 3
    short = markdown_of_pairs(
        Comparisons(dict.fromkeys("ab", coco_comparison({str(i): Number(0.01) for i in range(999)}))), (), 30_000
    )
    assert len(short.encode()) <= 30_000 and short.count("more classes") == 2


def test_names_of_others_steer_no_terminal() -> None:
    text = str(coco_comparison({name: Number(0.1, p=0.001) for name in ODD}))
    assert "[U+202E]" in text and "␀" in text and "\u202e" not in text


# ------------------------------------------------------------------------------------------------------------ Markdown


def decided(result: Any, gates: list[str]) -> list[Decision]:
    return decide(result.gate_numbers(), gates, lambda name: "", fail_if=True)


def test_markdown_has_the_verdict_first() -> None:
    result = coco_comparison(CLASSES, names=["old", "new"])
    lines = markdown(result).splitlines()
    assert lines[0] == "### map +0.006 (0.001 to 0.011), p 0.021; 2 of 3 tested classes differ"
    row = "| <code>map</code> | 0.340 | 0.346 | +0.006 | +0.001 to +0.011 | 0.021 | 0.030 | 0.007 | higher |"
    assert row in lines and any(line.startswith("| number | old | new | difference | 95% ") for line in lines)
    gates = decided(result, ["delta_map < -0.003 and p_map < 0.05", "map < 0.4"])
    lines = markdown(result, gates).splitlines()
    assert lines[0] == "### new against old: ❌ 1 of 2 gates failed" and row in lines
    assert answer(result) in lines
    assert any(line.startswith("| ❌ <code>map &#60; 0.4</code> |") for line in lines)


def test_markdown_tables_have_as_many_cells_as_heads() -> None:
    text = markdown(coco_comparison(CLASSES | {name: Number(0.1, p=0.001) for name in ODD}))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows[:14]} == {10} and {row.count("|") for row in rows[14:]} == {8}
    assert len(rows) == 14 + 2 + len(CLASSES) + len(ODD)
    assert "<script" not in text and "[x](" not in text and "\u202e" not in text and "\x00" not in text


def test_markdown_counts_what_it_leaves_out() -> None:
    result = coco_comparison({f"class {i}": Number(0.01) for i in range(1203)})
    whole = markdown(result)
    assert whole.count("<code>class ") == 1203 and "more classes" not in whole
    short = markdown(result, limit=20_000)
    shown = short.count("<code>class ")
    assert 0 < shown < 1203 and f"\n\nand {1203 - shown:,} more classes\n\n</details>" in short
    assert len(short.encode()) <= 20_000 < len(short.encode()) + 100


# --------------------------------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("classes", [0, 3, 80, 1203])
def test_a_report_has_every_class(classes: int) -> None:
    found = {f"class {i}": Number(0.02 * math.sin(i), p=0.001 if i == 2 else 0.6) for i in range(classes)}
    page = comparison_report(coco_comparison(found), "new against old")
    parsed = Page(page)
    assert len(page) < 2_000_000 and "<script" not in page and "http:" not in page and "https:" not in page
    assert "map +0.006 (0.001 to 0.011), p 0.021" in parsed.text and "new against old" in parsed.text
    assert len(parsed.of("svg")) - 1 == 12 + classes  # and the mark of the brand
    assert all(each.get("aria-label") for each in parsed.of("svg")[1:])
    assert ("1 of" in parsed.text) == (classes > 0)
    if classes > 22:
        assert f"{classes - 20:,} more classes" in parsed.text
    assert comparison_report(coco_comparison(found), "new against old") == page


def test_a_report_says_why_and_what_was_tested(tmp_path: Path) -> None:
    result = coco_comparison(CLASSES, notes=["version: 1.0 and 1.1"], names=["old", "new"])
    write_comparison(tmp_path / "page.html", result)
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "new against old" in text and "version: 1.0 and 1.1" in text
    assert f"bat {FEW}" in text
    assert "null hypothesis: both models have the same expected number" in text
    assert "Class old new Difference 95% interval" in text
    assert "Clearest: dog -0.040" in text


def test_a_report_has_the_provenance_of_both_models() -> None:
    first = {"ground_truth": "a" * 64, "predictions": None, "reasons": {"predictions": "a target gave them"}}
    result = coco_comparison({}, names=["old", "new"], provenance={"first": first, "second": {"version": "9.9"}})
    for page in (comparison_report(result), comparisons_report(Comparisons({"new vs old": result}))):
        text = Page(page).text
        assert "Data, device and version of both models" in text
        assert f"ground truth {'a' * 64} unknown" in text and "predictions a target gave them unknown" in text
        assert "version unknown 9.9" in text


def test_texts_of_others_are_escaped_in_pages() -> None:
    result = coco_comparison({name: Number(0.1, p=0.001) for name in ODD})
    for markup in (comparison_report(result, "</title><script>x()</script>"), result._repr_html_()):
        parsed = Page(markup)
        assert "<script" not in markup and "\u202e" not in markup and "\x00" not in markup
        assert "<script>alert(1)</script>" in parsed.text and "[U+202E]" in parsed.text


def test_a_notebook_shows_the_same_table() -> None:
    parsed = Page(coco_comparison(CLASSES)._repr_html_())
    assert "map 0.340 0.346 +0.006 +0.001 to +0.011 0.021 0.030 0.007 higher" in parsed.text
    assert "map_per_class: 2 of 3 tested classes differ" in parsed.text


def test_a_report_of_several_models_has_a_section_for_each_pair(tmp_path: Path) -> None:
    found = Comparisons({name: coco_comparison(CLASSES, names=name.split(" vs ")) for name in ("b vs a", "<i> vs a")})
    write_comparison(tmp_path / "page.html", found)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    parsed = Page(page)
    assert (
        "<i> vs" not in page and parsed.text.count("map +0.006 (0.001 to 0.011), p 0.021; 2 of 3 tested classes") == 2
    )
    assert [each["id"] for each in parsed.of("section")] == ["answers", "pair-1", "pair-2"]
    assert page.count(">bat<") == 2


def test_a_report_of_nothing_and_of_another_type() -> None:
    assert "have no number in common" in Page(comparison_report(comparison({}))).text
    with pytest.raises(InputTypeError, match="result must be ComparisonResult but got int"):
        comparison_report(3)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- picture


def drawn(result: Any, **options: Any) -> Any:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed").Figure()
    return result.plot(figure.subplots(), **options)


def test_a_picture_has_a_line_for_each_interval() -> None:
    ax = drawn(coco_comparison(CLASSES))
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["map", "map_50"]
    whiskers = [line.get_xdata() for line in ax.lines[:24:2]]
    assert whiskers[0] == pytest.approx([0.001, 0.011])
    colors = [line.get_color() for line in ax.lines[:24:2]]
    assert colors == ["black"] + ["0.72"] * 11
    assert ax.get_title(loc="left") == "map +0.006 (0.001 to 0.011), p 0.021"
    assert ax.get_xlabel() == "second less first"


def test_a_picture_of_classes() -> None:
    ax = drawn(coco_comparison(CLASSES), of="map_per_class", most=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cat", "dog"]
    with pytest.raises(InputError, match="of must be a number of classes of this comparison but is 'x'; it has map_p"):
        forest_plot(coco_comparison(CLASSES), of="x")
    with pytest.raises(InputError, match="most must be at least 1 but got 0"):
        forest_plot(coco_comparison(CLASSES), most=0)


def test_a_picture_of_pairs_has_a_line_for_each() -> None:
    pairs = {"b vs a": coco_comparison(CLASSES), "c vs a": coco_comparison({})}
    ax = drawn(Comparisons(pairs))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b vs a", "c vs a"]
    assert [line.get_xdata() for line in ax.lines[:4:2]] == [pytest.approx([0.001, 0.011])] * 2
    assert ax.get_title(loc="left") == "map" and ax.get_xlabel() == "first named less second"
    other = drawn(Comparisons(pairs), of="map_50")
    assert other.get_title(loc="left") == "map_50" and other.lines[0].get_color() == "0.72"
    with pytest.raises(
        InputError, match=r"of must be a number of the whole but is 'map_per_class'; .*\.plot\(of=\.\.\.\)"
    ):
        drawn(Comparisons(pairs), of="map_per_class")


def test_a_picture_without_intervals_says_so() -> None:
    empty = drawn(Comparisons({"b vs a": comparison({"f1": UNTESTED})}))
    assert "no difference has an interval" in [text.get_text() for text in empty.texts]
    ax = drawn(comparison({"f1": UNTESTED}))
    assert "no difference has an interval" in [text.get_text() for text in ax.texts]
