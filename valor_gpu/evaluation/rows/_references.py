"""References to columns of the data and to outputs of the target, as users write them. No torch."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows.columns import root_of
from valor_gpu.evaluation.rows.fields import FORGIVEN

DATA, TARGET, EITHER = "data", "target", "either"
ROOTS = {"data": DATA, "target": TARGET, "run.outputs": TARGET}

_SHAPE = re.compile(r"\$\{([^{}]+)\}")
_REFERENCE = re.compile(rf"({'|'.join(map(re.escape, ROOTS))})[.$](.+)", re.DOTALL)
_SHOWN = 20  # names in a message


class Source(NamedTuple):
    """Where the values of a field come from.

    Attributes:
        root: ``data``, ``target``, or ``either``: the target's output of that name where it returns one, else the
            column.
        name: of the column or output; empty for the only text that the target returns.
    """

    root: str
    name: str

    def __str__(self) -> str:
        if self.root == EITHER:
            return self.name
        return f"${{{self.root}.{self.name}}}" if self.name else "${target}"

    @classmethod
    def from_text(cls, text: str) -> Source:
        """The source that ``str`` showed.

        Raises:
            InputError: the text is no reference.
        """
        if not (text.startswith("${") and text.endswith("}")):
            return cls(EITHER, text)
        root, _, name = text[2:-1].partition(".")
        if root not in (DATA, TARGET) or (root == DATA and not name):
            raise InputError(f"a reference must be ${{data.x}} or ${{target.x}} but is {text!r:.80}")
        return cls(root, name)


class ColumnsError(InputError):
    """A name that no column has, as far as the rows were looked at."""


class Names:
    """The names that references may have.

    Args:
        columns: of the data.
        outputs: of the target; empty where it does not declare them, None without a target.
    """

    def __init__(self, columns: Collection[str], outputs: Collection[str] | None) -> None:
        self.columns = columns
        self.outputs = outputs
        self.warnings: list[str] = []

    @property
    def undeclared(self) -> bool:
        """Whether there is a target that does not say what it returns."""
        return self.outputs is not None and not self.outputs

    def resolve(self, key: str, reference: Any, by_target: bool = False) -> Source:
        """Where a reference leads.

        Args:
            key: that is mapped, for messages.
            reference: ``${data.x}``, ``${data$x}``, ``${target.x}``, ``${run.outputs.x}``, or a plain name.
            by_target: whether the target gives such a field as a rule: then a target that does not declare its outputs
                is taken to return a plain name.

        Raises:
            InputError: nowhere.
        """
        if not isinstance(reference, str):
            raise InputError(f"{key!r} must be the name of a column but is {type(reference).__name__}")
        shape = _SHAPE.fullmatch(reference.strip())
        if shape is None:
            if "${" in reference:
                raise InputError(f"{key!r} must be one reference such as ${{data.x}} but is {reference!r:.80}")
            return self._plain(key, reference, by_target)
        found = _REFERENCE.fullmatch(shape[1].strip())
        if found is None:
            raise InputError(
                f"{key!r} must refer to ${{data.x}}, ${{target.x}} or ${{run.outputs.x}} but is {reference!r:.80}"
            )
        root, name = ROOTS[found[1]], found[2]
        return Source(root, self._column(key, name) if root == DATA else self._output(key, name))

    def _plain(self, key: str, name: str, by_target: bool) -> Source:
        """A target's output has precedence over a column of the same name."""
        in_columns = name in self.columns or root_of(name, self.columns) is not None
        if self.outputs and (name in self.outputs or (not in_columns and root_of(name, self.outputs) is not None)):
            return Source(TARGET, name)
        if self.undeclared and by_target:
            return Source(TARGET, name)
        if self.undeclared and in_columns:
            return Source(EITHER, self._column(key, name))
        if self.outputs is None or in_columns or name in FORGIVEN:
            return Source(DATA, self._column(key, name))
        known = [*self.outputs, *self.columns]
        hint = (
            f"; write ${{target.{name}}} if the target returns it" if self.undeclared else f"; {self._shown_outputs()}"
        )
        raise InputError(
            f"{key!r} is {name!r:.80}, which is no column{near_names(name, known)}; {self.shown_columns()}{hint}"
        )

    def _column(self, key: str, name: str) -> str:
        paths = getattr(self.columns, "paths", None)
        if name in self.columns:
            if root_of(name, self.columns) is not None and name in (paths or ()):
                root = root_of(name, self.columns)
                raise InputError(
                    f"{key!r} is {name!r:.80}, which is a column and also {name[len(root or '') + 1 :]!r:.80} of the"
                    f" objects in column {root!r:.80}: rename one of them"
                )
            return name
        root = root_of(name, self.columns)
        if root is not None and (paths is None or name in paths):
            return name
        if root is not None:
            raise ColumnsError(
                f"{key!r} is {name!r:.80}, but column {root!r:.80} has no {name[len(root) + 1 :]!r:.80}{self._seen()}"
                f"{near_names(name, paths or ())}"
            )
        forgiven = FORGIVEN.get(name, "")
        if forgiven in self.columns:
            self.warnings.append(f"data_mapping: there is no column {name!r}, so {key!r} is read from {forgiven!r}")
            return forgiven
        raise ColumnsError(
            f"{key!r} is {name!r:.80}, which is no column{near_names(name, self.columns)}; {self.shown_columns()}"
        )

    def _output(self, key: str, name: str) -> str:
        if self.outputs is None:
            raise InputError(f"{key!r} is ${{target.{name:.80}}}, but there is no target")
        if self.outputs and name not in self.outputs and root_of(name, self.outputs) is None:
            near = near_names(name, self.outputs)
            raise InputError(
                f"{key!r} is {name!r:.80}, which is no output of the target{near}; {self._shown_outputs()}"
            )
        return name

    def shown_columns(self) -> str:
        """The columns, for messages."""
        return f"columns{self._seen(' of ')}: {shown_names(self.columns)}"

    def _seen(self, before: str = " in ") -> str:
        """Which rows were looked at."""
        seen = getattr(self.columns, "seen", "")
        return before + seen if seen else ""

    def _shown_outputs(self) -> str:
        return f"outputs of the target: {shown_names(self.outputs or ())}"


def shown_names(names: Collection[str]) -> str:
    """At most 20 names, for messages."""
    shown = [f"{name!r:.80}" for name in list(names)[:_SHOWN]]
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join(shown + more) or "none"
