"""What mkdocs does for this project's site (``make docs``): the navigation, and files that lie outside docs/.

Written as hooks of mkdocs, which calls the functions ``on_*`` by name. Nothing here imports mkdocs before it is called,
so that tests read the navigation without it. docs/metrics has an index alone in git; the pages that it stands for are
made by tools/make_docs.py in build/pages, with torch, which mkdocs does without.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the root that are pages of the site too."""
MADE = ROOT / "build/pages"
"""Where ``make docs`` writes the pages of metrics."""
INDEX = "metrics/README.md"

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```[^\S\n]*$)", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"\A(?:<!--.*?-->\s*)+", re.DOTALL)
_ENTRY = re.compile(r'^- <a id="([\w.]+)"></a>\[(\w+)\]\(([^)#\s]+)\)', re.MULTILINE)


class Entry(NamedTuple):
    """A line of the index of metrics."""

    heading: str
    anchor: str
    title: str
    page: str | None
    """Page of the site; None for a metric that a page of docs/ is about."""


def title(page: Path) -> str:
    """The first heading of a page, without marks."""
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return found[1].replace("`", "") if found else page.stem


def index_entries(docs: Path) -> list[Entry]:
    """The lines of docs/metrics/README.md. In git an entry leads to the source, which is what its page is made from."""
    found = []
    for part in re.split(r"^## ", (docs / INDEX).read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        for anchor, name, link in _ENTRY.findall(body):
            page = f"metrics/{anchor}.md" if link.startswith("../../") else None
            found.append(Entry(heading, anchor, name, page))
    return found


@functools.cache
def pages_by_anchor() -> dict[str, str]:
    """Anchors of the index of this checkout to pages of the site."""
    return {entry.anchor: entry.page for entry in index_entries(ROOT / "docs") if entry.page}


def metric_pages(docs: Path) -> list[Any]:
    """The index of metrics, and their pages under its headings."""
    found: dict[str, list[dict[str, str]]] = {}
    for entry in index_entries(docs):
        if entry.page:
            found.setdefault(entry.heading, []).append({entry.title: entry.page})
    return [INDEX, *({heading: pages} for heading, pages in found.items())]


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


def place(target: Path, anchor: str = "") -> tuple[str | None, str]:
    """Where a file of the checkout and an anchor of it lie in the site; None for a folder and for what is not there."""
    if str(target) == f"docs/{INDEX}" and anchor[1:] in pages_by_anchor():
        return pages_by_anchor()[anchor[1:]], ""
    if target.parts[0] == "docs":
        return str(target.relative_to("docs")), anchor
    if str(target) in OUTSIDE:
        return str(target), anchor
    return f"source/{target}" if (ROOT / target).is_file() and ".." not in target.parts else None, anchor


def with_links_of_the_site(text: str, page: str, own: str) -> str:
    """The links of a page, which are right in the checkout, as they are in the site; ``own`` is the page's place there.

    A link to a folder, which the site does not have, becomes its text.
    """

    def moved(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(Path(page).parent / match[2]))
        there, anchor = place(target, match[3] or "")
        if there is None:  # what is nowhere stays, for mkdocs to complain of
            return match[1] if (ROOT / target).exists() else match[0]
        return f"[{match[1]}]({os.path.relpath(there, Path(own).parent)}{anchor})"

    if own == INDEX:
        text = _ENTRY.sub(with_page, text)
    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def with_page(match: re.Match[str]) -> str:
    """An entry of the index, which leads to its page where the site has it."""
    page = pages_by_anchor().get(match[1])
    return match[0].replace(f"({match[3]})", f"({Path(page).name})") if page else match[0]


def on_config(config: Any) -> Any:
    """Completes the navigation; headings get the anchors that they have on GitHub."""
    from pymdownx.slugs import slugify

    config.nav = expanded(config.nav, Path(config.docs_dir))
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def made_pages(folder: Path) -> dict[str, Path]:
    """Page of the site to the file of it that tools/make_docs.py made.

    Raises:
        FileNotFoundError: there is none of a page that the index has.
    """
    found = {page: folder / page for page in pages_by_anchor().values()}
    if lost := [str(path) for path in found.values() if not path.is_file()]:
        raise FileNotFoundError(f"{lost[0]} must be there but is not, and {len(lost) - 1} others: run make docs")
    return found


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of metrics and of the root, and the files outside docs/ that pages link to."""
    from mkdocs.structure.files import File

    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for name, path in made_pages(MADE).items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name in OUTSIDE:
        texts[name] = (ROOT / name).read_text()
        files.append(File.generated(config, name, content=texts[name]))
    del texts[f"docs/{INDEX}"]  # its links to sources become links to pages
    targets = {target for page, text in texts.items() for _, target, _ in linked(text, page)}
    for target in sorted(targets):
        there, _ = place(target)
        if there is not None and there.startswith("source/"):
            files.append(File.generated(config, there, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Drops the note on where a made page comes from, which would hide its title, and mends links out of docs/."""
    own = page.file.src_uri
    return with_links_of_the_site(_NOTE.sub("", markdown), own if own in OUTSIDE else f"docs/{own}", own)


def unseen(html: str, markdown: str, names: dict[str, list[str]]) -> list[str]:
    """The names of modules that the page of these modules does not show."""
    modules = re.findall(r"^::: (\S+)", markdown, re.MULTILINE)
    return [f"{module}.{name}" for module in modules for name in names[module] if f'id="{module}.{name}"' not in html]


def on_page_content(html: str, page: Any, **_: Any) -> None:
    """Warns of public names that a page of docs/api lacks, which ends a strict build."""
    if page.file.src_uri.startswith("api/"):
        names = json.loads((MADE / "modules.json").read_text())["names"]
        for name in unseen(html, page.markdown, names):
            logging.getLogger("mkdocs.hooks").warning("%s is public but not on %s", name, page.file.src_uri)


def requirements(project: str) -> list[str]:
    """Those of the extra ``docs`` in the text of pyproject.toml."""
    listed = re.search(r"^docs = \[(.*?)\]", project, re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed[1]) if listed else []


if __name__ == "__main__":
    print("\n".join(requirements((ROOT / "pyproject.toml").read_text())))
    sys.exit(0)
