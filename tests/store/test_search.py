"""Texts that rows hold, in all scripts, against a plain scan: of ended runs by their copies, of others as they grow."""

from __future__ import annotations

import random
import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from valor_gpu.store import Store, StoredRow, search, selection, text_copies

PIECES = (
    "日本語", "日本", "東京タワー", "灯塔", "\uff0c", "。", "注", "한국어는", unicodedata.normalize("NFD", "한국어"),
    "สวัสดีครับ", "ក្រុម", "मराठी", "iPhone", "iPhone手机", "foo", "bar", "、", "\u3000", "é", "e\u0301", "が", "か\u3099",
    "\uf900", "\u8c48", "ｶﾞ", "Straße", "STRASSE", "İ", "ΑΣ", "ας", "😀", "👩\u200d👩\u200d👧", "→", "☃\ufe0f", "“q”",
    "\u0301", "\U00020000", "\ud800", "\0", "\\", '"', "\n", "1.5", "\uff21\uff22", "\ue000", "%", "*", "'",
)  # fmt: skip
BETWEEN = ("", "", " ", " ", "-", "\n")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s.sqlite") as found:
        yield found


def drawn(draw: random.Random, most: int) -> str:
    return "".join(draw.choice(PIECES) + draw.choice(BETWEEN) for _ in range(draw.randint(1, most)))


def drawn_row(draw: random.Random, number: int, status: str = "ok") -> StoredRow:
    inputs = {"日本": drawn(draw, 4), "more": [drawn(draw, 2), {"灯塔": drawn(draw, 2)}, 7, 1.5, None, True]}
    return StoredRow(number, f"k{number} {draw.choice(PIECES)}", inputs, {"answer": drawn(draw, 5)}, status)


def clean(text: str) -> str:
    """A text as people see it: without case, composed, and with a sign for what is no character."""
    text = text.replace("\ud800", "?").replace("\0", " ")
    return unicodedata.normalize("NFC", text.casefold())


def leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in leaves(each)]
    if isinstance(value, list):
        return [text for each in value for text in leaves(each)]
    return [] if value is None else [str(value)]


def scanned(rows: list[StoredRow], sought: str) -> list[int]:
    """Numbers of the rows with a text, by reading all of them."""
    held = {row.number: "\n".join([row.key, *leaves(row.inputs), *leaves(row.outputs)]) for row in rows}
    return sorted(number for number, text in held.items() if clean(sought) in clean(text))


def queries(draw: random.Random, rows: list[StoredRow], n: int) -> Iterator[str]:
    """Parts of texts of rows, and texts that may be in none."""
    for _ in range(n):
        text = drawn(draw, 2) if draw.random() < 0.3 else str(draw.choice(rows).outputs["answer"])
        start = draw.randrange(len(text))
        part = text[start : start + draw.randint(1, 6)]
        if part.strip():
            yield draw.choice((part, part.upper(), unicodedata.normalize("NFD", part)))


def test_ended_runs_are_searched_by_copies_as_if_all_rows_were_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_copies, "_PORTION", 200)  # some rows a record
    draw = random.Random(11)
    other, run = store.create_run("other", {}), store.create_run("run", {})
    for each in (other, run):
        each.add_rows([drawn_row(draw, number) for number in draw.sample(range(1, 999), 150)])
        each.finish("finished", {})
    rows, hits = list(run.stream_rows()), 0
    with monkeypatch.context() as patch:
        patch.setattr(search, "_holds", lambda *parts: 1 / 0)  # no row is read
        search_all = [text for text in queries(draw, rows, 1500) if by_copies(text)]
        for text in search_all:
            found, how = selection.rows_with_text(run, text)
            assert (sorted(found), how) == (scanned(rows, text), "substring"), ascii(text)
            hits += len(found) > 0
            page = run.search(text, after=300, limit=5)
            assert [row.number for row in page.rows] == [n for n in sorted(found) if n > 300][:5]
            assert (page.how, page.rows) == ("substring", run.rows(numbers=[row.number for row in page.rows]))
    assert len(search_all) > 500 and hits > 400
    for text in queries(draw, rows, 300):  # a text with words is looked for by these
        if not any(map(str.isalnum, text)):
            assert sorted(selection.rows_with_text(run, text)[0]) == scanned(rows, text), ascii(text)


