"""Where fields come from, as the wizard shows it: what is found by name, what was chosen, what might be meant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.rows.columns import ColumnNames, value_at
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.web.wizard.drafts import Draft
from valor_gpu.web.wizard.planning import Outlook

_WORDS = {
    "question": ("prompt", "input", "ask", "user"),
    "answer": ("output", "reply", "completion", "generated", "model"),
    "context": ("passage", "document", "source", "retrieved", "chunk", "text"),
    "ground_truth": ("expected", "truth", "gold", "correct", "ideal", "label", "solution"),
    "messages": ("conversation", "chat", "dialog", "turn", "history"),
}
"""Parts of names that columns of a field often have."""


def mapping_lines(
    draft: Draft, outlook: Outlook, first: Mapping[str, Any], names: Iterable[str]
) -> list[dict[str, Any]]:
    """A line for each name.

    Args:
        draft: with what was chosen.
        outlook: of it.
        first: values of the first row.
        names: of fields, or of parameters of the target.
    """
    if outlook.source is None:
        return []
    columns = outlook.source.columns
    known = [*columns, *sorted(outlook.source.columns.paths or ())]
    options = [f"${{data.{name}}}" for name in known] + [f"${{target.{name}}}" for name in outlook.outputs or ()]
    found = {name: f"${{data.{name}}}" for name in columns}
    found |= {} if outlook.fields is None else outlook.fields.to_dict()
    plain = options[: len(known)]  # a target cannot read its own outputs
    lines = (_line(name, draft, found.get(name, ""), plain if name in outlook.inputs else options, columns, first)
             for name in names)  # fmt: skip
    return [{**line, "optional": line["name"] in outlook.optional} for line in lines]


def _line(
    name: str, draft: Draft, found: str, options: list[str], columns: ColumnNames, first: Mapping[str, Any]
) -> dict[str, Any]:
    chosen = draft.mapping.get(name, "")
    column = (chosen or found).removeprefix("${data.").removesuffix("}")
    sample = value_at(first, column)
    why = "chosen by you" if chosen else "from the target" if found.startswith("${target") else "found by its name"
    return {
        "name": name,
        "chosen": chosen,
        "found": found,
        "why": why if chosen or found else "",
        "options": [*options, *((chosen,) if chosen and chosen not in options else ())],
        "sample": "" if sample is None else short(plain_text(sample), 160),
        "proposed": "" if chosen or found else _proposed(name, columns, draft),
    }


def _proposed(field: str, columns: ColumnNames, draft: Draft) -> str:
    """A column, or a path into one, whose name says that it may be the field, and that no other field has."""
    taken = set(draft.mapping.values())
    free = [each for each in (*columns, *sorted(columns.paths or ())) if f"${{data.{each}}}" not in taken]
    inner = next((each for each in free if "." in each and field_of(each.rpartition(".")[2]) == field), None)
    return inner or next(
        (each for word in _WORDS.get(field, (field.casefold(),)) for each in free if word in each.casefold()), ""
    )


def plain_text(value: Any) -> str:
    """A cell of a data set as it is in a file: texts as they are, lists and objects as JSON, nothing for None."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
