"""Readers of judgements and of ranked documents with damaged files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from tests.damaged_vision import Damaged
from tests.inputs.mutations import mutated
from valor_gpu.inputs.rankings import DocumentRows, read_judgements, read_run

QRELS = "1 0 a 2\n1 0 b 0\n2 0 a 1\n2 0 ü -1\n3 0 c 1\n"
RUN = "1 Q0 a 1 9.5 t\n1 Q0 x 2 9.5 t\n2 Q0 ü 1 1e-3 t\n2 Q0 a 2 -1 t\n"


def command(folder: Path) -> list[str]:
    """The command of files that this writes."""
    paths = folder / "a.qrels", folder / "a.run"
    for path, content in zip(paths, (QRELS, RUN)):
        path.write_text(content)
    return ["retrieval", "--qrels", str(paths[0]), "--run", str(paths[1])]


def rankings(rng: random.Random, folder: Path) -> Damaged:
    """Judgements or ranked documents of lines of TREC, of JSON lines or of a table."""
    read, trec, number = rng.choice(((read_judgements, QRELS, "relevance"), (read_run, RUN, "score")))
    rows = [{"query_id": "1", "doc_id": "a", number: 2}, {"query_id": 2, "doc_id": "b", number: 1.0}]
    lines = "\n".join(map(json.dumps, rows))
    table = f"query_id,doc_id,{number}\n1,a,2\n2,b,1\n"
    ending, content = rng.choice(
        ((".txt", trec), (".jsonl", lines), (".csv", table), (".tsv", trec.replace(" ", "\t")))
    )
    path = folder / f"a{ending}"
    path.write_bytes(mutated(content.encode(), rng.randrange(2**32)))

    def check(found: DocumentRows) -> None:
        assert np.isfinite(found.numbers).all() and len(found) == len(found.document) == len(found.numbers)
        assert not len(found) or (
            found.query.max() < len(found.queries) and found.document.max() < len(found.documents)
        )

    return Damaged(lambda: read(str(path)), check)
