"""The command `lawfit`: its own sub-commands and those that other packages register."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points, version

import typer

from lawfit.cli import convert, fit
from lawfit.cli.console import note
from lawfit.errors import LawfitError

GROUP = "lawfit.commands"


def build() -> typer.Typer:
    """Assemble the command with every sub-command registered under the entry-point group."""
    app = typer.Typer(
        help="Fit the entropy law of speculative decoding to round logs, and size every draft tree by it.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    convert.register(app)
    fit.register(app)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        entry.load()(app)
    return app


def main() -> None:
    """Run the command; exit 0 when done, 1 when a check failed, 2 on bad input."""
    try:
        build()()
    except LawfitError as error:
        note(f"lawfit: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        note("lawfit: interrupted")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our stdout has gone (`lawfit ... | head`): not our failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(value: bool) -> None:
    if value:
        print(version("lawfit"))
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_show_version, is_eager=True
    ),
) -> None:
    pass
