"""The report: one page of tables, figures and plain sentences about a round log."""

from __future__ import annotations

from lawfit.report.build import Options, build

__all__ = ["Options", "build"]
