"""Results in notebooks: what is shown, escaped, counted, and that the markup is well formed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

from valor_gpu.pages.charts import Estimate, rate_bar
from valor_gpu.result import Result, Signature

NAN = float("nan")


def markup(result: Result) -> tuple[str, ElementTree.Element]:
    """The markup without its style, and as a tree, which only well-formed markup becomes."""
    whole = result._repr_html_()
    body = re.sub(r"<style>.*?</style>", "", whole, flags=re.S)
    return body, ElementTree.fromstring(body)


def example() -> Result:
    values = {
        "map": 0.25,
        "map_small": NAN,
        "images": 3,
        "error": 7.5,
        "grid": np.array([0.5, 0.75]),
        "per_class": {"<cat>": 0.5, "dog\u202e": NAN},
    }
    reasons = {"map_small": "no <small> ground truth", "per_class": "class without ground truth"}
    return Result(values, Signature({"metric": "m<AP>", "version": "1"}), {"images": 3, "ignored": 0}, reasons)


def test_numbers_bars_and_reasons() -> None:
    body, tree = markup(example())
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    assert rows == [
        ["map", "0.2500", "", ""],
        ["map_small", "nan", "", "no <small> ground truth"],
        ["images", "3", "", ""],
        ["error", "7.5000", "", ""],
        ["grid", "[0.5 0.75]", ""],
        ["<cat>", "0.5000", "", ""],
        ["dog[U+202E]", "nan", "", "class without ground truth"],
    ]
    assert body.count("<svg") == 2 and rate_bar(Estimate(0.25), "map 0.2500", 120) in body
    assert ["".join(each.itertext()) for each in tree.iter("summary")] == ["per_class: 2 values"]
    assert ["".join(each.itertext()) for each in tree.iter("p")] == ["images 3", "metric:m<AP>|version:1"]


def test_small_matrices_are_tables() -> None:
    arrays = {"counts": np.array([[3.0, 0.0], [1.0, 6.0]]), "shares": np.array([[0.5, NAN]]), "large": np.ones((17, 2))}
    arrays |= {"zeros": np.zeros((2, 1)), "empty": np.ones((2, 0)), "flags": np.array([[True]])}
    body, tree = markup(Result(arrays, Signature({}), {}, {"shares": "no sample"}))
    inner = [[[cell.text for cell in row] for row in table] for table in tree.findall(".//td/table")]
    assert inner == [[["3", "0"], ["1", "6"]], [["0.5000", "nan"]], [["0"], ["0"]], [["1"]]]
    shares = [float(share) for share in re.findall(r"--mark\) ([\d.]+)%", body)]
    assert shares == [22.5, 0, 7.5, 45, 45, 0, 0, 0, 45]
    assert body.count("no sample") == 1 and "array [17, 2]" in body and "array [2, 0]" in body


def test_texts_are_escaped_and_nothing_is_fetched_or_run() -> None:
    attack = '"><script>alert(1)</script>'
    whole = Result({attack: 0.5, "b": {attack: 1.0}}, Signature({"a": attack}), {attack: 1})._repr_html_()
    assert "<script" not in whole and whole.count("&lt;script&gt;") == 6
    assert not re.search(r"url\(|@import|https?:|onload", whole)


def test_style_is_that_of_the_pages_and_stays_inside() -> None:
    style = re.search(r"<style>(.*?)</style>", example()._repr_html_(), flags=re.S)
    assert style is not None and ":root" not in style[1] and "prefers-color-scheme: dark" in style[1]
    plain, depth, outside = re.sub(r"/\*.*?\*/", "", style[1], flags=re.S), 0, ""
    for letter in plain:
        depth += (letter == "{") - (letter == "}")
        outside += letter if depth == 0 else ""
    assert depth == 0
    assert set(outside.replace("}", " ").split()) == {
        ".valor-gpu",
        "@media",
        "screen",
        "and",
        "(prefers-color-scheme:",
        "dark)",
    }


def test_rows_that_are_left_out_are_counted() -> None:
    body, tree = markup(Result({"per_class": {str(n): 0.5 for n in range(103)}}, Signature({})))
    assert len(list(tree.iter("tr"))) == 100 and "and 3 more, which to_pandas() has" in body
    body, tree = markup(Result({"per_class": {str(n): 0.5 for n in range(100)}}, Signature({})))
    assert len(list(tree.iter("tr"))) == 100 and "more" not in body
    assert markup(Result({}, Signature({})))[0].count("<p>") == 1