def by_copies(text: str) -> bool:
    """Whether a text has a letter of a script without spaces, or a sign and no letter."""
    unspaced = re.search(
        "[\u0e00-\u11ff\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc]", clean(text)
    )
    sign = re.search("[→☃😀👩👧\uff0c]", clean(text))
    return bool(unspaced or "\U00020000" in text or (sign and not any(map(str.isalnum, text))))


def test_a_run_that_grows_is_searched_by_what_came_since(store: Store) -> None:
    draw = random.Random(12)
    other, run = store.create_run("other", {}), store.create_run("run", {})
    numbers = draw.sample(range(1, 999), 300)
    texts = [text for text in queries(draw, [drawn_row(draw, 1) for _ in range(20)], 25)]
    scans: dict[str, selection.TextScan | None] = dict.fromkeys(texts)
    for start in range(0, 300, 20):
        run.add_rows([drawn_row(draw, n, draw.choice(("ok", "timeout"))) for n in numbers[start : start + 20]])
        other.add_rows([drawn_row(draw, n) for n in numbers[start : start + 3]])
        failed = [row.number for row in run.stream_rows() if row.status != "ok"]
        for number in draw.sample(failed, min(len(failed), 4)):  # another answer, perhaps a failure again
            key = run.rows(numbers=[number])[0].key
            answer = {"answer": drawn(draw, 5)}
            run.add_rows([StoredRow(number, key, {}, answer, draw.choice(("ok", "timeout")))])
        rows = list(run.stream_rows())
        for text in draw.sample(texts, 15):  # some are asked for rarely
            scans[text] = found = selection.scan_text(run, text, scans[text])
            assert found is not None and sorted(found.numbers) == scanned(rows, text), ascii(text)
    run.finish("finished", {})
    assert selection.scan_text(run, "日本") is None


def test_a_scan_reads_nothing_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.create_run("run", {})
    run.add_rows([StoredRow(n, str(n), {"q": "red"}) for n in range(1, 50)])
    read: list[str] = []
    holds = search._holds
    monkeypatch.setattr(search, "_holds", lambda *parts: read.append(parts[3]) or holds(*parts))
    first = selection.scan_text(run, "red")
    assert first is not None and len(first.numbers) == len(read) == 49
    assert selection.scan_text(run, "red", first) == first and len(read) == 49
    store.create_run("other", {}).add_rows([StoredRow(1, "other", {"q": "red"})])
    run.add_rows([StoredRow(50, "50", {"q": "red"}), StoredRow(51, "51", {"q": "blue"})])
    later = selection.scan_text(run, "red", first)
    assert later is not None and sorted(later.numbers) == list(range(1, 51)) and read[49:] == ["50", "51"]


def test_a_replaced_row_keeps_its_number_and_its_place(store: Store) -> None:
    run = store.create_run("run", {})
    run.add_rows([StoredRow(n, str(n), {}, {}, "timeout") for n in (3, 1, 2)])
    assert run.add_rows([StoredRow(3, "3", {}, {"a": "new"}), StoredRow(1, "1", {}, {"a": "new"})]) == 2
    assert run.add_rows([StoredRow(3, "3", {}, {"a": "newer"})]) == 0  # what is ok is final
    assert [(row.number, row.outputs) for row in run.stream_rows()] == [(1, {"a": "new"}), (2, {}), (3, {"a": "new"})]


@pytest.mark.parametrize(
    ("text", "sought", "is_found"),
    [
        ("iPhone手机", "iphone", True),
        ("foo 手机 bar", "foo bar", False),
        ("foo、bar", "foo bar", True),
        ("foo\u3000bar", "FOO bar", True),
        ("foo→bar", "foo bar", True),
        ("手机", "\ue000", False),
    ],
)
def test_words_beside_scripts_without_spaces_are_words(store: Store, text: str, sought: str, is_found: bool) -> None:
    run = store.create_run("run", {})
    run.add_rows([StoredRow(1, "k", {"q": text})])
    run.finish("finished", {})
    assert [row.number for row in run.search(sought).rows] == ([1] if is_found else [])


