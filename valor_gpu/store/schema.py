"""Tables of a store, and how a file of an older version becomes one of today."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from valor_gpu.errors import StoreError, check_command

APPLICATION = 0x56475331  # "VGS1", in the header of the file

# A score belongs to a row by its number, and a replaced row loses its scores: they judged another answer. ``value`` is
# NULL exactly where ``status`` is not "ok". Versions of evaluators are only ever added.
_FIRST = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, name TEXT NOT NULL, state TEXT NOT NULL, config TEXT NOT NULL,
    tags TEXT NOT NULL, dataset TEXT NOT NULL, summary TEXT, created REAL NOT NULL, finished REAL, deleted REAL,
    indexed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX runs_name ON runs (name, id);
CREATE INDEX runs_dataset ON runs (dataset, id);
CREATE TABLE leases (
    run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE, token TEXT NOT NULL, pid INTEGER NOT NULL,
    started TEXT NOT NULL, machine TEXT NOT NULL, heartbeat REAL NOT NULL);
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, number INTEGER NOT NULL,
    key TEXT NOT NULL, inputs TEXT NOT NULL, outputs TEXT NOT NULL, status TEXT NOT NULL, error TEXT NOT NULL,
    UNIQUE (run, number), UNIQUE (run, key));
CREATE INDEX rows_failed ON rows (run, status, number) WHERE status <> 'ok';
CREATE TABLE scores (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL, row INTEGER NOT NULL, evaluator TEXT NOT NULL,
    repeat INTEGER NOT NULL, value REAL, status TEXT NOT NULL, reason TEXT NOT NULL, level TEXT NOT NULL, details TEXT,
    usage TEXT, seconds REAL, UNIQUE (run, row, evaluator, repeat),
    FOREIGN KEY (run, row) REFERENCES rows (run, number) ON DELETE CASCADE);
CREATE INDEX scores_value ON scores (run, evaluator, value, row, repeat);
CREATE INDEX scores_failed ON scores (run, evaluator, status, row, repeat) WHERE value IS NULL;
CREATE TRIGGER rows_replaced AFTER UPDATE OF outputs ON rows BEGIN
    DELETE FROM scores WHERE run = NEW.run AND row = NEW.number; END;
CREATE TABLE feedback (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL, row INTEGER NOT NULL, evaluator TEXT NOT NULL, author TEXT NOT NULL,
    value REAL, passed INTEGER, note TEXT NOT NULL, created REAL NOT NULL, UNIQUE (run, row, evaluator, author),
    FOREIGN KEY (run, row) REFERENCES rows (run, number) ON DELETE CASCADE);
CREATE TABLE evaluators (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, deleted REAL);
CREATE TABLE evaluator_contents (hash TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE evaluator_versions (
    evaluator INTEGER NOT NULL REFERENCES evaluators, number INTEGER NOT NULL,
    hash TEXT NOT NULL REFERENCES evaluator_contents, note TEXT NOT NULL, created REAL NOT NULL,
    PRIMARY KEY (evaluator, number)) WITHOUT ROWID;
CREATE TRIGGER evaluator_contents_fixed BEFORE UPDATE ON evaluator_contents BEGIN
    SELECT RAISE(ABORT, 'versions of evaluators are immutable'); END;
CREATE TRIGGER evaluator_contents_kept BEFORE DELETE ON evaluator_contents BEGIN
    SELECT RAISE(ABORT, 'versions of evaluators are immutable'); END;
CREATE TRIGGER evaluator_versions_fixed BEFORE UPDATE ON evaluator_versions BEGIN
    SELECT RAISE(ABORT, 'versions of evaluators are immutable'); END;
CREATE TRIGGER evaluator_versions_kept BEFORE DELETE ON evaluator_versions BEGIN
    SELECT RAISE(ABORT, 'versions of evaluators are immutable'); END;
CREATE TABLE datasets (
    hash TEXT PRIMARY KEY, name TEXT NOT NULL, columns TEXT NOT NULL, rows INTEGER NOT NULL, source TEXT NOT NULL,
    created REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE views (
    kind TEXT NOT NULL, name TEXT NOT NULL, settings TEXT NOT NULL, changed REAL NOT NULL, PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
"""

# The state file of a run, which a comparison computes its numbers from again.
_STATES = """
CREATE TABLE states (run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE, content BLOB NOT NULL);
"""

