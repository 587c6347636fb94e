"""Which runs of a store a page is about, and which metrics they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short_name
from valor_gpu.store.edits import MOST_TAGS
from valor_gpu.store.heads import DAMAGED
from valor_gpu.web.book import Entry
from valor_gpu.web.routes import Ask
from valor_gpu.web.runs.tags import shown_tags


def metrics_by_use(entries: Sequence[Entry]) -> list[str]:
    """Returns names of metrics, those of the most runs first, and equally used ones as the page of a run has them."""
    used = Counter(name for each in entries for name in each.metrics)
    places: dict[str, int] = {}
    for each in entries:
        places.update(each.places)
    return sorted(used, key=lambda name: (-used[name], places.get(name, len(places))))


def names_in_words(entries: Sequence[Entry], metrics: Sequence[str]) -> dict[str, str]:
    """Returns metrics of runs as readers know them: ``mean_f1_score`` is the mean of f1_score.

    Args:
        entries: all runs.
        metrics: names as of :func:`metrics_by_use`.
    """
    known = {str(each["name"]) for entry in entries for each in entry.config.get("evaluators") or ()}
    return {name: metric_words(name, known) for name in metrics}


def metric_words(metric: str, evaluators: Container[str]) -> str:
    """Returns the name of a run's number in words.

    Args:
        metric: as summaries have it.
        evaluators: names; what is no number of theirs, such as those of saved results, stays as it is.

    Example:
        >>> known = {"f1_score", "violence", "mine"}
        >>> [metric_words(f"mean_{name}", known) for name in ("f1_score", "mine.words", "iou")]
        ['mean of f1_score', 'mean of mine.words', 'mean_iou']
        >>> metric_words("violence_defect_rate", known), metric_words("pass_rate", known)
        ('defect rate of violence', 'pass rate')
    """
    if metric in ("pass_rate", "jailbreak_defect_rate"):
        return metric.replace("_", " ")
    for words, name in (
        ("mean", metric.removeprefix("mean_")),
        ("pass rate", metric.removesuffix("_pass_rate")),
        ("defect rate", metric.removesuffix("_defect_rate")),
    ):
        if name != metric and (any(each in evaluators for each in _with_parents(name))):
            return f"{words} of {short_name(name)}"
    return short_name(metric)


def head_of(metric: str, words: str) -> str:
    """Returns the words of a metric with a capital letter; a name stays as it is.

    Args:
        metric: as summaries have it.
        words: of :func:`metric_words`.

    Example:
        >>> head_of("mean_f1_score", "mean of f1_score"), head_of("mean_iou", "mean_iou")
        ('Mean of f1_score', 'mean_iou')
    """
    return words if words == short_name(metric) else words[:1].upper() + words[1:]


def _with_parents(name: str) -> list[str]:
    """A name, and the evaluators that it may be a part of."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]


def filtered_runs(entries: Sequence[Entry], ask: Ask) -> list[Entry]:
    """Returns the runs that the address asks for: words, kind, status, data, a tag, least number of a metric.

    A run that cannot be read may be one of them: it is left out by its status alone.

    Raises:
        InputError: the least number is none.
    """
    query = ask.query
    words = query.get("q", "").casefold().split()
    least = _number(query.get("least", ""))
    tests: list[Callable[[Entry], bool]] = []
    if words:
        tests.append(lambda each: all(word in _words(each) for word in words))
    if kind := query.get("kind"):
        tests.append(lambda each: each.kind == kind)
    if status := query.get("status"):
        tests.append(lambda each: each.head.state == status)
    if data := query.get("data"):
        tests.append(lambda each: each.data == data)
    if tag := query.get("tag"):
        tests.append(lambda each: tag in shown_tags(each.tags, MOST_TAGS))
    if least is not None and (metric := query.get("metric")):
        tests.append(lambda each: (found := each.metrics.get(metric)) is not None and found >= least)
    damaged = query.get("status") in (None, "", DAMAGED)
    return [each for each in entries if (damaged if each.is_lost else all(test(each) for test in tests))]


def _words(entry: Entry) -> str:
    return f"{entry.head.name} {entry.head.id} {entry.about} {entry.data} {entry.tags} {entry.head.note}".casefold()


def _number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"“at least” must be a number but is {text!r}") from None
