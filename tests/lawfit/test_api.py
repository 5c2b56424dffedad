from __future__ import annotations

import subprocess
import sys

import lawfit


def test_public_names_exist() -> None:
    assert all(hasattr(lawfit, name) for name in lawfit.__all__)


def test_importing_lawfit_loads_no_heavy_library() -> None:
    heavy = ("matplotlib", "sklearn", "statsmodels", "scipy.optimize", "torch", "typer")
    code = f"import sys, lawfit; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
