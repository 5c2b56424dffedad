"""What the command does where its streams are not what it hoped for."""

import json
import os
import subprocess
import sys

import pytest

MAIN = "from lawfit.cli.app import main; main()"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "ünï.csv"
    rows = [f"{k % 4},3,{(k * 7 % 11) / 5},p{k % 5}" for k in range(60)]
    path.write_text("\n".join(["accept_len,horizon,root_entropy,prompt_id", *rows]), encoding="utf-8")
    return path


def run(arguments, env=None, **options):
    environment = {**os.environ, **(env or {})}
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


@pytest.mark.parametrize("arguments", [("fit",), ("fit", "--json"), ("fit", "--law", "all", "--by", "prompt_id")])
def test_an_ascii_terminal_gets_a_whole_answer(log, arguments):
    name, *options = arguments
    done = run([name, log, *options], {"PYTHONIOENCODING": "ascii"}, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    if "--json" in options:
        assert json.loads(done.stdout)["fits"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line_and_exit_2(log):
    with open("/dev/full", "w") as full:
        done = run(["fit", log, "--json"], stdout=full)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr.splitlines()[-1]


def test_a_reader_that_goes_away_is_no_error_message(log):
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as gone:
        gone.wait()
        done = run(["fit", log, "--json"], stdout=gone.stdin)
        gone.stdin.close()
    assert "Traceback" not in done.stderr
    assert "lawfit:" not in done.stderr


def test_a_closed_stdout_does_not_stop_the_work(log, tmp_path):
    out = tmp_path / "laws"
    command = f"exec {sys.executable} -c '{MAIN}' fit '{log}' -o '{out}' >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert "Traceback" not in done.stderr
    assert (out / "affine.json").is_file()


def test_an_impossible_file_name_is_one_line_and_exit_2():
    done = run(["fit", "x" * 5000], stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_remarks_that_cannot_be_written_do_not_stop_the_results(log):
    command = [sys.executable, "-c", MAIN, "fit", str(log), "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stderr=full, stdout=subprocess.PIPE, text=True)
        both = subprocess.run(command, stderr=full, stdout=full)
    assert done.returncode == 0
    assert json.loads(done.stdout)["fits"]
    assert both.returncode == 2
