"""Registers the runtime's sub-commands; torch is imported only when one of them runs."""

from __future__ import annotations

import typer

from runtime.cli import audit, demo, generate, trace, train


def register(app: typer.Typer) -> None:
    """Add the runtime's sub-commands to ``app``."""
    app.command("generate")(generate.generate)
    app.command("trace")(trace.trace)
    app.command("audit")(audit.audit)
    app.command("demo")(demo.demo)
    app.command("train")(train.train)