# What people say of a run, how far one that goes on is, and what was asked and answered for each score. A trace belongs
# to its row like a score; that of the row's answer has the evaluator "". What a failure cost stays paid when another
# try replaces it: ``replaced`` keeps its usage in the transaction of the replacement. ``row_texts`` are copies that a
# search reads.
_LIVE = """
ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN edited REAL;
CREATE TABLE progress (
    run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE, content TEXT NOT NULL, changed REAL NOT NULL);
CREATE TABLE traces (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL, row INTEGER NOT NULL, evaluator TEXT NOT NULL,
    repeat INTEGER NOT NULL, content BLOB NOT NULL, UNIQUE (run, row, evaluator, repeat),
    FOREIGN KEY (run, row) REFERENCES rows (run, number) ON DELETE CASCADE);
CREATE TABLE row_texts (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, numbers TEXT NOT NULL,
    texts BLOB NOT NULL);
CREATE INDEX row_texts_run ON row_texts (run);
CREATE TRIGGER traces_replaced AFTER UPDATE OF outputs ON rows BEGIN
    DELETE FROM traces WHERE run = NEW.run AND row = NEW.number; END;
CREATE TABLE replaced (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, evaluator TEXT NOT NULL,
    usage TEXT NOT NULL, seconds REAL);
CREATE INDEX replaced_run ON replaced (run, id);
CREATE TRIGGER scores_replaced AFTER UPDATE OF usage ON scores WHEN OLD.usage IS NOT NULL BEGIN
    INSERT INTO replaced (run, evaluator, usage, seconds) VALUES (OLD.run, OLD.evaluator, OLD.usage, OLD.seconds); END;
DROP TRIGGER rows_replaced;
CREATE TRIGGER rows_replaced AFTER UPDATE OF outputs ON rows BEGIN
    INSERT INTO replaced (run, evaluator, usage, seconds) SELECT run, evaluator, usage, seconds FROM scores
        WHERE run = NEW.run AND row = NEW.number AND usage IS NOT NULL;
    DELETE FROM scores WHERE run = NEW.run AND row = NEW.number; END;
"""

