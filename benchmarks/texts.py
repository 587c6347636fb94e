"""The benchmark of text comparison: valor_gpu, rouge_score, NLTK and sacreBLEU on the same pairs, in one process.

Each work is timed from texts to scores, and, where the baseline can start from them, from lists of words. A baseline is
timed on the first rows only, as many as it does in about a second, and its numbers there must be ours.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import machine
from testing.hostile_replies import HOSTILE, SIZES

CASES = ("pairs",)
_PACKAGES = ("valor_gpu", "numpy", "rouge-score", "nltk", "sacrebleu")
_ROWS, _QUICK_ROWS, _PEER_SECONDS = 10_000, 300, 1.0
_TOLERANCE = 1e-12
_FLOAT32 = 1e-7  # torchmetrics gives float32 of numbers from 0 to 1

Scores = Sequence[float]


@dataclass(frozen=True)
class Work:
    """One thing to compute.

    Attributes:
        name: shown in the table.
        ours: scores of all rows.
        tool: the baseline.
        theirs: the scores of one row.
        tolerance: by which scores may differ.
    """

    name: str
    ours: Callable[[], Scores]
    tool: str
    theirs: Callable[[int], float]
    tolerance: float = _TOLERANCE


def pairs(rows: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Predictions and references of 20 to 60 words whose frequencies fall like 1 / rank; six words in ten agree."""
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(3000)]
    weights = [1 / (i + 1) for i in range(3000)]
    references = [rng.choices(words, weights, k=rng.randint(20, 60)) for _ in range(rows)]
    predictions = [[word if rng.random() < 0.6 else rng.choice(words) for word in row][1:] for row in references]
    return predictions, references


def works(rows: int, seed: int) -> list[Work]:
    """What is computed; imports the baselines."""
    import sacrebleu
    from nltk.translate.bleu_score import sentence_bleu as nltk_bleu
    from rouge_score import rouge_scorer
    from torchmetrics.functional.text import extended_edit_distance as extended

    from valor_gpu import text
    from valor_gpu.text.tokens import TOKENIZERS

    said, meant = pairs(rows, seed)
    predictions, references = ([" ".join(words) for words in side] for side in (said, meant))
    split = TOKENIZERS["valor"]
    chrf = sacrebleu.CHRF()

    def rouge(kinds: list[str], stem: bool, field: str = "fmeasure") -> tuple[Callable[[], Scores], Any]:
        scorer = rouge_scorer.RougeScorer(kinds, use_stemmer=stem)
        return (
            lambda: getattr(text.rouge_scores(predictions, references, kinds, stem)[kinds[-1]], field),
            lambda i: getattr(scorer.score(references[i], predictions[i])[kinds[-1]], field),
        )

    every = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    found = {name: rouge(kinds, stem) for name, kinds, stem in (
        ("ROUGE-1, 2, L and Lsum", every, False), ("the same of stems", every, True), ("ROUGE-L", ["rougeL"], False),
    )}  # fmt: skip
    return [
        *(Work(f"{name}, from texts", ours, "rouge_score", theirs) for name, (ours, theirs) in found.items()),
        Work("ROUGE-1 and 2, from words", lambda: _ngrams(said, meant), "rouge_score",
             lambda i: _their_ngrams(rouge_scorer, said[i], meant[i])),
        Work("ROUGE-L, from words", lambda: _common(said, meant), "rouge_score",
             lambda i: rouge_scorer._score_lcs(meant[i], said[i]).fmeasure),
        Work("BLEU of sentences, from texts", lambda: text.sentence_bleu(predictions, references), "nltk",
             lambda i: _floored(nltk_bleu([split(references[i])], split(predictions[i])))),
        Work("BLEU of sentences, from words", lambda: _bleu(said, meant), "nltk",
             lambda i: _floored(nltk_bleu([meant[i]], said[i]))),
        Work("chrF of sentences, from texts", lambda: text.chrf_scores(predictions, references), "sacrebleu",
             lambda i: chrf.sentence_score(predictions[i], [references[i]]).score / 100),
        Work("extended edit distance, from texts", lambda: text.extended_edit_distances(predictions, references),
             "torchmetrics", lambda i: float(extended([predictions[i]], [references[i]])), _FLOAT32),
    ]  # fmt: skip


def _floored(value: float) -> float:
    return value if value >= 1e-9 else 0.0


def _word_rows(said: list[list[str]], meant: list[list[str]]) -> Any:
    from valor_gpu.text.tokens import word_rows

    return word_rows((words for pair in zip(said, meant) for words in pair), np.arange(0, 2 * len(said) + 1, 2))


