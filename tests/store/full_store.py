"""A store with everything that a store can hold, and what lies in it, table by table."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from valor_gpu.store import Feedback, Store, StoredRow, StoredScore, StoredTrace, keep_traces
from valor_gpu.store.edits import edit_run
from valor_gpu.store.progress import RunProgress, keep
from valor_gpu.store.states import MAGIC, keep_state

TABLES = (
    "runs", "rows", "scores", "feedback", "traces", "replaced", "states", "progress", "evaluators",
    "evaluator_contents", "evaluator_versions", "datasets", "views",
)  # fmt: skip
"""Tables that an export keeps."""


def fill(path: Path, rows: int = 300) -> None:
    """Makes a store, in one file without a log beside it."""
    with Store(path) as store:
        for name in ("first", "second"):
            _fill_run(store, name, rows)
        going_on = store.create_run("going on", {"version": 1})
        lease = going_on.lease()
        lease.__enter__()
        going_on.add_rows([StoredRow(1, "a", {"question": "where?"}, {"answer": "here"})])
        for number in range(3):
            store.evaluators.save("politeness", {"prompt": f"Is it polite? {number}"}, f"note {number}")
        store.evaluators.save("brevity", {"prompt": "Is it short?"})
        store.evaluators.delete("brevity")
        store.datasets.save("d1", "capitals", ["question", "answer"], rows, "capitals.jsonl")
        store.views.save("list", "mine", {"columns": ["name"]})
        with store._database.write() as connection:  # of a process that is gone
            connection.execute("UPDATE leases SET pid = 4194305")
        lease.__exit__(None, None, None)
        with store._database.write() as connection:
            connection.execute("UPDATE runs SET state = 'running' WHERE name = 'going on'")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _fill_run(store: Store, name: str, rows: int) -> None:
    run = store.create_run(name, {"version": 1, "name": name}, {"model": "small"}, "d1")
    with run.lease():
        texts = [f"Wo liegt {n}? é \ud800 中国 " + "x" * (n % 40) for n in range(rows)]
        run.add_rows(StoredRow(n + 1, f"k{n}", {"question": text}, {"answer": n}) for n, text in enumerate(texts))
        run.add_rows([StoredRow(rows + 1, "bad", {"question": "?"}, {}, "target_error", "no answer")])
        failed = StoredScore(1, "judge", 0, None, "timeout", usage={"prompt": 9, "completion": 0}, seconds=1.5)
        run.add_scores([failed])
        base = StoredTrace(1, "judge", content={"calls": [{"messages": ["a prompt " * 30]}]}).as_base()
        scores = [
            StoredScore(n, evaluator, 0, n / 7, reason=f"because of é {n}", level="Low", details={"n": n}, seconds=0.5)
            for n in range(1, rows + 1)
            for evaluator in ("judge", "f1")
        ]
        run.add_scores(scores, [base])
        keep_traces(
            run,
            [
                StoredTrace(n, "judge", content={"calls": [{"messages": ["a prompt " * 30], "n": n}]}, base=base)
                for n in range(1, rows + 1, 3)
            ],
        )
        keep(run, RunProgress(phase="asking", total_rows=rows))
        run.finish("finished", {"mean_f1": 0.5})
    for n in (1, 5):
        run.add_feedback(Feedback(n, "judge", "ana", 2.0, True, f"note {n} é"))
    edit_run(run, note="for the review")
    with store._database.write() as connection:
        keep_state(connection, run._number, MAGIC + bytes(range(256)) * 20)


def records(path: Path) -> dict[str, dict[Any, tuple[Any, ...]]]:
    """What lies in the tables that an export keeps, by key. Texts are bytes, so that all can be read."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    found: dict[str, dict[Any, tuple[Any, ...]]] = {}
    for table in TABLES:
        described = connection.execute(f"PRAGMA table_info({table})").fetchall()
        columns = [name.decode() for _, name, *_ in described if name not in (b"indexed", b"checksum")]
        keys = [place for place, (*_, key) in enumerate(described) if key]
        kept = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
        found[table] = {tuple(record[place] for place in keys): record for record in kept}
    connection.close()
    return found