# A checksum of a row of a table, by checksums.py; NULL: an older version wrote the row. One that is still open writes
# columns without their checksum, which a trigger then takes away. It also inserts into ``views`` and
# ``evaluator_versions`` without names of columns, so that these have their checksums in a table beside them.
# ``again`` is ``value`` once more, within the index of values, for statements that read that index alone. ``totals``
# says how many rows and scores a run had when it ended, until one of them changes; ``counts`` how many there are of
# what is rarely written. "REPLACE" fires no trigger for what it takes away.
_CHECKED = """
ALTER TABLE runs ADD COLUMN checksum INTEGER;
ALTER TABLE rows ADD COLUMN checksum INTEGER;
ALTER TABLE scores ADD COLUMN again REAL;
ALTER TABLE scores ADD COLUMN checksum INTEGER;
ALTER TABLE feedback ADD COLUMN checksum INTEGER;
ALTER TABLE traces ADD COLUMN checksum INTEGER;
ALTER TABLE states ADD COLUMN checksum INTEGER;
ALTER TABLE progress ADD COLUMN checksum INTEGER;
ALTER TABLE replaced ADD COLUMN checksum INTEGER;
ALTER TABLE datasets ADD COLUMN checksum INTEGER;
ALTER TABLE evaluators ADD COLUMN checksum INTEGER;
ALTER TABLE row_texts ADD COLUMN checksum INTEGER;
DROP INDEX scores_value;
CREATE INDEX scores_value ON scores (run, evaluator, value, row, repeat, again);
CREATE TABLE checks (
    about TEXT NOT NULL, first NOT NULL, second NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (about, first, second)
    ) WITHOUT ROWID;
CREATE TABLE totals (
    run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE, content TEXT NOT NULL, checksum INTEGER);
CREATE TABLE counts (about TEXT NOT NULL, run INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (about, run)
    ) WITHOUT ROWID;
CREATE TRIGGER runs_unchecked AFTER UPDATE OF name, state, config, tags, dataset, summary, finished, deleted, indexed,
    note, edited ON runs WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL
    AND (NEW.name, NEW.state, NEW.config, NEW.tags, NEW.dataset, NEW.summary, NEW.finished, NEW.deleted, NEW.indexed,
    NEW.note, NEW.edited) IS NOT (OLD.name, OLD.state, OLD.config, OLD.tags, OLD.dataset, OLD.summary, OLD.finished,
    OLD.deleted, OLD.indexed, OLD.note, OLD.edited) BEGIN
    UPDATE runs SET checksum = NULL WHERE id = NEW.id; END;
CREATE TRIGGER rows_unchecked AFTER UPDATE OF key, inputs, outputs, status, error ON rows
    WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL
    AND (NEW.key, NEW.inputs, NEW.outputs, NEW.status, NEW.error)
    IS NOT (OLD.key, OLD.inputs, OLD.outputs, OLD.status, OLD.error) BEGIN
    UPDATE rows SET checksum = NULL WHERE id = NEW.id; END;
CREATE TRIGGER scores_unchecked AFTER UPDATE OF value, status, reason, level, details, usage, seconds ON scores
    WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL
    AND (NEW.value, NEW.status, NEW.reason, NEW.level, NEW.details, NEW.usage, NEW.seconds)
    IS NOT (OLD.value, OLD.status, OLD.reason, OLD.level, OLD.details, OLD.usage, OLD.seconds) BEGIN
    UPDATE scores SET checksum = NULL WHERE id = NEW.id; END;
CREATE TRIGGER scores_once AFTER UPDATE OF value ON scores
    WHEN NEW.again IS NOT NULL AND NEW.again IS NOT NEW.value BEGIN
    UPDATE scores SET again = NULL WHERE id = NEW.id; END;
CREATE TRIGGER feedback_unchecked AFTER UPDATE OF value, passed, note, created ON feedback
    WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL
    AND (NEW.value, NEW.passed, NEW.note, NEW.created) IS NOT (OLD.value, OLD.passed, OLD.note, OLD.created) BEGIN
    UPDATE feedback SET checksum = NULL WHERE id = NEW.id; END;
CREATE TRIGGER traces_unchecked AFTER UPDATE OF content ON traces
    WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL AND NEW.content IS NOT OLD.content BEGIN
    UPDATE traces SET checksum = NULL WHERE id = NEW.id; END;
CREATE TRIGGER datasets_unchecked AFTER UPDATE OF name, columns, rows, source ON datasets
    WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL
    AND (NEW.name, NEW.columns, NEW.rows, NEW.source) IS NOT (OLD.name, OLD.columns, OLD.rows, OLD.source) BEGIN
    UPDATE datasets SET checksum = NULL WHERE hash = NEW.hash; END;
CREATE TRIGGER evaluators_unchecked AFTER UPDATE OF name, deleted ON evaluators
    WHEN NEW.checksum IS OLD.checksum AND NEW.checksum IS NOT NULL
    AND (NEW.name, NEW.deleted) IS NOT (OLD.name, OLD.deleted) BEGIN
    UPDATE evaluators SET checksum = NULL WHERE id = NEW.id; END;
CREATE TRIGGER views_unchecked AFTER INSERT ON views BEGIN
    DELETE FROM checks WHERE about = 'view' AND first = NEW.kind AND second = NEW.name; END;
CREATE TRIGGER views_gone AFTER DELETE ON views BEGIN
    DELETE FROM checks WHERE about = 'view' AND first = OLD.kind AND second = OLD.name; END;
CREATE TRIGGER runs_came AFTER INSERT ON runs BEGIN
    INSERT INTO counts VALUES ('runs', 0, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER runs_went AFTER DELETE ON runs BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'runs' AND run = 0; END;
CREATE TRIGGER feedback_came AFTER INSERT ON feedback BEGIN
    INSERT INTO counts VALUES ('feedback', NEW.run, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER feedback_went AFTER DELETE ON feedback BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'feedback' AND run = OLD.run; END;
CREATE TRIGGER datasets_came AFTER INSERT ON datasets BEGIN
    INSERT INTO counts VALUES ('datasets', 0, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER datasets_went AFTER DELETE ON datasets BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'datasets' AND run = 0; END;
CREATE TRIGGER evaluators_came AFTER INSERT ON evaluators BEGIN
    INSERT INTO counts VALUES ('evaluators', 0, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER evaluators_went AFTER DELETE ON evaluators BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'evaluators' AND run = 0; END;
CREATE TRIGGER evaluator_versions_came AFTER INSERT ON evaluator_versions BEGIN
    INSERT INTO counts VALUES ('evaluator_versions', 0, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER evaluator_versions_went AFTER DELETE ON evaluator_versions BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'evaluator_versions' AND run = 0; END;
CREATE TRIGGER views_came BEFORE INSERT ON views
    WHEN NOT EXISTS (SELECT 1 FROM views WHERE kind = NEW.kind AND name = NEW.name) BEGIN
    INSERT INTO counts VALUES ('views', 0, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER views_went AFTER DELETE ON views BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'views' AND run = 0; END;
INSERT INTO counts SELECT 'feedback', run, count(*) FROM feedback GROUP BY run;
INSERT INTO counts SELECT 'runs', 0, count(*) FROM runs;
INSERT INTO counts SELECT 'datasets', 0, count(*) FROM datasets;
INSERT INTO counts SELECT 'evaluators', 0, count(*) FROM evaluators;
INSERT INTO counts SELECT 'evaluator_versions', 0, count(*) FROM evaluator_versions;
INSERT INTO counts SELECT 'views', 0, count(*) FROM views;
CREATE TRIGGER states_came BEFORE INSERT ON states WHEN NOT EXISTS (SELECT 1 FROM states WHERE run = NEW.run) BEGIN
    INSERT INTO counts VALUES ('states', NEW.run, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER states_went AFTER DELETE ON states BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'states' AND run = OLD.run; END;
INSERT INTO counts SELECT 'states', run, count(*) FROM states GROUP BY run;
CREATE TRIGGER progress_came BEFORE INSERT ON progress
    WHEN NOT EXISTS (SELECT 1 FROM progress WHERE run = NEW.run) BEGIN
    INSERT INTO counts VALUES ('progress', NEW.run, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER progress_went AFTER DELETE ON progress BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'progress' AND run = OLD.run; END;
INSERT INTO counts SELECT 'progress', run, count(*) FROM progress GROUP BY run;
CREATE TRIGGER replaced_came AFTER INSERT ON replaced BEGIN
    INSERT INTO counts VALUES ('replaced', NEW.run, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER replaced_went AFTER DELETE ON replaced BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'replaced' AND run = OLD.run; END;
INSERT INTO counts SELECT 'replaced', run, count(*) FROM replaced GROUP BY run;
CREATE TRIGGER traces_came AFTER INSERT ON traces BEGIN
    INSERT INTO counts VALUES ('traces', NEW.run, 1) ON CONFLICT (about, run) DO UPDATE SET n = n + 1; END;
CREATE TRIGGER traces_went AFTER DELETE ON traces BEGIN
    UPDATE counts SET n = n - 1 WHERE about = 'traces' AND run = OLD.run; END;
INSERT INTO counts SELECT 'traces', run, count(*) FROM traces GROUP BY run;
CREATE TRIGGER totals_gone AFTER UPDATE OF state, indexed ON runs
    WHEN NEW.state <> OLD.state OR NEW.indexed <> OLD.indexed BEGIN DELETE FROM totals WHERE run = NEW.id; END;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _STATES, _LIVE, _CHECKED)
"""Statements that lead from version i to i + 1; never changed once published."""


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Brings a file to the version of ``migrations``, all of it or nothing.

    Raises:
        StoreError: the file belongs to another program, or to a newer version of this one.
    """
    connection.execute("BEGIN")  # one state of a file that another process may be making
    try:
        if _version(connection, path, len(migrations)) == len(migrations):
            return
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(connection, path, len(migrations)), len(migrations)):
            for statement in _statements(migrations[number]):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def damaged_head(path: str | os.PathLike[str]) -> str:
    """Returns advice for a file that may be a store with damaged first bytes."""
    return f"if it was a store, `{check_command(path)}` says what of it can be saved"


def _version(connection: sqlite3.Connection, path: str, newest: int) -> int:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION and (application or tables or version):
        raise StoreError(
            f"store must be a file of valor_gpu but {path} is another program's database; {damaged_head(path)}"
        )
    if version > newest:
        raise StoreError(
            f"store {path} has version {version}, and this valor_gpu knows versions up to {newest}: install a newer one"
        )
    return version


def _statements(script: str) -> list[str]:
    """The statements of a script; ``executescript`` would commit before it begins."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
