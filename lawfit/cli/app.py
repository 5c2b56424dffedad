"""The command `lawfit`: its own sub-commands and those that other packages register."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from importlib.metadata import entry_points, version
from typing import NoReturn

import typer

from lawfit.cli import calibrate, check, compress, convert, fit, report
from lawfit.cli.console import note, silence
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
    compress.register(app)
    fit.register(app)
    check.register(app)
    calibrate.register(app)
    report.register(app)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        entry.load()(app)
    return app


def main() -> None:
    """Run the command; exit 0 when done, 1 when a check failed, 2 on bad input."""
    _prepare_streams()
    try:
        build()()
    except SystemExit:
        _finish()
        raise
    except LawfitError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except (OSError, UnicodeError) as error:
        # What a path or a stream can do to us: too long a name, a full disk behind stdout.
        _fail(str(error), 2)


def _prepare_streams() -> None:
    """Make output safe: a reader that goes away ends us quietly, and no character can stop a line."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _finish() -> None:
    """Flush what is left of the results; a disk that is full by now is an error like any other."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _fail(f"stdout: {error.strerror}", 2)


def _fail(message: str, code: int) -> NoReturn:
    note(f"lawfit: {message}")
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    silence(sys.stdout)
    sys.exit(code)


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
