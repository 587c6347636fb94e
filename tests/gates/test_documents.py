"""Decisions as JUnit XML and as Markdown of GitHub, with names that hold anything."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

import pytest

from valor_gpu.gates import decide, junit_xml, markdown_summary, parse_gate
from valor_gpu.gates.decisions import Decision
from valor_gpu.gates.markdown import markdown_code, markdown_text

HOSTILE = [
    "a|b", "`x`", "<img src=x onerror=alert(1)>", "</failure>", "]]>", "&amp;", "@org/team", "#1", "[a](http://b)",
    "a\nb", "a\r\nb", "\x00\x1b[31m", "\ud800", "\ufffe", "\u202ereversed", "*b* _i_ ~s~", "| --- |", "'\"", "\\|",
    "https://example.org", "www.example.org", "::error::x", "snake_case_name", "__bold__", ":tada:", "a_|_b", "",
]  # fmt: skip


def decisions_of(names: list[str]) -> list[Decision]:
    gates = [str(parse_gate('"' + name.replace('"', '""') + '" < 0.5')) for name in names]
    return decide({name: 0.25 for name in names}, gates, str, fail_if=True)


def test_junit_of_each_outcome() -> None:
    numbers = {"map": 0.3, "p_map": float("nan"), "none": None}
    gates = ["map < 0.2", "map < 0.4", "p_map < 0.05"]
    found = junit_xml("compare", decide(numbers, gates, lambda name: "too few", fail_if=True), numbers, 1.5)
    root = ElementTree.fromstring(found.encode())
    [suite] = root
    assert root.tag == "testsuites" and suite.tag == "testsuite"
    assert suite.attrib == {
        "name": "compare", "tests": "3", "failures": "2", "errors": "0", "time": "1.500"
    }  # fmt: skip
    assert [child.tag for child in suite] == ["properties", "testcase", "testcase", "testcase"]
    properties = {each.get("name"): each.get("value") for each in suite[0]}
    assert properties == {"map": "0.3", "p_map": "", "none": ""}
    assert [case.get("name") for case in suite[1:]] == [f"fail if {gate}" for gate in gates]
    assert all(case.get("classname") == "compare" and case.get("time") == "0.500" for case in suite[1:])
    assert list(suite[1]) == []
    assert [(case[0].get("type"), case[0].text) for case in suite[2:]] == [
        ("failed", "map < 0.4 holds: it is 0.3"),
        ("undecided", "p_map < 0.05 cannot be decided: there is no number, too few"),
    ]
    assert all(case[0].get("message") == case[0].text for case in suite[2:])


def test_junit_without_gates_has_a_case() -> None:
    [suite] = ElementTree.fromstring(junit_xml("compare", []).encode())
    assert suite.get("tests") == "1" and suite.get("failures") == "0"
    assert [(case.tag, case.get("name")) for case in suite] == [("testcase", "no gate")]


ALLOWED = {
    "testsuites": {"name", "tests", "failures", "errors", "time", "disabled"},
    "testsuite": {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time", "assertions", "status"},
    "failure": {"message", "type"},
}  # of the schema that Jenkins publishes, junit-10.xsd


def test_junit_of_hostile_names_is_well_formed_and_keeps_to_the_schema() -> None:
    decisions = decisions_of(HOSTILE)
    text = junit_xml("compare\x00", decisions, dict.fromkeys(HOSTILE, 0.25), 0.1)
    root = ElementTree.fromstring(text.encode())
    for element in root.iter():
        assert set(element.attrib) <= ALLOWED[element.tag]
    names = [case.get("name") or "" for case in root.iter("testcase")]
    assert len(names) == len(HOSTILE) and "\x00" not in text
    for decision, case in zip(decisions, names):
        shown = f"fail if {decision.gate}"
        kept = "\n\r\t\u202e"  # XML can hold these
        assert case == "".join(
            c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in shown
        )


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_names_as_they_are(name: str) -> None:
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
    for found in (markdown_text(name), markdown_code(name).removeprefix("<code>").removesuffix("</code>")):
        assert not re.search(r"[|`<>*~\[\]\\\n]|\b_|_\b|(?i:www\.)|://|:\w+:|&(?!#\d+;)", found)
        assert html.unescape(found).replace("\u200b", "") == escaped
    assert markdown_text("@a #1") == "@&#8203;a #&#8203;1"


def test_markdown_of_hostile_names_keeps_its_tables() -> None:
    rows = [[name, "0.1", name] for name in HOSTILE]
    text = markdown_summary("compare", decisions_of(HOSTILE), ["name", "x", "y"], rows)
    lines = text.split("\n")
    assert lines[0] == f"### compare: ❌ {len(HOSTILE)} of {len(HOSTILE)} gates failed"
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) == 2 * (2 + len(HOSTILE))
    assert all(line.count("|") == 3 for line in tables[: 2 + len(HOSTILE)])
    assert all(line.count("|") == 4 for line in tables[2 + len(HOSTILE) :])


def test_markdown_is_cut_where_it_would_be_too_long() -> None:
    rows = [[f"map_per_class/{number}", "ü" * 20] for number in range(1203)]
    whole = markdown_summary("compare", [], ["name", "value"], rows, ["a note"], noun="classes")
    assert "more classes" not in whole and whole.endswith("- a note\n")
    for limit in (len(whole.encode()), len(whole.encode()) - 1, 5000, 1000, 200):
        text = markdown_summary("compare", [], ["name", "value"], rows, ["a note"], noun="classes", limit=limit)
        shown = text.count("| <code>")
        assert len(text.encode()) <= limit
        if limit == len(whole.encode()):
            assert text == whole
        else:
            assert f"\n\nand {1203 - shown:,} more classes\n" in text and text.endswith("- a note\n")


def test_markdown_that_passes() -> None:
    passed = decide({"map": 0.3}, ["map < 0.2"], str, fail_if=True)
    assert markdown_summary("compare", passed).splitlines() == [
        "### compare: ✅ 1 gate passed", "", "| gate | found |", "| --- | --- |",
        "| ✅ <code>map &#60; 0.2</code> | it is 0.3 |",
    ]  # fmt: skip
