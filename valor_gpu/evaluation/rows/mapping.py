"""Which column of the data, or output of the target, gives each field that evaluators read. No torch.

Everything is resolved before the first row, and whatever is wrong is one error.

Example:
    >>> mapping = resolve_mapping(
    ...     {"questions": "q", "y_test": "${data$truth}"},
    ...     columns=["q", "truth", "response"],
    ...     required={"f1_score": {"answer", "ground_truth"}},
    ... )
    >>> mapping.to_dict()
    {'question': '${data.q}', 'ground_truth': '${data.truth}', 'answer': '${data.response}'}
    >>> mapping.values({"q": "2 + 2?", "truth": "4", "response": "four"})
    {'question': '2 + 2?', 'ground_truth': '4', 'answer': 'four'}
"""

from __future__ import annotations

from collections import abc
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_choice, check_type, near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._references import DATA, EITHER, TARGET, ColumnsError, Names, Source, shown_names
from valor_gpu.evaluation.rows.columns import leads_to, value_at, within_another
from valor_gpu.evaluation.rows.fields import ANSWER, FIELDS, MESSAGES, field_of, names_of

__all__ = ["Mapping", "Source", "resolve_mapping"]

TASK_TYPES = (None, "qa", "chat")
Row = abc.Mapping[str, Any]
Required = abc.Mapping[str, Collection[str]] | Collection[str]


@dataclass(frozen=True)
class Mapping:
    """Where every field comes from.

    Attributes:
        sources: field to its source. Fields are ``question``, ``answer``, ``context``, ``ground_truth``, ``messages``
            and the names that evaluators of the user's own require.
        key_columns: field to the column that it has in the key of a row: whatever a target gives, rows of one data set
            have the same keys. The answer is none of them.
        warnings: texts, each about a name that was accepted though another was probably meant.
    """

    sources: abc.Mapping[str, Source]
    key_columns: abc.Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def values(self, inputs: Row, outputs: Row | None = None) -> dict[str, Any]:
        """The fields of a row.

        Args:
            inputs: column name to value.
            outputs: what the target returned; None without a target, or where it failed.

        Returns:
            Field to value; None where the row has none.
        """
        returned = outputs or {}
        return {field: _value(source, inputs, returned) for field, source in self.sources.items()}

    def key_values(self, inputs: Row) -> dict[str, Any]:
        """The fields that identify a row: those that its columns have, the answer left out."""
        return {field: value_at(inputs, column) for field, column in self.key_columns.items()}

    def missing(self, required: Required) -> dict[str, list[str]]:
        """Fields that nothing gives, each with the evaluators that need it."""
        found = {field: users for field, users in _users(required).items() if field not in self.sources}
        return {field: users for field, users in found.items() if field_of(field) not in self.sources}

    def check_outputs(self, outputs: Row) -> None:
        """Raises :class:`InputError` unless the target returned what the mapping takes from it: for the first row.

        An answer of None has a name, or may become the only text in another row: it costs its own row alone.
        """
        of_target = {field: source for field, source in self.sources.items() if source.root == TARGET}
        problems = [
            f"{field!r} is {source}, which it does not return"
            if source.name
            else f"{field!r} must be an output named {ANSWER!r}, or the only text, or mapped"
            for field, source in of_target.items()
            if (not leads_to(outputs, source.name) if source.name else _has_no_answer(outputs))
        ]
        for field, source in of_target.items():
            if (root := within_another(outputs, source.name)) is not None:
                problems.append(
                    f"{field!r} is {source}, an output of this name and within {root!r}: rename one of them"
                )
        if problems:
            _raise_all("the target", [*problems, f"it returns: {shown_names(outputs)}"])

    def to_dict(self) -> dict[str, str]:
        """Field to reference, for the configuration of a run. A plain name is an output or else a column."""
        return {field: str(source) for field, source in self.sources.items()}

    @classmethod
    def from_dict(cls, references: abc.Mapping[str, str], columns: Collection[str] = ()) -> Mapping:
        """The mapping that :meth:`to_dict` gave.

        Args:
            references: field to reference.
            columns: of the data; without them no row has a key.

        Example:
            >>> mapping = resolve_mapping({"y_pred": "reply"}, ["question", "reply"])
            >>> Mapping.from_dict(mapping.to_dict(), ["question", "reply"]) == mapping
            True
        """
        sources = {field: Source.from_text(text) for field, text in references.items()}
        return cls(sources, _key_columns(sources, columns) if columns else {})


