"""jinja2's sandbox with limits on what a template may make and how long it may take. No torch.

jinja2 asks neither before it formats, slices, compares or spreads values nor when it computes constants while it
compiles. So the tree of a template gets calls of the sandbox's own around all that could make something large or take
long, by names that no template can reach, and nothing is computed before a template is filled in.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.prompts._budget import (
    ELEMENT,
    MOST_STEPS,
    bounded,
    each,
    made,
    size_of,
    take,
    text_of,
)
from valor_gpu.evaluation.prompts._filters import METHODS, filters, method_of, tests
from valor_gpu.evaluation.prompts._formats import format_method

__all__ = ["bounded", "check_pieces", "compiled", "environment", "jinja2_package"]

MOST_PIECES = 50_000  # names, signs and texts; the compiler needs about 3 kB for each


def jinja2_package() -> Any:
    """Returns the package jinja2.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        importlib.import_module("jinja2.sandbox")
        importlib.import_module("jinja2.meta")
        return importlib.import_module("jinja2")
    except ImportError:
        raise MissingExtraError("jinja2", "eval", "a prompt template") from None


def check_pieces(text: str) -> None:
    """Raises :class:`InputError` for a template of more names, signs and texts than are compiled."""
    n = 0
    try:
        for _, kind, _ in environment().lex(text):
            n += kind != "whitespace"
            if n > MOST_PIECES:
                raise InputError(
                    f"a template must have at most {MOST_PIECES:,} names and signs but has more: loop over a list"
                )
    except jinja2_package().TemplateError:
        return  # which is said when it is compiled


def compiled(text: str) -> tuple[Any, frozenset[str]]:
    """Returns a template of jinja2, and the names that it reads and does not set itself.

    Raises:
        InputError: too many names and signs.
    """
    check_pieces(text)
    sandbox = environment()
    with bounded():
        tree = sandbox.parse(text)
        names = jinja2_package().meta.TrackingCodeGenerator(sandbox)
        names.optimizer = None  # which would compute constants, of any size
        names.visit(tree)
        return sandbox.from_string(text), frozenset(names.undeclared_identifiers) - set(sandbox.globals)


def _bounded_range(*numbers: int) -> range:
    found = range(*numbers)
    if len(found) > MOST_STEPS:
        raise InputError(f"range must have at most {MOST_STEPS:,} numbers")
    return found


def _operated(operator: str, left: Any, right: Any, compute: Callable[[Any, Any], Any]) -> Any:
    """An operator on two values that could make something large."""
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    take()
    if operator == "**" and not (numbers and abs(left) <= 1e6 and abs(right) <= 64):
        raise InputError("** must have numbers of at most a million to the power of 64")
    if operator == "%" and not numbers:
        raise InputError("% must have numbers: it formats no texts here, which '{:>5}'.format(x) does")
    if operator == "*" and not numbers:
        value, times = (left, right) if hasattr(left, "__len__") else (right, left)
        take(size_of(value) * max(0, int(times)))
    if operator == "*" and numbers and max(abs(left), abs(right)) > 1e300:
        raise InputError("* must have numbers of at most 1e300")
    if operator in ("+", "-") and not numbers:
        escapes = 5 if hasattr(left, "__html__") or hasattr(right, "__html__") else 1
        take(escapes * (size_of(left) + size_of(right)))
    return compute(left, right)


class _Counting:
    """Puts the sandbox's own calls into a tree: a count into loops, macros and blocks, and around what could be large.

    Subclasses are transformers of jinja2.

    Attributes:
        jinja2: the package.
    """

    jinja2: Any
    generic_visit: Callable[[Any], Any]

    def visit_For(self, node: Any) -> Any:
        nodes = self.jinja2.nodes
        size = sum(len(data.data) for each in node.body for data in _data_of(each, nodes))
        self.generic_visit(node)
        call = self._call("count_round", [nodes.Const(size)], node)
        node.body.insert(0, nodes.Output([call]).set_lineno(node.lineno))
        return self._spreading(node)

    visit_Macro = visit_CallBlock = visit_Block = visit_For

    def _call(self, name: str, values: list[Any], node: Any) -> Any:
        """A call of a method of the sandbox, which templates have no name for."""
        nodes = self.jinja2.nodes
        return nodes.Call(nodes.EnvironmentAttribute(name), values, [], None, None).set_lineno(node.lineno)

    def visit_List(self, node: Any) -> Any:
        return self._call("count_made", [self.generic_visit(node)], node)

    visit_Dict = visit_List

    def visit_Tuple(self, node: Any) -> Any:
        return self.visit_List(node) if node.ctx == "load" else self.generic_visit(node)

    def visit_Concat(self, node: Any) -> Any:
        return self._call("concatenate", self.generic_visit(node).nodes, node)

    def visit_Getitem(self, node: Any) -> Any:
        self.generic_visit(node)
        return self._call("count_slice", [node], node) if isinstance(node.arg, self.jinja2.nodes.Slice) else node

    def visit_Compare(self, node: Any) -> Any:
        return self._call("timed", [self.generic_visit(node)], node)

    def visit_Call(self, node: Any) -> Any:
        return self._spreading(self.generic_visit(node))

    visit_Filter = visit_Test = visit_Call

    def _spreading(self, node: Any) -> Any:
        for field, name in (("dyn_args", "spread"), ("dyn_kwargs", "spread_named")):
            if getattr(node, field, None) is not None:
                setattr(node, field, self._call(name, [getattr(node, field)], node))
        return node

    def visit_ScopedEvalContextModifier(self, node: Any) -> Any:
        if any(getattr(option.value, "value", True) for option in node.options):
            raise self.jinja2.TemplateSyntaxError("autoescape cannot be used here: write {{ x|escape }}", node.lineno)
        return self.generic_visit(node)


