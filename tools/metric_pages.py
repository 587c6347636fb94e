"""The pages of metrics, by introspection: arguments that base classes describe are in a docstring only at run time."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.docstrings import constructor, described, markdown, signature, summary
from tools.metric_names import functions_of, metrics_of, task_classes

ROOT = Path(__file__).resolve().parent.parent

CLASSIFICATION = {
    "Classification: ratios of counts": ("accuracy", "ratio_metrics", "stat_scores", "exact_match"),
    "Classification: rankings and curves of scores": (
        "ranking_metrics",
        "curves",
        "operating_points",
        "chosen_points",
        "cost_curve",
        "equal_error",
        "label_ranking",
        "log_auc",
        "threshold_counts",
    ),
    "Classification: confusion matrix and calibration": ("confusion", "calibration"),
    "Classification: probabilities, confidence and prediction sets": (
        "brier",
        "log_loss",
        "hinge_loss",
        "selective",
        "conformal",
    ),
    "Classification: fairness of groups": ("group_fairness",),
}
"""Heading to modules of ``valor_gpu.classification``."""

MASK_FUNCTIONS = ("encode", "decode", "area", "toBbox", "merge", "iou", "frPyObjects")
"""Those of ``valor_gpu.coco.mask``."""

VALOR_DETECTION = "Object detection by Valor's rules"
_ARGUMENTS = "Arguments and errors are described above; lists name those that differ."
_WHICH = "Which of the two kinds to take, and how to use several at once: [detection](../detection.md)."


def groups() -> dict[str, list[tuple[Any, str]]]:
    """Heading to documented classes, each with the module that users import it from."""
    import valor_gpu
    from valor_gpu import (
        classification,
        coco,
        detection,
        inputs,
        nominal,
        regression,
        retrieval,
        segmentation,
        stats,
        text,
    )
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
    listed["Nominal"] = [(kind, nominal.__name__) for kind in metrics_of(nominal)]
    listed["Regression"] = [(kind, regression.__name__) for kind in metrics_of(regression)]
    listed["Retrieval"] = [(kind, retrieval.__name__) for kind in metrics_of(retrieval)]
    listed["Texts compared with references"] = [(kind, text.__name__) for kind in metrics_of(text)]
    listed["pycocotools-compatible API"] = [(kind, coco.__name__) for kind in (coco.COCO, coco.COCOeval)]
    listed["API compatible with lvis-api"] = [
        (kind, coco.__name__) for kind in (coco.LVIS, coco.LVISResults, coco.LVISEval, coco.LVISParams)
    ]
    listed["Masks"] = [(inputs.Masks, inputs.__name__)]
    listed["Base class and results"] = [(kind, "valor_gpu") for kind in (valor_gpu.Metric, valor_gpu.Result)]
    listed["Intervals"] = [(kind, stats.__name__) for kind in (stats.Bootstrap, stats.Interval, stats.Intervals)]
    return listed


def page_name(kind: Any, home: str) -> str:
    """The file of a class, and its anchor in the index; of two classes of one name, that of texts has the plain one."""
    from valor_gpu import text

    shared = hasattr(text, kind.__name__) and home != text.__name__
    return f"{home.rpartition('.')[2]}.{kind.__name__}" if shared else kind.__name__


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

    A metric's own and inherited ones, but for those of ``valor_gpu.Metric``, which has a page of its own; of a result
    those of its data too; of any other class those that it defines itself.
    """
    from valor_gpu import Metric
    from valor_gpu.result_data import ResultData

    bases = list(kind.__mro__)
    owners = (
        bases[: bases.index(Metric)] if Metric in bases[1:] else [kind, *(base for base in bases if base is ResultData)]
    )
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


def other_homes(kind: type, home: str) -> list[str]:
    """Lines that say where else a class can be imported from."""
    from valor_gpu import classification, detection, segmentation, text

    packages = [package for package in (classification, detection, segmentation, text) if package.__name__ != home]
    found = [package.__name__ for package in packages if kind in metrics_of(package)]
    return [f"The same class: `from {package} import {kind.__name__}`" for package in found]


def section(title: str, home: str, found: list[Any], known: set[str]) -> Iterator[str]:
    """A section on classes or functions of a metric, without the entries that the page has above it."""
    if found:
        yield f"## {title}\n\n{_ARGUMENTS}"
    for each in found:
        name, own = each.__name__, constructor(each) if inspect.isclass(each) else each
        yield f"### {name}\n\n`from {home} import {name}`\n\n```python\n{signature(name, own)}\n```"
        yield markdown(each.__doc__ or "", known)
        known |= described(each.__doc__ or "")


