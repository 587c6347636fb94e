"""Which rows the page shows, and what it says of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from valor_gpu.errors import DamageError, InputError
from valor_gpu.evaluation.report.bounds import (
    CELL,
    CLIP,
    FIELDS,
    NAME,
    ROWS,
    SPOKEN,
    TURNS,
    WORST,
    short,
    short_name,
    words,
)
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.evaluation.rows.columns import value_at
from valor_gpu.evaluation.rows.fields import ANSWER, MESSAGES, QUESTION, names_of
from valor_gpu.judge.metrics.messages import ASSISTANT, has_role, messages_of, spoken
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.texts import Html, cut
from valor_gpu.store import Feedback, Run, StoredRow, StoredScore
from valor_gpu.store.groups import worst_rows

Facts = Mapping[str, Mapping[str, Any]]
_SOURCE_NAMES, _SOURCE_TEXTS = ("title", "id", "url", "filepath"), ("content", "text")
_REFERENCE = re.compile(r"\$\{(data|target|run\.outputs)[.$](.+)\}", re.DOTALL)


@dataclass(frozen=True)
class Text:
    """A text of a row.

    Attributes:
        name: of its column.
        text: as far as it is shown.
        left_out: characters that are not.
        turns: role and text of the messages, where it is a conversation.
        more_turns: messages that are not shown.
    """

    name: str
    text: str
    left_out: int = 0
    turns: list[Text] = field(default_factory=list)
    more_turns: int = 0


@dataclass(frozen=True)
class Mark:
    """A score of a row.

    Attributes:
        name: of the evaluator, with the repeat where there is more than one.
        shown: the value with its mark, or what failed.
        failed: whether there is no value.
        verdict: whether it passes its threshold, in words.
        reason: of the judge or of the failure.
        left_out: characters of the reason that are not shown.
        turns: of a conversation: number, value, reason of each.
        more_turns: turns that are not shown.
        notes: what the evaluator adds.
    """

    name: str
    shown: Html | str
    failed: bool = False
    verdict: str = ""
    reason: str = ""
    left_out: int = 0
    turns: list[tuple[str, str, str]] = field(default_factory=list)
    more_turns: int = 0
    notes: str = ""


@dataclass(frozen=True)
class RowView:
    """A row on the page."""

    number: int
    key: str
    title: str
    answer: str
    status: str
    error: str
    cells: list[Mark | None]
    marks: list[Mark]
    texts: list[Text]
    more_texts: int
    said: list[tuple[str, str]] = field(default_factory=list)
    """Who, and what they say of the row."""
    n_turns: int = 0
    """Messages of the conversation whose last reply is the answer; 0 where the answer is a text."""


def chosen_rows(run: Run, facts: Facts, causes: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Numbers of the rows that are shown, in groups with a title.

    Args:
        run: the run.
        facts: summary of every evaluator.
        causes: first rows of the failures.
    """
    worst = [number for number, _ in worst_rows(run, scales(facts), WORST)]
    seen = set(worst)
    spoken = [row for row in dict.fromkeys(each.row for each in run.feedback()) if row not in seen][:SPOKEN]
    seen.update(spoken)
    failed = [number for number in dict.fromkeys(causes) if number not in seen][: ROWS - WORST - len(spoken)]
    seen.update(failed)
    others: list[int] = []
    if len(worst) < WORST:  # else there are more rows than can be shown
        page = run.rows(0, ROWS + len(seen))
        others = [row.number for row in page if row.number not in seen][: ROWS - len(seen)]
    groups = [
        ("Worst first", worst),
        ("Rows of which people said something", spoken),
        ("First rows of each failure", failed),
        ("Other rows, in their order", others),
    ]
    return [(title, found) for title, found in groups if found]


def scales(facts: Facts) -> dict[str, tuple[float, float]]:
    """Worst and best value of the evaluators that have both."""
    return {
        name: (each["low"], each["high"]) if each["higher_is_better"] else (each["high"], each["low"])
        for name, each in facts.items()
        if each["higher_is_better"] is not None and not each["pooled"] and None not in (each["low"], each["high"])
        if each["low"] != each["high"]
    }


class DamagedRow(NamedTuple):
    """A row of which something is damaged: its texts, a score, or what people said of it."""

    number: int
    damage: DamageError


