"""Writes the pages of docs/ that are made from docstrings and from the command line.

Usage: python tools/make_docs.py [--check]. With --check it writes nothing and fails when a page is not up to date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is documented, whatever is installed

NOTE = "<!-- Made by tools/make_docs.py from {source}: change that, then run it. -->"
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
_ENTRY = re.compile(r"^    (\w[\w.]*): (.*)$")


def plain(text: str) -> str:
    """Marks of a docstring (reStructuredText) as Markdown."""
    text = re.sub(r":(?:class|func|meth|mod|attr):`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")


def sections(doc: str) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of every section of a Google docstring; the name of what comes first is empty."""
    name: str = ""
    lines: list[str] = []
    for line in doc.splitlines():
        heading = _SECTION.match(line)
        if heading:
            yield name, lines
            name, lines = heading[1], []
        else:
            lines.append(line)
    yield name, lines


def entries(lines: list[str]) -> list[str]:
    """``name: text`` entries as a list, other text as it is."""
    out: list[str] = []
    for line in lines:
        entry = _ENTRY.match(line)
        out.append(f"- `{entry[1]}`: {entry[2]}" if entry else "  " + line.strip() if out else line.strip())
    return [plain(line) for line in out]


def markdown(doc: str) -> str:
    """A Google docstring as Markdown."""
    parts = []
    for name, lines in sections(inspect.cleandoc(doc)):
        body = "\n".join(lines).strip("\n")
        if name.startswith("Example"):
            body = f"```python\n{inspect.cleandoc(body)}\n```"
        elif name:
            body = "\n".join(entries(body.splitlines()))
        else:
            body = plain(body)
        if body.strip():
            parts.append(f"**{name}**\n\n{body}" if name else body)
    return "\n\n".join(parts)


def parameter(p: inspect.Parameter) -> str:
    """One parameter as it is written."""
    stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
    text = f"{stars}{p.name}" + (f": {p.annotation}" if p.annotation is not p.empty else "")
    if p.default is p.empty:
        return text
    default = "..." if "factory" in repr(p.default) else getattr(p.default, "__name__", repr(p.default))
    return f"{text} = {default}"


