"""Links of Markdown files lead to files and to headings, as GitHub names them."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.checkout import ROOT

FOLDERS = ("docs", "examples", "csrc", "tests", "benchmarks", "tools")
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```[^\S\n]*$", re.MULTILINE | re.DOTALL)


def pages(root: Path) -> list[Path]:
    """The Markdown files that are in git."""
    return sorted([*root.glob("*.md"), *(page for folder in FOLDERS for page in (root / folder).rglob("*.md"))])


def anchors(text: str) -> set[str]:
    """The anchors of a page on GitHub: of its headings, the second of one name with ``-1``, and those set by hand."""
    text = FENCE.sub("", text)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)">', text))
    times: Counter[str] = Counter()
    for heading in re.findall(r"^#{1,6} (.+?)(?: #+)?$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{times[slug]}" if times[slug] else slug)
        times[slug] += 1
    return found


def lost(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for match in LINK.finditer(FENCE.sub("", page.read_text())):
        target = Path(os.path.normpath(page.parent / match[1])) if match[1] else page
        anchor = (match[2] or "")[1:]
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
            found.append(f"{match[1]}{match[2] or ''}")
    return found


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert lost(page) == []


def test_anchors_are_those_of_github() -> None:
    text = '# A `b-c` (d)\n## Why\n## Why\n### [x_y](z.md): 1 + 1\n```\n# no\n```\n- <a id="mAP"></a>[mAP](a.py)\n'
    assert anchors(text) == {"a-b-c-d", "why", "why-1", "x_y-1--1", "mAP"}


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("b.md", False), ("b.md#one", False), ("b.md#One", True), ("b.md#Two", False), ("b.md#two", True),
        ("c.md", True), ("#here", False), ("#there", True), ("sub/../b.md#one", False), ("https://c.md#x", False),
        ("b.txt#L3", False),
    ],
)  # fmt: skip
def test_a_link_without_its_end_is_found(link: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text('# One\n\n<a id="Two"></a>\n')
    (tmp_path / "b.txt").write_text("")
    page = tmp_path / "a.md"
    page.write_text(f"# Here\n\nSee [this]({link}).\n\n```python\n[x](nowhere.md)\n```\n")
    assert lost(page) == ([link] if found else [])