class RowReader:
    """Makes views of rows.

    Args:
        run: the run.
        facts: summary of every evaluator.
        columns: evaluators that have a column.
        limits: thresholds of evaluators.
        most: characters of one text that are shown.
    """

    def __init__(
        self, run: Run, facts: Facts, columns: Sequence[str], limits: Mapping[str, Threshold], most: int = CELL
    ) -> None:
        self._run, self._facts, self._columns, self._limits, self._most = run, facts, columns, limits, most
        self._mapping: Mapping[str, str] = run.config.get("data_mapping") or {}

    def views(self, wanted: Sequence[int]) -> Iterator[RowView]:
        """The rows of these numbers, in this order."""
        for row in self._run.rows(numbers=wanted):
            yield self._view(row, list(self._run.scores(first=row.number, last=row.number)))

    def views_and_damages(self, wanted: Sequence[int]) -> Iterator[RowView | DamagedRow]:
        """The rows of these numbers, in this order; what is damaged stands in its row's place, and costs no other."""
        try:
            yield from list(self.views(wanted))
        except DamageError:
            for number in wanted:
                yield from self._view_or_damage(number)

    def _view_or_damage(self, number: int) -> Sequence[RowView | DamagedRow]:
        try:
            return list(self.views([number]))
        except DamageError as error:
            return [DamagedRow(number, error)]

    def _view(self, row: StoredRow, scores: Sequence[StoredScore]) -> RowView:
        by_name: dict[str, list[StoredScore]] = {}
        for score in scores:
            by_name.setdefault(score.evaluator, []).append(score)
        order = [*(name for name in self._facts if name in by_name), *sorted(set(by_name) - set(self._facts))]
        marks = [self._mark(each, len(by_name[name]) > 1) for name in order for each in by_name[name]]
        texts = list(_texts(row, self._most))
        answer, n_turns = shown_text(row, ANSWER, self._mapping), 0
        if not answer:
            answer, n_turns = last_reply(_value(row, MESSAGES, self._mapping))
        return RowView(
            row.number,
            short(row.key),
            row_title(row, self._mapping),
            answer,
            row.status,
            short(row.error, CLIP),
            [self._cell(by_name.get(name, [])) for name in self._columns],
            marks,
            texts[:FIELDS],
            max(len(texts) - FIELDS, 0),
            [(short(each.author), _said(each)) for each in self._run.feedback(row.number, row.number)[:FIELDS]],
            n_turns,
        )

    def _cell(self, scores: Sequence[StoredScore]) -> Mark | None:
        """The mean over the repeats, or the first failure."""
        values = [score.value for score in scores if score.value is not None]
        if values:
            first = scores[0]
            return Mark("", self._shown(first.evaluator, sum(values) / len(values)))
        return Mark("", words(scores[0].status), failed=True) if scores else None

    def _mark(self, score: StoredScore, repeated: bool) -> Mark:
        name = short_name(score.evaluator) + (f", repeat {score.repeat + 1}" if repeated else "")
        reason, left_out = cut(score.reason, CELL)
        details = score.details or {}
        turns, more = _turns(details)
        kept = details.get("notes")
        notes = "; ".join(short(note) for note in kept[:TURNS]) if isinstance(kept, list) else ""
        failed = score.value is None
        shown = words(score.status) if score.value is None else self._shown(score.evaluator, score.value, score.level)
        verdict = ""
        if score.value is not None and (limit := self._limits.get(score.evaluator)) is not None:
            passes, defect = bool(limit.passes([score.value])[0]), limit.direction == "<"
            verdict = ("no defect" if defect else "passes") if passes else ("defect" if defect else "fails")
        return Mark(name, shown, failed, verdict, reason, left_out, turns, more, notes)

    def _shown(self, name: str, value: float, level: str = "") -> Html | str:
        facts = self._facts.get(name, {})
        low, high = facts.get("low"), facts.get("high")
        whole = float(value).is_integer()
        shown = (
            f"{value:,.0f}".replace("-", numbers.MINUS)
            if whole
            else numbers.number(value, numbers.decimals_of(low, high))
        )
        if facts.get("kind") == "safety":
            at = min(max(int(value // 2), 0), 3)
            return Html(f'<span class="sev sev-{at}">{charts.LEVELS[at]} {shown}</span>')
        if (low, high) == (1, 5):
            return Html(f"{shown}{charts.pips(value)}")
        if (low, high) == (0, 1) and facts.get("kind") not in ("check", "pairwise"):
            return numbers.number(value, 3)
        return f"{short(level)} {shown}" if level else shown


def _said(found: Feedback) -> str:
    """A person's score, verdict and note, in words."""
    verdict = {True: "pass", False: "fail", None: ""}[found.passed]
    value = "" if found.value is None else numbers.number(found.value, 2)
    note, left_out = cut(found.note, CELL)
    words_ = ", ".join(part for part in (value, verdict, note) if part) + ("…" if left_out else "")
    return f"{short(found.evaluator)}: {words_}" if found.evaluator else words_


def row_title(row: StoredRow, mapping: Mapping[str, str]) -> str:
    """What a row asks, for a table: its question, the first message, or the first column.

    Args:
        row: of a store.
        mapping: ``data_mapping`` of the run's configuration.
    """
    found = shown_text(row, QUESTION, mapping) or shown_text(row, MESSAGES, mapping)
    return found or _clip(next(iter(row.inputs.values()), None))


def shown_text(row: StoredRow, field: str, mapping: Mapping[str, str]) -> str:
    """The text of a field for a table: of the column that is mapped to it, else of one that has its name."""
    return _clip(_value(row, field, mapping))


def whole_text(row: StoredRow, field: str, mapping: Mapping[str, str]) -> str:
    """The whole text of a field; messages of a conversation stand below each other, anything else is JSON."""
    value = _value(row, field, mapping)
    turns, more = _messages(value, CELL)
    if turns and not more and not any(turn.left_out for turn in turns):
        return "\n\n".join(f"{turn.name}: {turn.text}" for turn in turns)
    return "" if value is None else _plain(value)


def _value(row: StoredRow, field: str, mapping: Mapping[str, str]) -> Any:
    """The value of a field, None without any."""
    reference = _REFERENCE.fullmatch(str(mapping.get(field, "")))
    if reference is not None:
        source = row.inputs if reference[1] == "data" else row.outputs
        return value_at(source, reference[2])
    for source in (row.outputs, row.inputs) if field == ANSWER else (row.inputs,):
        for column in names_of(field, source):
            return source[column]
    return None


def last_reply(value: Any) -> tuple[str, int]:
    """The last message of the assistant for a table, and how many messages a conversation has.

    Example:
        >>> last_reply([{"role": "user", "content": "When?"}, {"role": "assistant", "content": "At nine."}])
        ('At nine.', 2)
        >>> last_reply("no conversation")
        ('', 0)
    """
    found = _conversation(value)
    replies = (spoken(one).content for one in reversed(found) if spoken(one).role == ASSISTANT)
    reply = next(replies, None)
    return "" if reply is None else short(_plain(reply), CLIP), len(found)


def _clip(value: Any) -> str:
    turns, _ = _messages(value, CELL)
    return "" if value is None else short(turns[0].text if turns else _plain(value), CLIP)


def _texts(row: StoredRow, most: int) -> Iterator[Text]:
    outputs = {name: value for name, value in row.outputs.items() if not name.startswith("_")}
    for kind, columns in (("target's ", outputs), ("", row.inputs)):
        for name, value in columns.items():
            yield _text(kind + short(name), value, most)


def _text(name: str, value: Any, most: int) -> Text:
    turns, more = _messages(value, most)
    if turns:
        return Text(name, "", 0, turns, more)
    shown, left_out = cut(_plain(value), most)
    return Text(name, shown, left_out)


def _plain(value: Any) -> str:
    """A value as text: texts as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _conversation(value: Any) -> Sequence[Mapping[str, Any]]:
    """The messages of a conversation; none where the value is something else."""
    try:
        found = [] if isinstance(value, str) and value.lstrip()[:1] not in ("[", "{") else list(messages_of(value)[0])
    except InputError:
        return []
    return found if all(map(has_role, found)) else []


def _messages(value: Any, most: int) -> tuple[list[Text], int]:
    """Role and text of the messages of a conversation, and how many more there are."""
    found = _conversation(value)
    shown = [Text(short(spoken(one).role), *cut(_content(one), most)) for one in found[:TURNS]]
    return shown, max(len(found) - TURNS, 0)


def _content(message: Mapping[str, Any]) -> str:
    content, context = spoken(message).content, message.get("context")
    text = "" if content is None else _plain(content)
    return text if not context else f"{text}\n\n{_cited(context)}".strip()


def _cited(context: Any) -> str:
    """What a message cites, a source a line, as ``{"citations": [{"id", "content"}]}`` has them; else as it stands."""
    found = context.get("citations", context) if isinstance(context, Mapping) else context
    if isinstance(found, str):
        return f"Context: {found}"
    if not isinstance(found, list) or not found:
        return f"Context: {_plain(found)}"
    return "\n".join(f"[{place}] {_source(each)}" for place, each in enumerate(found, 1))


def _source(found: Any) -> str:
    """A source in words: its name, then what it says."""
    if not isinstance(found, Mapping):
        return _plain(found)
    name = next((found[key] for key in _SOURCE_NAMES if found.get(key)), "")
    text = next((found[key] for key in _SOURCE_TEXTS if found.get(key)), "")
    if not text:
        return _plain(found)
    return f"{_plain(name)}: {_plain(text)}" if name else _plain(text)


def _turns(details: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], int]:
    turns = details.get("turns")
    if not isinstance(turns, list):
        return [], 0
    kept: Iterable[Any] = turns[:TURNS]
    found = [
        (
            short(turn.get("turn", "")),
            numbers.number(turn["score"])
            if isinstance(turn.get("score"), (int, float))
            else words(str(turn.get("status"))),
            short(turn.get("reason", ""), CLIP + NAME),
        )
        for turn in kept
        if isinstance(turn, Mapping)
    ]
    return found, max(len(turns) - TURNS, 0)