def resolve_mapping(
    data_mapping: abc.Mapping[str, str] | None,
    columns: Collection[str],
    outputs: Collection[str] | None = None,
    required: Required = (),
    task_type: str | None = None,
) -> Mapping:
    """Finds where every field comes from.

    A field that is not mapped is found by its name or one of its aliases. Where a target and the data have the same
    name, the target's output is taken; an answer is taken from the data only if there is no target, or if it is mapped
    to a column.

    Args:
        data_mapping: field, or an alias such as ``y_test``, to ``${data.x}`` or ``${data$x}`` (a column),
            ``${target.x}`` or ``${run.outputs.x}`` (an output of the target), or a plain name of either. Dots lead into
            objects, ``${data.outputs.answer}``, unless a column has that very name.
        columns: names of the columns of the data, perhaps with paths, see
            :class:`~valor_gpu.evaluation.rows.columns.ColumnNames`.
        outputs: names of what the target returns; empty where that is known after its first row only (then call
            :meth:`Mapping.check_outputs`), None without a target.
        required: name of each evaluator to the fields that it needs, or these fields alone.
        task_type: ``qa``, ``chat`` or None. In chats, ``y_pred`` is the whole conversation, ``messages``; so it
            is with None where it is mapped to that name.

    Raises:
        InputError: names that lead nowhere, a field that is mapped twice, a required field that nothing gives. The
            message has all of them, and names that look alike. A :class:`ColumnsError` where columns lack.

    Example:
        >>> resolve_mapping({"y_pred": "reply"}, ["question", "answer"], outputs=["reply"]).to_dict()
        {'answer': '${target.reply}', 'question': '${data.question}'}
    """
    check_choice("task_type", task_type, TASK_TYPES)
    check_type("data_mapping", data_mapping, (abc.Mapping, type(None)))
    resolver = _Resolver(Names(columns, outputs), _users(required), task_type)
    resolver.add_mapped(data_mapping or {})
    resolver.add_fields()
    resolver.add_others()
    resolver.check_required()
    if resolver.problems:
        _raise_all("data_mapping", resolver.problems, ColumnsError if resolver.lacks_columns else InputError)
    return Mapping(resolver.sources, _key_columns(resolver.sources, columns), tuple(resolver.names.warnings))


