"""The command run in this process, as a user types it: a new interpreter takes seconds to load torch."""

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from lawfit.cli.app import main


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def lawfit(*arguments, cwd="."):
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["lawfit", *map(str, arguments)]),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return Done(code, out.getvalue(), err.getvalue())
