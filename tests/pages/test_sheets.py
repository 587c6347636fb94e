"""Colours can be read by people who see little contrast, and pages need nothing from outside."""

from __future__ import annotations

import re

import pytest

from valor_gpu.errors import InputError
from valor_gpu.pages import SHEETS, stylesheet

GROUNDS = ("bg", "surface", "sunken", "band")
TEXTS = [(text, ground, 4.5) for text in ("ink", "ink-2", "ink-3", "accent", "ok", "bad", "warn") for ground in GROUNDS]
SOFT = [("ink", f"{name}-soft", 4.5) for name in ("bad", "warn", "accent")]
SOFT += [
    ("bad", "bad-soft", 4.5),
    ("warn", "warn-soft", 4.5),
    ("accent", "accent-soft", 4.5),
    ("ink-2", "bad-soft", 4.5),
]
ON = [("on-accent", "accent", 4.5), ("on-sev-0", "sev-0", 4.5), ("on-sev-0", "sev-1", 4.5)]
ON += [("on-sev-2", "sev-2", 4.5), ("on-sev-2", "sev-3", 4.5)]
MARKS = [(mark, "surface", 3.0) for mark in ("edge", "mark", "sev-2", "sev-3")]
MARKS += [("edge", "bg", 3.0), ("edge", "sunken", 3.0)]


def themes() -> dict[str, dict[str, str]]:
    """The colours of the light and of the dark set."""
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in tokens())
    return {"light": light, "dark": light | dark}


def tokens() -> list[str]:
    return re.findall(r":root \{(.*?)\}", stylesheet("tokens"), re.DOTALL)


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula_of_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)  # the usual example of too little


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_a_contrast_of_4_5_and_marks_of_3(theme: str) -> None:
    colours = themes()[theme]
    pairs = TEXTS + SOFT + ON + MARKS
    assert len(pairs) == 46
    low = {
        (a, b): round(contrast(colours[a], colours[b]), 2)
        for a, b, least in pairs
        if contrast(colours[a], colours[b]) < least
    }
    assert low == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_severities_are_ordered_by_lightness_alone(theme: str) -> None:
    levels = [luminance(themes()[theme][f"sev-{level}"]) for level in range(4)]
    assert levels == sorted(levels, reverse=theme == "light")


def test_both_sets_name_the_same_colours() -> None:
    light, dark = (set(re.findall(r"--([\w-]+): #", block)) for block in tokens())
    assert light == dark and len(light) == 25


def test_every_token_that_a_sheet_uses_is_there() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", stylesheet()))
    assert used <= set(re.findall(r"--([\w-]+):", stylesheet("tokens")))


def test_sheets_name_no_address_and_import_nothing() -> None:
    assert re.findall(r"url\(|@import|https?:|//|<", stylesheet()) == []
    assert stylesheet() == "".join(stylesheet(name) for name in SHEETS)


def test_an_unknown_sheet_is_an_error() -> None:
    with pytest.raises(InputError, match="name must be one of 'tokens', 'base', 'charts' but got 'colours'"):
        stylesheet("tokens", "colours")