class _Resolver:
    """Sources and problems, as they are found.

    Args:
        names: that references may have.
        users: required field to the evaluators that need it.
        task_type: as of :func:`resolve_mapping`.
    """

    def __init__(self, names: Names, users: dict[str, list[str]], task_type: str | None) -> None:
        self.names = names
        self.users = users
        self.task_type = task_type
        self.sources: dict[str, Source] = {}
        self.problems: list[str] = []
        self.lacks_columns = False  # whether a column of rows that were not read would solve a problem
        self._mapped: set[str] = set()  # fields that data_mapping has, those with a problem included

    def add_mapped(self, data_mapping: abc.Mapping[str, str]) -> None:
        for key, reference in data_mapping.items():
            self._try_mapped(key, reference)

    def _try_mapped(self, key: str, reference: Any) -> None:
        try:
            self._add_mapped(key, reference)
        except InputError as error:
            self.lacks_columns |= isinstance(error, ColumnsError)
            self.problems.append(str(error))

    def _add_mapped(self, key: str, reference: Any) -> None:
        check_type("a key", key, str)
        field = field_of(key) or key
        if field not in FIELDS and field not in self.users:
            known = [*FIELDS, *(alias for aliases in FIELDS.values() for alias in aliases), *self.users]
            raise InputError(f"{key!r:.80} is no field{near_names(key, known)}; fields: {', '.join(FIELDS)}")
        if key == "y_pred" and (self.task_type or _task_of(reference)) == "chat":
            field = MESSAGES
        source_before = self.sources.get(field)
        self._mapped.add(field)
        source = self.names.resolve(key, reference, by_target=field in (ANSWER, MESSAGES))
        if source_before not in (None, source):
            raise InputError(f"{key!r} is {source}, but {field!r} is mapped to {source_before} too")
        self.sources[field] = source
        if field == ANSWER and source.root == DATA and self.names.outputs is not None:
            self.names.warnings.append(f"data_mapping: answers are read from {source}, not from the target")

    def add_fields(self) -> None:
        """Finds the fields that are not mapped."""
        for field in (each for each in (*reversed(FIELDS),) if each not in self._mapped):
            source = self._found(field)
            if source is not None:
                self.sources[field] = source

    def _found(self, field: str) -> Source | None:
        outputs = self.names.outputs
        returned, columns = names_of(field, outputs or ()), names_of(field, self.names.columns)
        if len(returned) == 1:
            return Source(TARGET, returned[0])
        if outputs is not None and field == ANSWER:
            return self._answer_of_target(outputs)
        if self.names.undeclared and field == MESSAGES and self.task_type == "chat":
            return Source(TARGET, MESSAGES)
        if len(columns) == 1 and not returned:
            return Source(EITHER if self.names.undeclared else DATA, columns[0])
        return None

    def _answer_of_target(self, outputs: Collection[str]) -> Source | None:
        messages = self.sources.get(MESSAGES)
        if self.task_type == "chat" or (messages is not None and messages.root == TARGET):
            return None
        return Source(TARGET, next(iter(outputs)) if len(outputs) == 1 else "")

    def add_others(self) -> None:
        """Finds what evaluators of the user's own require: by that name, else by the field that it means."""
        for name in (each for each in self.users if each not in FIELDS and each not in self._mapped):
            field = field_of(name)
            by_field = field in self._mapped or (field == ANSWER and self.names.outputs is not None)
            if not by_field and name in (self.names.outputs or ()):
                self.sources[name] = Source(TARGET, name)
            elif not by_field and name in self.names.columns:
                self.sources[name] = Source(EITHER if self.names.undeclared else DATA, name)
            elif field in self.sources:
                self.sources[name] = self.sources[field]

    def check_required(self) -> None:
        for name, users in self.users.items():
            field = field_of(name) or name
            if name in self.sources or field in self._mapped:  # of what is mapped wrongly there is a problem already
                continue
            needed = f"{name!r} is needed" + (f" by {', '.join(filter(None, users))}" if any(users) else "")
            several = names_of(field, [*(self.names.outputs or ()), *self.names.columns])
            if len(several) > 1:
                self.problems.append(f"{needed}, and {', '.join(map(repr, several))} may all be it: map one of them")
                continue
            hint = f"; map it to ${{target.{name}}} if the target returns it" if self.names.undeclared else ""
            near = near_names(name, self.names.columns)
            self.lacks_columns = True
            self.problems.append(f"{needed} but nothing gives it{near}; {self.names.shown_columns()}{hint}")


def _users(required: Required) -> dict[str, list[str]]:
    """Required field to the names of the evaluators that need it."""
    by_evaluator = required if isinstance(required, abc.Mapping) else {"": required}
    users: dict[str, list[str]] = {}
    for evaluator, fields in by_evaluator.items():
        for field in sorted(fields):
            users.setdefault(field, []).append(evaluator)
    return users


def _key_columns(sources: abc.Mapping[str, Source], columns: Collection[str]) -> dict[str, str]:
    """The column of every field but the answer, also of those that a target gives instead."""
    found = {}
    for field in (each for each in FIELDS if each != ANSWER):
        source, named = sources.get(field), names_of(field, columns)
        if source is not None and source.root != TARGET:
            found[field] = source.name
        elif len(named) == 1:
            found[field] = named[0]
    return found


def _task_of(reference: Any) -> str:
    """The task in which ``y_pred`` is mapped to a reference."""
    name = str(reference).strip().removesuffix("}").replace("$", ".").rpartition(".")[2]
    return "chat" if field_of(name) == MESSAGES else "qa"


def _value(source: Source, inputs: Row, outputs: Row) -> Any:
    if source.root == DATA or (source.root == EITHER and not leads_to(outputs, source.name)):
        return value_at(inputs, source.name)
    return value_at(outputs, source.name) if source.name else _answer(outputs)


def _answer(outputs: Row) -> Any:
    """The answer in what a target returned: the output that is named so, else the only text; None where it is open."""
    named = names_of(ANSWER, outputs)
    if len(named) == 1:
        return outputs[named[0]]
    texts = [value for value in outputs.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def _has_no_answer(outputs: Row) -> bool:
    return _answer(outputs) is None and None not in outputs.values()


def _raise_all(subject: str, problems: list[str], kind: type[InputError] = InputError) -> None:
    lines = "".join(f"\n  {problem}" for problem in problems)
    raise kind(f"{subject} must give every field that is needed, by names that exist, but:{lines}")