def family(kind: type, home: str) -> Iterator[str]:
    """Sections on the classes of one task of a metric, and on the functions that give its value."""
    from valor_gpu import Metric, functional

    if kind is Metric or not issubclass(kind, Metric):
        return
    package = importlib.import_module(home)
    known = described(kind.__doc__ or "")
    yield from section("Classes of one task", home, task_classes(kind, package), known)
    yield from section("Functions", functional.__name__, functions_of(kind, package), known)


def class_page(kind: type, home: str) -> str:
    """The page of one class, which users import from module ``home``."""
    summary_line, _, rest = markdown(kind.__doc__ or "").partition("\n\n")
    formula = formulas().get(page_name(kind, home), "")
    parts = [f"# {kind.__name__}", f"`from {home} import {kind.__name__}`", *other_homes(kind, home)]
    parts += [f"```python\n{signature(kind.__name__, constructor(kind))}\n```"]
    parts += filter(None, [summary_line, formula, rest])
    for name, text, doc in members(kind):
        code = [] if text is None else [f"```python\n{text}\n```"]
        parts += [f"## {name}", *code, markdown(doc)]
    return "\n\n".join([*parts, *family(kind, home)]) + "\n"


def functions_page(title: str, home: str, functions: list[Callable[..., Any]], intro: str = "") -> str:
    """The page of functions, which users import from module ``home``; the docstring ``intro`` comes first."""
    parts = [f"# {title}", *([markdown(intro)] if intro else [])]
    for function in functions:
        name = function.__name__
        parts += [f"## {name}", f"`from {home} import {name}`", f"```python\n{signature(name, function)}\n```"]
        parts.append(markdown(function.__doc__ or ""))
    return "\n\n".join(parts) + "\n"


def functions_pages() -> Iterator[tuple[str, str]]:
    """(name, text) of the pages of functions that no class stands for."""
    from valor_gpu import ops, text
    from valor_gpu.coco import mask

    found = [getattr(text, name) for name in text.__all__ if inspect.isfunction(getattr(text, name))]
    yield "text", functions_page("Functions of text comparison", text.__name__, found)
    found = [getattr(mask, name) for name in MASK_FUNCTIONS]
    yield "mask", functions_page("Run lengths of masks", mask.__name__, found, mask.__doc__ or "")
    found = [
        getattr(ops, name) for name in ops.__all__ if inspect.isfunction(getattr(ops, name)) and name != "backends"
    ]
    yield "ops", functions_page("Functions of boxes, masks and keypoints", ops.__name__, found)


def pages() -> dict[str, str]:
    """Name to text of every page of a metric, a class or a module of functions."""
    classes = [each for kinds in groups().values() for each in kinds]
    return {page_name(kind, home): class_page(kind, home) for kind, home in classes} | dict(functions_pages())


def source(module: str) -> str:
    """The file of a module, as a link of the index."""
    path = Path(module.replace(".", "/"))
    file = path.with_suffix(".py") if (ROOT / path.with_suffix(".py")).is_file() else path / "__init__.py"
    return f"../../{file}"


def entry(anchor: str, title: str, link: str, text: str) -> str:
    """A line of the index."""
    return f'- <a id="{anchor}"></a>[{title}]({link}): {text}'


def index() -> str:
    """docs/metrics/README.md: by task, where each metric is defined."""
    from valor_gpu.text import judged

    parts = ["# Metrics"]
    for heading, kinds in groups().items():
        rows = [entry(page_name(k, home), k.__name__, source(k.__module__), summary(k)) for k, home in kinds]
        if heading == VALOR_DETECTION:
            rows = [_WHICH, "", *rows]
        if heading.startswith("Texts"):
            rows.append(entry("text", "Functions", source("valor_gpu.text"), "the same comparisons of single rows,"
                              " METEOR and the similarity of embeddings, without torch."))  # fmt: skip
        if heading.startswith("pycocotools"):
            rows.append(entry("mask", "mask", source("valor_gpu.compat.pycocotools.mask"), "Run lengths: drop-in for"
                              " `pycocotools.mask`, byte for byte."))  # fmt: skip
        if heading == "Masks":
            rows.append(entry("ops", "Functions", source("valor_gpu.ops"), "similarities of boxes and keypoints,"
                              " boundaries, packed masks, polygons."))  # fmt: skip
        parts += [f"## {heading}", "\n".join(rows)]
        if heading.startswith("Texts"):
            rows = [entry(k.__name__, k.__name__, "../judged.md", summary(k)) for k in judged.METRICS.values()]
            parts += ["## Texts judged by a language model", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"
