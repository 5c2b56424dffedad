import json
import sys

import pytest

from lawfit.cli.app import main
from lawfit.readers import FORMATS, read_rounds
from lawfit.schema import COLUMNS

VLLM = (
    "INFO SpecDecoding metrics: Mean acceptance length: 1.73, Accepted: 51 tokens, Drafted: 350 tokens, "
    "Per-position acceptance rate: 0.443, 0.171, 0.057, 0.029, 0.029, Avg Draft acceptance rate: 14.6%"
)
ROWS = '{"acc": 2, "H": 0.5, "p": "x"}\n{"acc": 4, "H": null, "p": "y"}\n'
OPTIONS = ["--map", "accept_len=acc-1,root_entropy=H", "--map", "prompt_id=p", "--set", "horizon=6,task=a, b"]


@pytest.fixture
def lawfit(monkeypatch, capsys, tmp_path):
    """Run the command in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lawfit", "convert", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(ROWS)
    return path.name


@pytest.mark.parametrize("output", ["rounds.parquet", "rounds.jsonl"])
def test_a_mapped_table_becomes_a_round_log_with_a_summary_on_stdout(lawfit, table, output):
    code, out, err = lawfit(table, *OPTIONS, "-o", output)
    assert code == 0
    assert out == (f"2 rounds, requests: 2, prompts: 2, mean accept_len 2.0000, with entropy: 50.0% -> {output}\n")
    assert "t.jsonl: read as mapped" in err
    frame = read_rounds(output).frame
    assert frame.select("accept_len", "horizon", "task").rows() == [(1, 6, "a, b"), (3, 6, "a, b")]


def test_json_gives_the_summary_for_programs(lawfit, table):
    code, out, _ = lawfit(table, *OPTIONS, "-o", "r.parquet", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary.pop("notes")[0] == "t.jsonl: read as mapped"
    assert summary == {
        "rounds": 2,
        "rows": 2,
        "requests": 2,
        "prompts": 2,
        "mean_accept_len": 2.0,
        "entropy_share": 0.5,
        "output": "r.parquet",
    }


def test_the_summary_weighs_histogram_rows_by_their_count(lawfit, tmp_path):
    rows = ({"accept_len": 0, "horizon": 3, "count": 9}, {"accept_len": 3, "horizon": 3, "count": 1})
    (tmp_path / "h.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, out, _ = lawfit("h.jsonl", "-o", "r.parquet")
    assert out.startswith("10 rounds, requests: unknown, prompts: unknown, mean accept_len 0.3000, with entropy: 0.0%")


def test_several_inputs_become_one_log(lawfit, table, tmp_path):
    (tmp_path / "u.jsonl").write_text(ROWS)
    code, out, _ = lawfit(table, "u.jsonl", *OPTIONS, "-o", "r.parquet")
    assert code == 0
    assert out.startswith("4 rounds, requests: 4, prompts: 2")
    assert read_rounds("r.parquet").frame["run_id"].to_list() == ["t", "t", "u", "u"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.jsonl", "-o", "r.parquet"], "lawfit: absent.jsonl: no such file"),
        (["absent.jsonl", "-o", "r.txt"], "lawfit: r.txt: suffix '.txt', expected .parquet or .jsonl"),
        (["absent.jsonl", "-o", "r"], "lawfit: r: suffix '', expected .parquet or .jsonl"),
        (["t.jsonl", "-o", "t.jsonl"], "lawfit: t.jsonl: is also an input, expected another file name"),
        (["t.jsonl", "-o", "d.parquet"], "lawfit: d.parquet: is a folder, expected a file name"),
        (
            ["t.jsonl", "-o", "r.parquet", "--format", "excel"],
            "lawfit: no format 'excel', expected auto, own",
        ),
        (
            ["t.jsonl", "-o", "r.parquet", "--map", "accept_len"],
            "lawfit: --map 'accept_len': 'accept_len' is not",
        ),
        (["t.jsonl", "-o", "r.parquet", "--set", "horizon="], "lawfit: --set 'horizon=': 'horizon=' is not"),
        (
            ["t.jsonl", "-o", "r.parquet", "--set", "horizon=6,horizon=7"],
            "lawfit: --set: horizon is given twice",
        ),
        (
            ["t.jsonl", "-o", "r.parquet", "--set", "horizon=six"],
            "lawfit: --set horizon=six: expected a whole",
        ),
        (["t.jsonl", "-o", "r.parquet"], "lawfit: t.jsonl: not a known log, and no column gives horizon and"),
        (["t.jsonl", *OPTIONS, "-o", "t.jsonl/r.parquet"], "lawfit: t.jsonl/r.parquet: cannot be written"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_2_and_nothing_written(lawfit, table, tmp_path, arguments, message):
    (tmp_path / "d.parquet").mkdir()
    code, out, err = lawfit(*arguments)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith(message)
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.parquet", "t.jsonl"]
    assert (tmp_path / table).read_text() == ROWS


def test_an_output_beside_a_recorders_parts_is_refused(lawfit, table, tmp_path):
    (tmp_path / "r.parquet.parts").mkdir()
    code, _, err = lawfit(table, *OPTIONS, "-o", "r.parquet")
    assert (code, err) == (
        2,
        "lawfit: r.parquet: a recorder's r.parquet.parts beside it would be read as more of its rows\n",
    )


def test_a_failed_conversion_leaves_an_earlier_output_alone(lawfit, table, tmp_path):
    (tmp_path / "r.parquet").write_bytes(b"earlier")
    code, _, _ = lawfit(table, "-o", "r.parquet")
    assert code == 2
    assert (tmp_path / "r.parquet").read_bytes() == b"earlier"


def test_help_shows_formats_columns_and_examples(lawfit):
    code, out, _ = lawfit("--help")
    assert code == 0
    for word in (*(known.name for known in FORMATS), "--map", "--set", "--where", "Examples", "horizon=15"):
        assert word in out
    for column in COLUMNS:
        assert column.name in out
    for line in (f"- {known.name}: {known.about}" for known in FORMATS):
        assert line in out
    assert len(out.splitlines()) <= 75


def test_rows_are_filtered_before_they_are_mapped(lawfit, tmp_path):
    (tmp_path / "w.csv").write_text("acc,warm,n\n5,true,1\n2,false,2\n4,false,3\n")
    code, out, err = lawfit(
        *("w.csv", "--map", "accept_len=acc-1", "--set", "horizon=6", "--where", "warm=false", "--where", "n>2"),
        *("-o", "r.parquet"),
    )
    assert code == 0
    assert out.startswith("1 round,")
    assert "w.csv: --where warm=false kept 2 of 3 rows" in err
    assert read_rounds("r.parquet").frame["accept_len"].to_list() == [3]


@pytest.mark.parametrize(("where", "message"), [("warm", "expected COLUMN=VALUE"), ("cold=1", "no column 'cold'")])
def test_a_bad_condition_is_one_line_and_exit_2(lawfit, table, where, message):
    code, out, err = lawfit(table, *OPTIONS, "--where", where, "-o", "r.parquet")
    assert (code, out) == (2, "")
    assert message in err.splitlines()[-1]


def test_files_of_several_formats_become_one_log_with_their_runs_apart(lawfit, tmp_path):
    (tmp_path / "server.log").write_text(VLLM + "\n")
    (tmp_path / "rounds.jsonl").write_text('{"accept_len": 1, "horizon": 3, "request_id": "a"}\n')
    block = {"acceptance_histogram": [1, 1], "num_spec_steps": 2, "num_draft_tokens": 2, "num_accepted_draft_tokens": 1}
    block["num_spec_tokens"] = 1
    (tmp_path / "r.json").write_text(json.dumps({"id": "a", "metrics": {"speculative_decoding": block}}))
    code, out, err = lawfit("server.log", "rounds.jsonl", "r.json", "-o", "all.parquet")
    assert code == 0
    assert out.startswith("73 rounds, requests: 2")
    for name, kind in (("server.log", "vllm-lines"), ("rounds.jsonl", "mapped"), ("r.json", "vllm")):
        assert f"{name}: read as {kind}" in err
    assert read_rounds("all.parquet").frame["run_id"].unique(maintain_order=True).to_list() == ["server", "rounds", "r"]


def test_a_folder_stands_for_its_files(lawfit, tmp_path):
    (tmp_path / "logs").mkdir()
    for name in ("a.log", "b.log", ".hidden"):
        (tmp_path / "logs" / name).write_text(VLLM + "\n")
    code, out, _ = lawfit("logs", "-o", "all.parquet")
    assert code == 0
    assert out.startswith("140 rounds")
    assert read_rounds("all.parquet").frame["run_id"].unique(maintain_order=True).to_list() == ["a", "b"]


def test_many_files_show_their_progress(lawfit, tmp_path):
    for number in range(12):
        (tmp_path / f"{number:02}.log").write_text(VLLM + "\n")
    _, _, err = lawfit(*(f"{number:02}.log" for number in range(12)), "-o", "all.parquet")
    assert "reading files: 12/12" in err


def test_an_output_within_an_input_folder_is_refused_where_it_is_an_input(lawfit, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text('{"accept_len": 1, "horizon": 3}\n')
    code, _, err = lawfit("logs", "-o", "logs/a.jsonl")
    assert (code, err) == (2, "lawfit: logs/a.jsonl: is also an input, expected another file name\n")


def test_means_are_reported_on_one_line_with_exit_2_and_no_output(lawfit, tmp_path):
    (tmp_path / "s.log").write_text("Decode batch, #running-req: 8, accept len: 2.47, accept rate: 0.49\n")
    code, out, err = lawfit("s.log", "-o", "r.parquet")
    assert (code, out) == (2, "")
    assert err.startswith("lawfit: 1 line of SGLang: accept len 2.47")
    assert not (tmp_path / "r.parquet").exists()