def _data_of(node: Any, nodes: Any) -> list[Any]:
    return [node] if isinstance(node, nodes.TemplateData) else list(node.find_all(nodes.TemplateData))


class _Counts:
    """What compiled templates call, and what they may read. Subclasses are environments of jinja2."""

    intercepted_binops = frozenset(["*", "**", "%", "+", "-", "/", "//"])
    binop_table: dict[str, Callable[[Any, Any], Any]]

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        return _operated(operator, left, right, self.binop_table[operator])

    def method(self, obj: Any, name: Any) -> Any:
        """Returns a method of a text that counts; None of what is none."""
        if not isinstance(obj, str) or not isinstance(name, str) or name not in METHODS[str]:
            return None
        return format_method(self, obj, name) if name in ("format", "format_map") else method_of(obj, name)

    def count_round(self, size: int) -> str:
        """Counts a round of a loop, whose own text has ``size`` characters."""
        take(size, 1)
        return ""

    def count_made(self, value: Any) -> Any:
        """Returns a list or dict of a template, counted whole."""
        return made(value)

    def count_slice(self, value: Any) -> Any:
        """Returns a part of a text or list, counted."""
        is_text = isinstance(value, str)
        take(ELEMENT + (len(value) if is_text else ELEMENT * len(value) if hasattr(value, "__len__") else 0))
        return value

    def concatenate(self, *values: Any) -> str:
        """Returns what operator ``~`` makes."""
        take(ELEMENT)
        return "".join(map(text_of, values))

    def timed(self, value: Any) -> Any:
        """Returns what a comparison found, and looks at the clock."""
        take()
        return value

    def spread(self, values: Any) -> list[Any]:
        """Returns the elements that ``*values`` gives to a call, counted."""
        return list(each(values))

    def spread_named(self, values: Any) -> dict[str, Any]:
        """Returns what ``**values`` gives to a call, counted."""
        return dict(made(values))


def _may_read(obj: Any, name: str) -> bool:
    kind = next((kind for kind in METHODS if isinstance(obj, kind)), None)
    if kind is None:
        return type(obj).__module__ not in ("builtins", "functools")
    return name in METHODS[kind]


def _sandbox_class(jinja2: Any) -> Any:
    """The class of the sandbox."""
    kinds = (_Counting, jinja2.visitor.NodeTransformer)
    counting = type("Counting", kinds, {"jinja2": jinja2})()

    class Sandbox(_Counts, jinja2.sandbox.ImmutableSandboxedEnvironment):  # type: ignore[name-defined, misc]
        def _parse(self, source: str, name: Any, filename: Any) -> Any:
            tree = counting.visit(super()._parse(source, name, filename))
            return tree.set_environment(self)

        def call(self, context: Any, function: Any, /, *values: Any, **named: Any) -> Any:
            take()
            if getattr(function, "catch_varargs", False) or getattr(function, "catch_kwargs", False):
                take(size_of(values) + size_of(named))  # a macro may keep them as one value
            return super().call(context, function, *values, **named)

        def getattr(self, obj: Any, attribute: str) -> Any:
            own = self.method(obj, attribute)
            return super().getattr(obj, attribute) if own is None else own

        def getitem(self, obj: Any, argument: Any) -> Any:
            own = self.method(obj, argument)
            return super().getitem(obj, argument) if own is None else own

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return _may_read(obj, attr) and bool(super().is_safe_attribute(obj, attr, value))

    return Sandbox


@cache
def environment() -> Any:
    """Returns the sandbox, made once."""
    jinja2 = jinja2_package()

    @jinja2.pass_context  # type: ignore[untyped-decorator]
    def shown(_context: Any, value: Any) -> str:  # with a context, jinja2 computes no constant while it compiles
        return text_of(value)

    sandbox = _sandbox_class(jinja2)(
        undefined=jinja2.StrictUndefined, finalize=shown, autoescape=False, keep_trailing_newline=True, optimized=False
    )
    sandbox.filters, sandbox.tests = filters(sandbox.filters), tests(sandbox.tests)
    sandbox.globals = {
        "range": _bounded_range,
        "dict": lambda **values: made(values),
        "namespace": jinja2.utils.Namespace,
    }
    return sandbox
