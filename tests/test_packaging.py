"""What holds of the distribution as a whole."""

import subprocess
import sys
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lawfit", "policy", "runtime")


def test_no_other_installed_distribution_provides_our_import_names():
    providers = {name: set() for name in PACKAGES}
    for distribution in distributions():
        tops = {file.parts[0].removesuffix(".py") for file in distribution.files or [] if file.suffix == ".py"}
        tops |= set((distribution.read_text("top_level.txt") or "").split())
        for name in PACKAGES:
            if name in tops:
                providers[name].add(distribution.metadata["Name"])
    assert all(owners <= {"lawfit"} for owners in providers.values()), providers


@pytest.mark.parametrize("package", ["lawfit", "policy", "runtime.cli.app"])
def test_importing_the_base_loads_no_heavy_library(package):
    heavy = ("torch", "transformers", "matplotlib", "statsmodels", "sklearn")
    code = f"import sys, {package}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_every_public_module_states_what_it_is():
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            first = path.read_text(encoding="utf-8").lstrip()
            assert first.startswith(('"""', 'r"""')), path


def test_files_and_functions_stay_small():
    import ast

    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert text.count("\n") <= 300, path
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef):
                    body = node.body[1:] if ast.get_docstring(node) else node.body
                    lines = (node.end_lineno - body[0].lineno + 1) if body else 0
                    assert lines <= 50, f"{path}:{node.lineno} {node.name} has {lines} lines"


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed: run by `make core`")
@pytest.mark.parametrize("command", [["generate", "x"], ["audit", "--prompts", "p"], ["demo"]])
def test_without_torch_a_decoding_command_says_what_to_install(command):
    code = f"import sys; sys.argv = ['lawfit', *{command}]; from lawfit.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert (
        done.stderr.strip()
        == "lawfit: this command needs torch, transformers, safetensors: pip install 'lawfit[runtime]'"
    )
