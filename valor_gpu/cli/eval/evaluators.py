"""``valor-gpu eval evaluators``: what there is by name, and the versions of what users saved."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.eval.options import (
    add_store_option,
    check_files,
    existing_store,
    run_here,
    settings_of,
    write_document,
)
from valor_gpu.cli.options import JSON_HELP, output_path, setting
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.evaluation.evaluators.base import EvaluatorInfo
    from valor_gpu.store import EvaluatorVersion


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the commands, each with its options and what runs it."""
    actions = command.add_subparsers(dest="action", required=True, metavar="action")

    def add(name: str, about: str, run: Any) -> argparse.ArgumentParser:
        described = f"{about[0].upper()}{about[1:]}."
        formatter = command.formatter_class
        action = actions.add_parser(
            name, help=about, allow_abbrev=False, description=described, formatter_class=formatter
        )
        add_store_option(action)
        action.set_defaults(run=run)
        return action

    def add_name(action: argparse.ArgumentParser, text: str = "name of an evaluator") -> None:
        action.add_argument("name", metavar="NAME", help=text)

    listed = add("list", "built-in evaluators, and the newest version of those saved in the store", list_all)
    listed.add_argument("--saved", action="store_true", help="only those of the store")
    listed.add_argument("--deleted", action="store_true", help="those of the store that are deleted")
    shown = add("show", "what an evaluator needs, its scale and parameters, or the content of a saved one", show)
    add_name(shown, "name of an evaluator, or a version of it: name@3")
    _add_prompt_options(shown)
    for action in (listed, shown):
        action.add_argument("--json", type=output_path, metavar="FILE", help=JSON_HELP)
    saved = add("save", "keep an evaluator under a name; other content under the same name is a new version", save)
    add_name(saved)
    saved.add_argument("what", metavar="WHAT",
        help="file of a prompt (.prompty, or a template in .jinja2, .md, .txt), module:function, or a built-in"
        " evaluator, whose parameters --param sets")  # fmt: skip
    saved.add_argument("--param", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="parameter of the evaluator, or low, high, higher_is_better of a function or prompt; again for"
        " several")  # fmt: skip
    saved.add_argument("--note", default="", metavar="TEXT", help="what changed")
    difference = add("diff", "what differs between two versions of a saved evaluator", diff)
    add_name(difference)
    difference.add_argument("old", type=version, metavar="OLD", help="number of a version, or 8 digits of its hash")
    difference.add_argument("new", type=version, nargs="?", metavar="NEW", help="the same; default: the newest")
    restored = add("restore", "make the content of an old version the newest version, or undo a deletion", restore)
    add_name(restored)
    restored.add_argument("version", type=version, nargs="?", metavar="VERSION", help="default: the newest")
    add_name(add("delete", "take an evaluator out of the list; its versions stay, since runs name them", delete))


def _add_prompt_options(shown: argparse.ArgumentParser) -> None:
    shown.add_argument("--prompt", action="store_true",
        help="print the prompt of a judged metric alone: a .prompty file to be changed and saved")  # fmt: skip
    shown.add_argument("--task", choices=("qa", "chat"), help="of --prompt of a built-in metric; default: qa")


def version(text: str) -> int | str:
    """The number of a version, or the beginning of its hash."""
    return int(text) if text.isdecimal() and len(text) < 8 else text


def list_all(options: argparse.Namespace) -> None:
    """Runs ``list``."""
    from valor_gpu.evaluation.evaluators.table import EVALUATORS
    from valor_gpu.report.evaluators import evaluator_table, library_table

    check_files(options)
    only_saved = options.saved or options.deleted
    saved = _saved(options)
    if options.json is not None:
        builtin = {} if only_saved else {name: _described(info) for name, info in EVALUATORS.items()}
        found = {"saved": [_version_of(each) for each in saved], "builtin": builtin}
        if write_document(options, "eval evaluators list", found):
            return
    parts = [library_table(saved)] if saved else []
    if not only_saved:
        parts.append(evaluator_table(EVALUATORS.values()))
    nothing = "no evaluator is deleted" if options.deleted else "no evaluator is saved in the store"
    print("\n\n".join(parts) or nothing)


def _saved(options: argparse.Namespace) -> list[EvaluatorVersion]:
    """The evaluators of the store; none where there is no store, unless one is named."""
    from valor_gpu.store.database import default_path

    if options.store is None and not default_path().exists():
        return []
    with existing_store(options) as store:
        return store.evaluators.list(deleted=options.deleted)