def _ngrams(said: list[list[str]], meant: list[list[str]]) -> Scores:
    from valor_gpu.text.match_counts import ngram_matches
    from valor_gpu.text.rouge import scores_of

    rows = _word_rows(said, meant)
    matches = ngram_matches(rows, 2).matches
    return [scores_of(rows, matches[:, n - 1], n).fmeasure for n in (1, 2)][1]


def _their_ngrams(scorer: Any, said: list[str], meant: list[str]) -> float:
    grams = [[scorer._create_ngrams(words, n) for words in (meant, said)] for n in (1, 2)]
    return float([scorer._score_ngrams(*pair).fmeasure for pair in grams][1])


def _common(said: list[list[str]], meant: list[list[str]]) -> Scores:
    from valor_gpu.text.match_counts import common_lengths
    from valor_gpu.text.rouge import scores_of

    rows = _word_rows(said, meant)
    return scores_of(rows, common_lengths(rows), 1).fmeasure


def _bleu(said: list[list[str]], meant: list[list[str]]) -> Scores:
    from valor_gpu.text.bleu import bleu_of, counts_of

    return bleu_of(counts_of(_word_rows(said, meant), 4), (0.25,) * 4)


def measure(work: Work, rows: int, repeats: int) -> list[dict[str, Any]]:
    """Our row and the baseline's, whose seconds are those of all rows at its speed on the first ones."""
    ours = [_seconds(work.ours) for _ in range(repeats)]
    mine, theirs, start = work.ours(), [], time.perf_counter()
    while len(theirs) < rows and (time.perf_counter() - start < _PEER_SECONDS or not theirs):
        theirs.append(work.theirs(len(theirs)))
    taken = (time.perf_counter() - start) / len(theirs) * rows
    gap = float(np.abs(np.asarray(theirs) - np.asarray(mine)[: len(theirs)]).max())
    status = "ok" if gap <= work.tolerance else f"differs by {gap:.1e}"
    base = {"case": "pairs", "path": work.name, "rows": rows}
    return [
        {**base, "tool": "valor_gpu", "status": status, "seconds": {"median": statistics.median(ours)}},
        {**base, "tool": work.tool, "status": "ok", "seconds": {"median": taken}, "timed_rows": len(theirs)},
    ]


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def hostile_replies() -> list[dict[str, Any]]:
    """Milliseconds to read each kind of reply that is made to take long, at each size."""
    from valor_gpu.judge import ParseError, parse_score

    def read(text: str) -> None:
        with contextlib.suppress(ParseError):
            parse_score(text, 1, 5)

    return [
        {"reply": kind, "characters": size, "milliseconds": 1000 * _seconds(functools.partial(read, make(size)))}
        for kind, make in HOSTILE.items()
        for size in SIZES
    ]


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All works, as the JSON that is stored."""
    rows = _QUICK_ROWS if arguments.quick else _ROWS
    found: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NLTK warns of sentences without a 4-gram in common
        for work in works(rows, arguments.seed):
            print(f"  {work.name}", file=sys.stderr, flush=True)
            found += measure(work, rows, arguments.repeats)
    about = machine.describe(_PACKAGES)
    measured = {"rows": found, "replies": hostile_replies()}
    return {"kind": "text", **about, "quick": arguments.quick, "repeats": arguments.repeats, **measured}


def report(results: list[dict[str, Any]]) -> str:
    """The newest result as a Markdown table and how it was measured."""
    result = results[-1]
    lines = [f"| {result['rows'][0]['rows']:,} pairs of 20 to 60 words | valor_gpu | baseline |", "| --- | --- | --- |"]
    for ours, theirs in zip(result["rows"][::2], result["rows"][1::2]):
        mine, other = (row["seconds"]["median"] for row in (ours, theirs))
        own = f"**{mine:.3f} s**" if ours["status"] == "ok" else ours["status"]
        lines.append(f"| {ours['path']} | {own} | {theirs['tool']}: {other:.3g} s ({other / mine:.0f}x) |")
    for size in SIZES if "replies" in result else ():
        slowest = max((row["milliseconds"], row["reply"]) for row in result["replies"] if row["characters"] == size)
        name = f"the slowest hostile reply of a judge of {size:,} characters ({slowest[1]})"
        lines.append(f"| {name} | **{slowest[0]:.0f} ms** | |")
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if v and k != "valor_gpu")
    single = (
        f", those of torchmetrics to {_FLOAT32}" if any(r["tool"] == "torchmetrics" for r in result["rows"]) else ""
    )
    about = (
        f"One process, {result['machine']['cpus']} CPUs, {result['machine']['processor']}, Python"
        f" {result['machine']['python']}; medians of {result['repeats']} runs of ours; baselines, one thread, at the"
        f" speed of their first rows, whose scores are ours to 1e-12{single}. {versions}. Commit"
        f" {result['commit'][:10]}, {result['date'][:10]}."
    )
    return "\n".join(lines) + "\n\n" + about
