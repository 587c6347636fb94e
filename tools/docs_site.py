"""What mkdocs does for this project's site (``make docs``): the navigation, and files that lie outside docs/.

Written as hooks of mkdocs, which calls the functions ``on_*`` by name. Nothing here imports mkdocs before it is called,
so that tests read the navigation without it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the root that are pages of the site too."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```[^\S\n]*$)", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"\A(?:<!--.*?-->\s*)+", re.DOTALL)


def title(page: Path) -> str:
    """The first heading of a page, without marks."""
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return found[1].replace("`", "") if found else page.stem


def metric_pages(docs: Path) -> list[Any]:
    """The pages of docs/metrics under the headings of their index, which tools/make_docs.py writes."""
    sections: list[Any] = ["metrics/README.md"]
    for part in re.split(r"^## ", (docs / "metrics/README.md").read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        names = re.findall(r"^- \[(\w+)\]\(([\w.]+\.md)\)", body, re.MULTILINE)
        if names:
            sections.append({heading: [{name: f"metrics/{page}"} for name, page in names]})
    return sections


def folder_pages(docs: Path, folder: str) -> list[Any]:
    """Every page of a folder by its title, in the order of the names of the files."""
    return [{title(page): str(page.relative_to(docs))} for page in sorted((docs / folder).glob("*.md"))]


def expanded(entries: list[Any], docs: Path) -> list[Any]:
    """The navigation of mkdocs.yml with the pages of the folders that it names."""
    out: list[Any] = []
    for entry in entries:
        name, value = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        if isinstance(value, list):
            value = expanded(value, docs)
        elif value == "metrics/":
            value = metric_pages(docs)
        elif value.endswith("/"):
            value = folder_pages(docs, value)
        out.append({name: value} if name else value)
    return out


def pages_of(navigation: Any) -> Iterator[str]:
    """The pages that a navigation names."""
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_of(entry)


def linked(text: str, page: str) -> Iterator[tuple[str, Path, str]]:
    """(link as written, file below the root that it names, anchor) of a page whose path is relative to the root."""
    for match in _LINK.finditer(text):
        yield match[0], Path(os.path.normpath(Path(page).parent / match[2])), match[3] or ""


def place(target: Path) -> str | None:
    """Where a file of the checkout lies in the site; None for a folder and for what is not there."""
    if target.parts[0] == "docs":
        return str(target.relative_to("docs"))
    if str(target) in OUTSIDE:
        return str(target)
    return f"source/{target}" if (ROOT / target).is_file() and ".." not in target.parts else None


def with_links_of_the_site(text: str, page: str, own: str) -> str:
    """The links of a page, which are right in the checkout, as they are in the site; ``own`` is the page's place there.

    A link to a folder, which the site does not have, becomes its text.
    """

    def moved(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(Path(page).parent / match[2]))
        there = place(target)
        if there is None:
            return (
                match[1] if (ROOT / target).exists() else match[0]
            )  # what is nowhere stays, for mkdocs to complain of
        return f"[{match[1]}]({os.path.relpath(there, Path(own).parent)}{match[3] or ''})"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def on_config(config: Any) -> Any:
    """Completes the navigation; headings get the anchors that they have on GitHub."""
    from pymdownx.slugs import slugify

    config.nav = expanded(config.nav, Path(config.docs_dir))
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of the root, and the files outside docs/ that pages link to."""
    from mkdocs.structure.files import File

    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for name in OUTSIDE:
        texts[name] = (ROOT / name).read_text()
        files.append(File.generated(config, name, content=texts[name]))
    targets = {target for page, text in texts.items() for _, target, _ in linked(text, page)}
    for target in sorted(targets):
        there = place(target)
        if there is not None and there.startswith("source/"):
            files.append(File.generated(config, there, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Drops the note on where a made page comes from, which would hide its title, and mends links out of docs/."""
    own = page.file.src_uri
    return with_links_of_the_site(_NOTE.sub("", markdown), own if own in OUTSIDE else f"docs/{own}", own)


def requirements(project: str) -> list[str]:
    """Those of the extra ``docs`` in the text of pyproject.toml."""
    listed = re.search(r"^docs = \[(.*?)\]", project, re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed[1]) if listed else []


if __name__ == "__main__":
    print("\n".join(requirements((ROOT / "pyproject.toml").read_text())))
    sys.exit(0)