def show(options: argparse.Namespace) -> None:
    """Runs ``show``."""
    from valor_gpu.evaluation.evaluators.table import EVALUATORS

    check_files(options)
    name, at, wanted = options.name.partition("@")
    if options.task is not None and not options.prompt:
        raise InputError("--task must go with --prompt but that is not given")
    if options.prompt:
        if options.json is not None:
            raise InputError("--prompt must go without --json but both are given")
        print(_prompt(options, name, wanted if at else None).removesuffix("\n"))
        return
    if not at and name in EVALUATORS:
        from valor_gpu.report.evaluators import evaluator_text

        found: dict[str, Any] = _described(EVALUATORS[name])
        text = evaluator_text(EVALUATORS[name])
    else:
        kept = _version(options, name, version(wanted) if at else None)
        found = {**_version_of(kept), "content": kept.content}
        text = _content_text(kept)
    if not write_document(options, "eval evaluators show", {"evaluator": {"name": name, **found}}):
        print(text)


def _prompt(options: argparse.Namespace, name: str, wanted: str | None) -> str:
    """The prompt of an evaluator as the text of a prompt file."""
    from valor_gpu.evaluation.evaluators.table import EVALUATORS
    from valor_gpu.report.text import printable_lines

    if wanted is None and name in EVALUATORS:
        from valor_gpu.evaluation.prompts.prompt_copy import prompt_copy

        return prompt_copy(name, options.task or "qa")
    if options.task is not None:
        raise InputError(f"--task must be of a built-in metric but {options.name!r} is a saved one")
    kept = _version(options, name, None if wanted is None else version(wanted))
    text = kept.content.get("prompt") if isinstance(kept.content, Mapping) else None
    if not isinstance(text, str):
        raise InputError(f"--prompt must be of an evaluator that is a prompt but {name!r} is none")
    return printable_lines(text)


def _version(options: argparse.Namespace, name: str, wanted: int | str | None) -> EvaluatorVersion:
    from valor_gpu.checks import near_names
    from valor_gpu.evaluation.evaluators.table import EVALUATORS
    from valor_gpu.store.database import default_path

    if options.store is None and not default_path().exists():
        raise InputError(f"no evaluator {name!r}, and no store with others{near_names(name, EVALUATORS)}")
    with existing_store(options) as store:
        try:
            return store.evaluators.get(name, wanted)
        except InputError as error:
            known = [*EVALUATORS, *(each.name for each in store.evaluators.list())]
            raise InputError(f"{error}{'' if name in known else near_names(name, known)}") from None


def save(options: argparse.Namespace) -> None:
    """Runs ``save``."""
    from valor_gpu.evaluation.evaluators import saved as library
    from valor_gpu.store import Store

    run_here()
    with Store(options.store) as store:
        given = settings_of("--param", options.param)
        kept = library.save_evaluator(store, options.name, options.what, options.note, parameters=given)
    print(f"{kept.name} version {kept.number}, {kept.hash[:16]}")


def diff(options: argparse.Namespace) -> None:
    """Runs ``diff``; prints nothing where nothing differs."""
    with existing_store(options) as store:
        found = store.evaluators.diff(options.name, options.old, options.new)
    if found:
        print(found)


def restore(options: argparse.Namespace) -> None:
    """Runs ``restore``."""
    with existing_store(options) as store:
        wanted = store.evaluators.get(options.name).number if options.version is None else options.version
        kept = store.evaluators.restore(options.name, wanted)
    print(f"{kept.name} version {kept.number}, {kept.hash[:16]}: {kept.note}")


def delete(options: argparse.Namespace) -> None:
    """Runs ``delete``."""
    with existing_store(options) as store:
        store.evaluators.delete(options.name)
    print(f"{options.name} is deleted; valor-gpu eval evaluators restore {options.name} undoes it")


def _described(info: EvaluatorInfo) -> dict[str, Any]:
    """A row of the table of evaluators as JSON."""
    sets = {name: sorted(getattr(info, name)) for name in ("requires", "needs", "tasks")}
    plain = {name: getattr(info, name) for name in ("kind", "summary", "low", "high", "higher_is_better")}
    return {**plain, **sets, "parameters": dict(info.parameters)}


def _version_of(kept: EvaluatorVersion) -> dict[str, Any]:
    return {"name": kept.name, "version": kept.number, "hash": kept.hash, "note": kept.note, "created": kept.created}


def _content_text(kept: EvaluatorVersion) -> str:
    """A saved evaluator: texts as they are, since prompts have many lines."""
    from valor_gpu.report.text import printable_lines

    head = f"{kept.name} version {kept.number}, {kept.hash[:16]}" + (f": {kept.note}" if kept.note else "")
    content = kept.content if isinstance(kept.content, Mapping) else {"content": kept.content}
    parts = [
        f"{name}:\n{value}" if isinstance(value, str) and "\n" in value
        else f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in content.items()
    ]  # fmt: skip
    return printable_lines("\n".join([head, *parts]))