def signature(name: str, function: Callable[..., Any]) -> str:
    """One line, or a line for each parameter when there are many."""
    declared = inspect.signature(function)
    parameters = [p for p in declared.parameters.values() if p.name != "self"]
    parts = [parameter(p) for p in parameters]
    first = next((n for n, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    if first is not None and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        parts.insert(first, "*")
    end = "" if declared.return_annotation in (declared.empty, "None", None) else f" -> {declared.return_annotation}"
    short = f"{name}({', '.join(parts)}){end}"
    return short if len(short) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def formulas() -> dict[str, str]:
    """Name of a page to the formula of tools/formulas.txt, as GitHub and the site read it, with its symbols."""
    found = {}
    for part in (ROOT / "tools/formulas.txt").read_text().split("\n\n")[1:]:
        names, *lines = part.strip().splitlines()
        latex = [re.sub(r"\\(tp|fp|fn|tn)\b", r"\\mathrm{\1}", line) for line in lines if not line.startswith(": ")]
        symbols = [line[2:] for line in lines if line.startswith(": ")]
        text = "\n\n".join(["\n".join(["$$", *latex, "$$"]), *symbols])
        found.update(dict.fromkeys(names.split(", "), text))
    return found


def members(kind: type) -> Iterator[tuple[str, str | None, str]]:
    """(name, signature or None for a property, docstring) of the public members of a class.

    A metric's own and inherited ones, but for those of ``valor_gpu.Metric``, which has a page of its own; of any other
    class those that it defines itself.
    """
    from valor_gpu import Metric

    bases = list(kind.__mro__)
    owners = bases[: bases.index(Metric)] if Metric in bases[1:] else [kind]
    values = {name: value for owner in reversed(owners) for name, value in vars(owner).items()}
    for name, value in values.items():
        if name.startswith("_") or not getattr(value, "__doc__", None):
            continue
        if isinstance(value, property):
            yield name, None, value.__doc__ or ""
        elif isinstance(value, classmethod):
            yield name, signature(f"{kind.__name__}.{name}", getattr(kind, name)), value.__doc__ or ""
        elif inspect.isfunction(value):
            yield name, signature(name, value), value.__doc__ or ""


def class_page(kind: type, home: str) -> str:
    """The page of one class, which users import from module ``home``."""
    source = f"the docstrings of {kind.__module__}"
    own: Any = kind if "__signature__" in vars(kind) else kind.__init__  # type: ignore[misc]
    constructor = signature(kind.__name__, own)
    parts = [NOTE.format(source=source), f"# {kind.__name__}", f"`from {home} import {kind.__name__}`"]
    summary_line, _, rest = markdown(kind.__doc__ or "").partition("\n\n")
    formula = formulas().get(page_name(kind, home), "")
    parts += [f"```python\n{constructor}\n```", *filter(None, [summary_line, formula, rest])]
    for name, text, doc in members(kind):
        code = [] if text is None else [f"```python\n{text}\n```"]
        parts += [f"## {name}", *code, markdown(doc)]
    return "\n\n".join(parts) + "\n"


def functions_page(title: str, home: str, functions: list[Callable[..., Any]], intro: str = "") -> str:
    """The page of functions, which users import from module ``home``; the docstring ``intro`` comes first."""
    parts = [NOTE.format(source=f"the docstrings of {home}"), f"# {title}", *([markdown(intro)] if intro else [])]
    for function in functions:
        name = function.__name__
        parts += [f"## {name}", f"`from {home} import {name}`", f"```python\n{signature(name, function)}\n```"]
        parts.append(markdown(function.__doc__ or ""))
    return "\n\n".join(parts) + "\n"


def option_line(action: argparse.Action) -> str:
    """One option of the command line."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    takes = [] if action.nargs == 0 else [str(action.metavar or choices)]
    needed = " (required)" if action.required else ""
    names = [", ".join(action.option_strings)] if action.option_strings else []
    return f"| `{' '.join([*names, *takes])}` | {action.help}{needed} |"


def command_parts(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    """A section on a command, or one on each of its own commands."""
    yield f"## {name}\n\n{command.description}"
    nested = [a for a in command._actions if isinstance(a, argparse._SubParsersAction)]
    for each in nested:
        for inner, parser in each.choices.items():
            yield from command_parts(f"{name} {inner}", parser)
    shown = [a for a in command._actions if not isinstance(a, (argparse._HelpAction, argparse._SubParsersAction))]
    if shown:
        yield "\n".join(["| option | |", "| --- | --- |", *map(option_line, shown)])


def cli_page() -> str:
    """docs/cli.md."""
    from valor_gpu import cli

    whole = cli.parser()
    commands = next(a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    status = inspect.cleandoc(cli.__doc__ or "").split("\n\n")[1]
    parts = [NOTE.format(source="valor_gpu/cli"), "# The command `valor-gpu`", plain(status)]
    for name, command in commands.choices.items():
        parts += command_parts(f"valor-gpu {name}", command)
    return "\n\n".join(parts) + "\n"


CLASSIFICATION = {
    "Classification: ratios of counts": ("accuracy", "ratio_metrics", "stat_scores", "exact_match"),
    "Classification: rankings and curves of scores": (
        "ranking_metrics",
        "curves",
        "operating_points",
        "equal_error",
        "label_ranking",
        "threshold_counts",
    ),
    "Classification: confusion matrix and calibration": ("confusion", "calibration"),
}
"""Heading to modules of ``valor_gpu.classification``."""


MASK_FUNCTIONS = ("encode", "decode", "area", "toBbox", "merge", "iou", "frPyObjects")
"""Those of ``valor_gpu.coco.mask``."""


VALOR_DETECTION = "Object detection by Valor's rules"
_WHICH = "Which of the two kinds to take, and how to use several at once: [detection](../detection.md)."


def metrics_of(package: Any) -> list[type]:
    """The public metrics of a package, each once; without torchmetrics' names of one task, which add only arguments."""
    import valor_gpu
    from valor_gpu.classification import task_names

    public = [getattr(package, name) for name in package.__all__ if name not in task_names.MADE]
    kinds = [kind for kind in public if inspect.isclass(kind) and issubclass(kind, valor_gpu.Metric)]
    return list(dict.fromkeys(kinds))


def groups() -> dict[str, list[tuple[Any, str]]]:
    """Heading to documented classes, each with the module that users import it from."""
    import valor_gpu
    from valor_gpu import classification, coco, detection, inputs, segmentation, stats, text
    from valor_gpu.detection.overlap_metric import OverlapMetric

    found = [kind for kind in metrics_of(detection) if kind not in metrics_of(segmentation)]
    valor = [kind for kind in found if issubclass(kind, OverlapMetric)]
    listed = {"Object detection": [(kind, detection.__name__) for kind in found if kind not in valor]}
    listed[VALOR_DETECTION] = [(kind, detection.__name__) for kind in valor]
    listed["Segmentation"] = [(kind, segmentation.__name__) for kind in metrics_of(segmentation)]
    for heading, modules in CLASSIFICATION.items():
        homes = [f"{classification.__name__}.{module}" for module in modules]
        kinds = [kind for kind in metrics_of(classification) if kind.__module__ in homes]
        listed[heading] = [(kind, classification.__name__) for kind in kinds]
    listed["Texts compared with references"] = [(kind, text.__name__) for kind in metrics_of(text)]
    listed["pycocotools-compatible API"] = [(kind, coco.__name__) for kind in (coco.COCO, coco.COCOeval)]
    listed["API compatible with lvis-api"] = [
        (kind, coco.__name__) for kind in (coco.LVIS, coco.LVISResults, coco.LVISEval, coco.LVISParams)
    ]
    listed["Masks"] = [(inputs.Masks, inputs.__name__)]
    listed["Base class and results"] = [(kind, "valor_gpu") for kind in (valor_gpu.Metric, valor_gpu.Result)]
    listed["Intervals"] = [(kind, stats.__name__) for kind in (stats.Bootstrap, stats.Interval, stats.Intervals)]
    return listed


def summary(kind: Any) -> str:
    """The first line of a docstring."""
    return plain((kind.__doc__ or "").splitlines()[0])


def page_name(kind: Any, home: str) -> str:
    """The file of a class; of two classes of one name, that of texts has the plain one."""
    from valor_gpu import text

    shared = hasattr(text, kind.__name__) and home != text.__name__
    return f"{home.rpartition('.')[2]}.{kind.__name__}" if shared else kind.__name__


def index(documented: dict[str, list[tuple[Any, str]]]) -> str:
    """docs/metrics/README.md: what there is, by task."""
    from valor_gpu.text import judged

    parts = [NOTE.format(source="docstrings"), "# Metrics"]
    for heading, kinds in documented.items():
        rows = [f"- [{kind.__name__}]({page_name(kind, home)}.md): {summary(kind)}" for kind, home in kinds]
        if heading == VALOR_DETECTION:
            rows = [_WHICH, "", *rows]
        if heading.startswith("Texts"):
            rows.append("- [Functions](text.md): the same comparisons of single rows, METEOR and the similarity of"
                        " embeddings, without torch.")  # fmt: skip
        if heading.startswith("pycocotools"):
            rows.append("- [mask](mask.md): Run lengths: drop-in for `pycocotools.mask`, byte for byte.")
        if heading == "Masks":
            rows.append(
                "- [Functions](ops.md): similarities of boxes and keypoints, boundaries, packed masks, polygons."
            )
        parts += [f"## {heading}", "\n".join(rows)]
        if heading.startswith("Texts"):
            rows = [f"- [{kind.__name__}](../judged.md): {summary(kind)}" for kind in judged.METRICS.values()]
            parts += ["## Texts judged by a language model", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """Path below the checkout to content, for every page that is made."""
    from tools import protocols_page
    from valor_gpu import ops, text
    from valor_gpu.coco import mask

    documented = groups()
    made = {f"docs/metrics/{page_name(kind, home)}.md": class_page(kind, home)
            for kinds in documented.values() for kind, home in kinds}  # fmt: skip
    functions = [getattr(text, name) for name in text.__all__ if inspect.isfunction(getattr(text, name))]
    made["docs/metrics/text.md"] = functions_page("Functions of text comparison", "valor_gpu.text", functions)
    functions = [getattr(mask, name) for name in MASK_FUNCTIONS]
    made["docs/metrics/mask.md"] = functions_page(
        "Run lengths of masks", "valor_gpu.coco.mask", functions, mask.__doc__ or ""
    )
    functions = [
        getattr(ops, name) for name in ops.__all__ if inspect.isfunction(getattr(ops, name)) and name != "backends"
    ]
    made["docs/metrics/ops.md"] = functions_page("Functions of boxes, masks and keypoints", "valor_gpu.ops", functions)
    made["docs/metrics/README.md"] = index(documented)
    made["docs/cli.md"] = cli_page()
    made["docs/protocols.md"] = protocols_page.page()
    return made


def stale(root: Path) -> list[str]:
    """Pages that are not up to date, and files beside them that nothing makes."""
    made = pages()
    left = {str(path.relative_to(root)) for path in (root / "docs/metrics").glob("*")} - set(made)
    return sorted(left) + [
        name for name, text in made.items() if not (root / name).exists() or (root / name).read_text() != text
    ]


def main() -> int:
    """Write the pages, or check them."""
    if "--check" in sys.argv[1:]:
        old = stale(ROOT)
        print("\n".join(f"{name} is not up to date: run tools/make_docs.py" for name in old) or "docs are up to date")
        return 1 if old else 0
    for name, text in pages().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
