"""``valor-gpu offline``: evaluations of data in shards."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.options import JSON_HELP, QUIET_HELP, count, output_path

if TYPE_CHECKING:
    from valor_gpu.offline.outcome import OfflineResult

_COMMANDS = {
    "run": "evaluate the shards that are not done yet, then merge all of them into one result",
    "status": "how many shards are done, and which failed and why",
}
_ENGINES = ("local", "pool", "torchrun", "ray")  # valor_gpu.offline.engines.ENGINES, which loads more than it is


def add_options(whole: argparse.ArgumentParser) -> None:
    """Adds the commands, each with its options and what runs it."""
    commands = whole.add_subparsers(dest="subcommand", required=True, metavar="command")
    for name, about in _COMMANDS.items():
        described = f"{about[0].upper()}{about[1:]}."
        command = commands.add_parser(name, help=about, allow_abbrev=False, description=described)
        command.add_argument("config", metavar="CONFIG", help="YAML or JSON file, explained in docs/offline.md")
        command.add_argument("--json", type=output_path, metavar="FILE", help=JSON_HELP)
        if name == "run":
            _add_run_options(command)
        command.set_defaults(run=run if name == "run" else status)


def _add_run_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--engine", choices=_ENGINES, default="local",
        help="local: this process (default); pool: processes of this machine; torchrun: the ranks that run this"
        " command; ray: actors of Ray Data")  # fmt: skip
    add("--workers", type=count, metavar="N", help="processes of pool or actors of ray: default: one for each CPU")
    add("--shard-timeout", type=_seconds, metavar="SECONDS",
        help="a shard that takes longer is ended and fails alone; default: that of CONFIG, or none")  # fmt: skip
    add("--quiet", action="store_true", help=QUIET_HELP)


def _seconds(text: str) -> float:
    """A time limit."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.001 <= found <= 31_536_000:  # as valor_gpu.offline.config has it
        raise argparse.ArgumentTypeError(f"must be seconds from 0.001 to 31,536,000 but got {text!r}")
    return found


def run(options: argparse.Namespace) -> int:
    """Runs ``offline run``: 0 where all shards count, 1 where one failed; the numbers are those of the others."""
    from valor_gpu.offline.config import load_offline_config
    from valor_gpu.offline.run import run_offline
    from valor_gpu.offline.shards import RESULT

    config = load_offline_config(options.config)
    if options.shard_timeout is not None:
        config = replace(config, shard_timeout=options.shard_timeout)
    with _ProgressLine(enabled=not options.quiet) as line:
        result = run_offline(config, options.engine, options.workers, line.tell)
    if result is None:  # a rank of torchrun that does not merge
        return 0
    for warning in _warnings(result):
        print(f"valor-gpu offline run: warning: {warning}", file=sys.stderr)
    if not _written(options, "offline run", result) and not options.quiet:
        from valor_gpu.report.text import printable_lines

        print(printable_lines(f"{result}\nwrote {config.output}/{RESULT}"))
    return 1 if result.failures else 0


def status(options: argparse.Namespace) -> None:
    """Runs ``offline status``."""
    from valor_gpu.offline.run import offline_status

    found = offline_status(options.config)
    if not _written(options, "offline status", found):
        from valor_gpu.report.text import printable_lines

        print(printable_lines(str(found)))


def _written(options: argparse.Namespace, command: str, found: Any) -> bool:
    """Writes ``--json``, and says whether that was standard output."""
    if options.json is None:
        return False
    from valor_gpu.report.files import is_standard_output, write_json

    write_json(options.json, {"command": command, **found.to_dict()})
    return is_standard_output(options.json)


def _warnings(result: OfflineResult) -> list[str]:
    """What a reader of the numbers has to know first."""
    from valor_gpu.inputs.missing_fields import describe_missing
    from valor_gpu.report.text import plural

    found = []
    if result.failures:
        found.append(f"{plural(len(result.failures), 'shard')} of {result.counts['shards']:,} failed and do not count")
    if result.bad_rows:
        found.append(f"{plural(len(result.bad_rows), 'row')} could not be evaluated and do not count")
    if result.duplicates:
        found.append(f"{plural(len(result.duplicates), 'shard')} left out, with the content of another one")
    found += describe_missing(result.counts, "that of the box or mask")
    if result.empty:
        found.append(f"{plural(len(result.empty), 'shard')} without rows, such as {result.empty[0]}")
    return found


class _ProgressLine:
    """A line on standard error for each tenth of the shards, and for each that fails.

    No bar of :mod:`valor_gpu.progress`: logs of batch jobs keep these lines.

    Args:
        enabled: False: only failures.
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled, self._shown = enabled, -1

    def __enter__(self) -> _ProgressLine:
        return self

    def __exit__(self, *error: object) -> None:
        sys.stderr.flush()

    def tell(self, done: int, total: int, record: Any) -> None:
        """Says how far it is."""
        from valor_gpu.offline.outcome import cause
        from valor_gpu.report.text import printable

        if record.error:
            print(printable(f"failed: {cause(record)}"), file=sys.stderr)
        tenth = 10 * done // total
        if self._enabled and tenth > self._shown:
            self._shown = tenth
            print(f"{done:,} of {total:,} shards", file=sys.stderr, flush=True)
