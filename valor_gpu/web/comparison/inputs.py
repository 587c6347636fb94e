"""Whether the joined rows of two runs ask the same, where their data differ: keys alone do not say it."""

from __future__ import annotations

import hashlib

from valor_gpu.evaluation.report.rows import whole_text
from valor_gpu.evaluation.results.joined_rows import Side
from valor_gpu.evaluation.results.run_pairs import RunPair
from valor_gpu.evaluation.rows.fields import CONTEXT, GROUND_TRUTH, MESSAGES, QUESTION
from valor_gpu.store import StoredRow
from valor_gpu.store.columns import Columns

_FIELDS = (QUESTION, CONTEXT, GROUND_TRUTH, MESSAGES)


def asked_otherwise(pair: RunPair) -> str:
    """Returns how many joined rows have another question, context or ground truth in the run; empty for none.

    Rows are read where the hashes of the data differ alone.

    Args:
        pair: of a run and its baseline.
    """
    run, baseline = pair.sides
    if (run.run.config.get("data") or {}).get("hash") == (baseline.run.config.get("data") or {}).get("hash"):
        return ""
    differ = sum(one != two for one, two in zip(_asked(run), _asked(baseline)))
    return f"{differ:,} of {len(run.questions):,} joined rows ask something else" if differ else ""


def _asked(side: Side) -> list[bytes]:
    """A hash of what each joined row asks, of its first epoch."""
    mapping = side.run.config.get("data_mapping") or {}
    places = {(question - 1) * side.epochs + 1: place for place, question in enumerate(side.questions.tolist())}
    found = [b""] * len(places)
    for row in Columns(side.run).rows(inputs=True):
        if row.number in places:
            kept = StoredRow(row.number, row.key, row.inputs)
            texts = "\0".join(whole_text(kept, field, mapping) for field in _FIELDS)
            digest = hashlib.blake2b(texts.encode(errors="surrogatepass"), digest_size=8).digest()
            found[places[row.number]] = digest
    return found
