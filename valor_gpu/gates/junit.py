"""Decisions of gates as JUnit XML, which CI servers read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from valor_gpu.gates.decisions import Decision

_NO_GATE = "no gate"
"""Name of the test case of a suite without gates, which some servers reject when it is empty."""


def junit_xml(
    suite: str, decisions: Sequence[Decision], numbers: Mapping[str, object] | None = None, seconds: float = 0.0
) -> str:
    """Returns a document of JUnit XML with one test case per gate.

    Args:
        suite: name of the suite and of the class of its cases.
        decisions: of the gates; a gate that failed is a failure. Without gates the suite has one case that passes.
        numbers: name to number or text, which become the properties of the suite.
        seconds: wall time of the whole.

    Returns:
        A document that the common schema of JUnit accepts. Characters that XML cannot hold are written as escapes.

    Example:
        >>> from valor_gpu.gates import decide
        >>> text = junit_xml("compare", decide({"map": 0.3}, ["map >= 0.4"], str), {"map": 0.3})
        >>> print(text.splitlines()[-4].strip()[:73])
        <failure message="map &gt;= 0.4 does not hold: it is 0.3" type="failed">m
    """
    failed = [each for each in decisions if each.failed]
    time = f"{seconds:.3f}"
    counts = {"tests": str(len(decisions) or 1), "failures": str(len(failed)), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": _xml(suite), **counts, "time": time})
    inner = ElementTree.SubElement(root, "testsuite", {"name": _xml(suite), **counts, "time": time})
    if numbers:
        properties = ElementTree.SubElement(inner, "properties")
        for name, value in numbers.items():
            ElementTree.SubElement(properties, "property", {"name": _xml(name), "value": _xml(_value(value))})
    share = f"{seconds / max(1, len(decisions)):.3f}"
    for each in decisions:
        name = f"fail if {each.gate}" if each.fail_if else str(each.gate)
        case = ElementTree.SubElement(inner, "testcase", _case(suite, name, share))
        if each.failed:
            kind = "undecided" if each.holds is None else "failed"
            text = _xml(str(each))
            ElementTree.SubElement(case, "failure", {"message": text, "type": kind}).text = text
    if not decisions:
        ElementTree.SubElement(inner, "testcase", _case(suite, _NO_GATE, time))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _case(suite: str, name: str, seconds: str) -> dict[str, str]:
    return {"classname": _xml(suite), "name": _xml(name), "time": seconds}


def _value(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return "" if value is None else str(value)


def _xml(text: str) -> str:
    """The text with escapes for characters that XML 1.0 cannot hold."""
    return "".join(char if _is_xml(char) else char.encode("unicode_escape").decode() for char in text)


def _is_xml(char: str) -> bool:
    code = ord(char)
    return char in "\t\n\r" or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code >= 0x10000
