"""``valor-gpu store``: whether the file of a store is whole, and a new one of what is."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from valor_gpu.cli.options import check_outputs, input_path, output_path, paths_of
from valor_gpu.errors import InputError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from valor_gpu.store.damages import Report

_SHOWN = 100
_JSON_HELP = (
    "write counts and every damaged place, explained in docs/evaluation/store.md; - prints them in place of the report"
)
_ABOUT = {
    "check": "read all of a store and list what is damaged; nothing is written. Exit status: 0 whole, 1 damaged, 2"
    " nothing can be read",
    "export": "make a new store of all that is whole in another one, and list what is lost. Exit status: 0 all is"
    " saved, 1 something is lost, 2 nothing was made",
}


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the commands, each with its options and what runs it."""
    commands = command.add_subparsers(dest="subcommand", required=True, metavar="command")
    for name, run in (("check", _check), ("export", _export)):
        about = _ABOUT[name]
        described = f"{about[0].upper()}{about[1:]}."
        nested = commands.add_parser(
            name, help=about, allow_abbrev=False, description=described, formatter_class=command.formatter_class
        )
        nested.add_argument("store", metavar="STORE", type=input_path, help="file of the store")
        if name == "export":
            nested.add_argument("new", metavar="NEW", type=output_path, help="file of the new store; must not exist")
        nested.add_argument("--json", type=output_path, metavar="FILE", help=_JSON_HELP)
        nested.formatter_class = argparse.HelpFormatter
        nested.set_defaults(run=run)


def _check(options: argparse.Namespace) -> int:
    from valor_gpu.store.checking import check

    report = _report(options, lambda: check(options.store))
    return 0 if report.is_whole else 1


def _export(options: argparse.Namespace) -> int:
    from valor_gpu.store.rescue import export

    report = _report(options, lambda: export(options.store, options.new))
    return 1 if report.n_lost or report.unknown else 0


def _report(options: argparse.Namespace, work: Callable[[], Report]) -> Report:
    """Does the work, then prints or writes what it found."""
    from valor_gpu.report.document import document_head
    from valor_gpu.report.files import is_standard_output, write_json

    outputs = [("--json", options.json), ("NEW", getattr(options, "new", None))]
    check_outputs(outputs, paths_of([("STORE", options.store)]))
    try:
        report = work()
    except StoreError as error:
        raise InputError(str(error)) from error  # exit status 2: neither whole nor damaged
    if options.json is not None:
        write_json(options.json, {**document_head(options.command), **report.to_dict()})
        if is_standard_output(options.json):
            return report
    print("\n".join(_lines(options, report)))
    return report


def _lines(options: argparse.Namespace, report: Report) -> list[str]:
    from valor_gpu.report.text import plural, printable

    lines = [f"{report.path}: version {report.version}, {plural(len(report.runs), 'run')}"]
    names = [name for name in {**report.whole, **report.lost} if not report.damages or name not in ("leases",)]
    lines += [f"  {name}: {report.whole.get(name, 0):,} whole, {report.lost.get(name, 0):,} lost" for name in names]
    lines += [f"{printable(each.place)}: {printable(each.what)}" for each in report.damages[:_SHOWN]]
    if len(report.damages) > _SHOWN:
        lines.append(f"and {len(report.damages) - _SHOWN:,} more places: --json FILE lists all")
    if hasattr(options, "new"):
        lost = plural(report.n_lost, "record")
        more = f", and more of {', '.join(report.unknown)} that nothing names" if report.unknown else ""
        lines.append(f"wrote {options.new}: {f'without {lost}{more}' if report.n_lost or more else 'all is saved'}")
    elif report.is_whole:
        lines.append("whole")
    else:
        typed = shlex.quote(options.store)
        lines.append(f"damaged: valor-gpu store export {typed} NEW saves the rest into a new store")
    return lines