@pytest.mark.parametrize(
    ("text", "sought"),
    [
        ("tie\u0302\u0301ng", "ti\u1ebfng"),  # letters with two accents, as one sign and as three
        ("ti\u1ebfng", "tie\u0302\u0301ng"),
        ("ti\u1ebfng Vi\u1ec7t", "tieng viet"),
        ("Straße", "STRASSE"),
        ("STRASSE", "straße"),
        ("οδος", "ΟΔΟΣ"),
        ("\u0130stanbul", "istanbul"),
        ("\ufb01ne", "FINE"),
        ("\u10a1\u10a2", "\u10a1\u10a2"),  # Georgian capitals, whose small letters stand in another range
        ("\u10a1\u10a2", "\u2d01\u2d02"),
    ],
)
def test_words_of_an_ended_run_are_found_in_any_case_and_form(store: Store, text: str, sought: str) -> None:
    run = store.create_run("run", {})
    run.add_rows([StoredRow(1, "k", {"q": f"so {text}, yes"}), StoredRow(2, "l", {"q": "no"})])
    run.finish("finished", {})
    found = run.search(sought)
    assert ([row.number for row in found.rows], found.how) == ([1], search.WORDS)
    run.add_rows([StoredRow(3, "m", {})])  # takes all words out again
    run.finish("finished", {})
    assert list(selection.rows_with_text(run, sought)[0]) == [1]


def test_copies_that_an_older_process_left_do_not_count(store: Store) -> None:
    run = store.create_run("run", {})
    run.add_rows([StoredRow(1, "k", {"q": "灯塔"})])
    run.finish("finished", {})
    with store._database.write() as connection:  # as a version without copies forgets the words of a run
        connection.execute("UPDATE runs SET indexed = 0")
        connection.execute("INSERT INTO row_words (row_words) VALUES ('delete-all')")
        connection.execute("UPDATE rows SET inputs = '{}'")
    run.finish("finished", {})
    assert copies(store) == [] and list(selection.rows_with_text(run, "灯塔")[0]) == []


def test_copies_go_with_their_run_and_come_back_after_a_resumption(store: Store) -> None:
    runs = [store.create_run(name, {}) for name in ("one", "two")]
    for run in runs:
        run.add_rows([StoredRow(1, "a", {"q": "灯塔守望"}), StoredRow(2, "b", {"q": "plain"})])
        run.finish("finished", {})
    assert copies(store) == [("1", "a\n灯塔守望".encode())] * 2
    runs[0].add_rows([StoredRow(3, "c", {"q": "灯塔"})])
    assert len(copies(store)) == 1 and sorted(selection.rows_with_text(runs[0], "灯塔")[0]) == [1, 3]
    runs[0].finish("finished", {})
    assert copies(store)[-1] == ("1,3", "a\n灯塔守望\0c\n灯塔".encode())
    for run in runs:
        run.delete()
    store.purge(0)
    assert copies(store) == [] and "灯塔守望".encode() not in store.path.read_bytes()


def copies(store: Store) -> list[tuple[str, bytes]]:
    connection = sqlite3.connect(store.path)
    found = connection.execute("SELECT numbers, texts FROM row_texts").fetchall()
    connection.close()
    return found


def test_a_run_that_an_older_version_ended_is_read_and_can_go_on(store: Store) -> None:
    run = store.create_run("old", {})
    run.add_rows([StoredRow(1, "a", {"q": "灯塔守望 foo"}), StoredRow(2, "b", {"q": "bar"})])
    with run._write() as connection:  # the index as it was built before there were copies
        connection.execute(search._TABLE)
        search._prepare(connection)
        sql = f"SELECT id, 'run' || run, row_words_of(run, {search.CHECKED_ROW}) FROM rows"
        connection.execute(f"INSERT INTO row_words (rowid, run, words) {sql}")
        connection.execute("UPDATE runs SET indexed = 1, state = 'finished', finished = 1")
    for text, how in (("塔守", "substring"), ("foo", "words")):
        assert (list(selection.rows_with_text(run, text)[0]), run.search(text).how) == ([1], how)
    run.add_rows([StoredRow(3, "c", {"q": "塔守"})])
    run.finish("finished", {})
    assert sorted(selection.rows_with_text(run, "塔守")[0]) == [1, 3] and len(copies(store)) == 1
    with store._database.write() as connection:  # nothing of the old index is left
        connection.execute("INSERT INTO row_words (row_words) VALUES ('optimize')")
        connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, row_words, row)")
        terms = {term for (term,) in connection.execute("SELECT term FROM temp.terms")}
    assert terms == {"run1", "a", "b", "c", "foo", "bar", search._GAP}
