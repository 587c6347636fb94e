"""``valor-gpu doctor``: what is installed, and which kernel serves each op."""

from __future__ import annotations

import argparse


def add_options(doctor: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from valor_gpu.report.doctor import doctor_text, survey

    facts = survey()
    if options.json:
        import json

        print(json.dumps(facts, indent=2))
    else:
        print(doctor_text(facts))
