"""vLLM's server log."""

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

LINE = (
    "(APIServer pid=7) INFO 04-27 21:03:50 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.73, "
    "Accepted throughput: 3.75 tokens/s, Drafted throughput: 25.75 tokens/s, Accepted: 51 tokens, Drafted: 350 tokens, "
    "Per-position acceptance rate: 0.443, 0.171, 0.057, 0.029, 0.029, Avg Draft acceptance rate: 14.6%"
)
COUNTS = [(0, 5, 39), (1, 5, 19), (2, 5, 8), (3, 5, 2), (5, 5, 2)]


def counts(log):
    return log.frame.select("accept_len", "horizon", "count").rows()


def test_a_window_becomes_its_histogram_without_clusters(write):
    log = read_rounds(write(LINE))
    assert counts(log) == COUNTS
    assert log.frame["request_id"].null_count() == log.frame["prompt_id"].null_count() == len(log)


def test_the_rates_are_survival_not_hazard(write):
    """With .443 as hazards the counts would accept 31 + 5 + ..., not the 51 tokens of the line."""
    frame = read_rounds(write(LINE)).frame
    assert int((frame["accept_len"] * frame["count"]).sum()) == 51


@pytest.mark.parametrize(
    "text",
    [
        f"INFO boot\r\n{LINE}\r\nINFO: 10.0.0.1 - GET /health 200\r\n",
        f"\x1b[36m(APIServer pid=7)\x1b[0;0m {LINE.replace('51', chr(27) + '[1;36m51' + chr(27) + '[0m')}\n",
        f"2026-01-01T00:00:00Z stdout F worker-3 | {LINE}\n",
        '{"level": "INFO", "message": "' + LINE + '"}\n',
        LINE.replace("Accepted throughput: 3.75 tokens/s, Drafted throughput: 25.75 tokens/s, ", ""),
        f"caf\xe9 \udcff\n{LINE}\n".encode("utf-8", "surrogateescape"),
        f"{LINE}\n".encode("utf-16"),
    ],
)
def test_prefixes_colours_line_ends_and_encodings_do_not_matter(write, text):
    assert counts(read_rounds(write(text, "server.log"))) == COUNTS


def test_what_was_read_and_skipped_is_told(write):
    path = write(f"a\n{LINE}\n\nb\n{LINE}\n")
    notes = read_with_notes(path).notes
    assert f"{path}: 2 speculative lines read, 2 other lines skipped" in notes
    assert f"{path}: the printed rates determine every count" in notes


def test_a_last_line_that_was_cut_is_left_out_with_a_note(write):
    for cut in (90, 200, LINE.index("0.057") + 3, LINE.index("0.029") + 5):
        path = write(f"{LINE}\n{LINE[:cut]}")
        reading = read_with_notes(path)
        assert counts(reading.log) == COUNTS, cut
        assert any(f"{path}:2: the last line is cut short" in note for note in reading.notes), cut


def test_a_cut_line_anywhere_else_is_an_error_with_its_number(write):
    with pytest.raises(LogFormatError, match=r"log\.txt:2\)"):
        read_rounds(write(f"{LINE}\n{LINE[:200]}\n{LINE}\n"))


def test_windows_of_several_processes_are_runs(write):
    text = f"{LINE}\n{LINE.replace('pid=7', 'pid=8')}\n"
    assert read_rounds(write(text)).frame["run_id"].unique(maintain_order=True).to_list() == ["log/pid 7", "log/pid 8"]


def test_a_window_without_drafts_gives_no_rows(write):
    idle = "SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens, "
    path = write(f"{idle}Per-position acceptance rate: nan, nan, Avg Draft acceptance rate: nan%\n{LINE}\n")
    reading = read_with_notes(path)
    assert counts(reading.log) == COUNTS
    assert f"{path}: 1 windows without a draft give no rows" in reading.notes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Accepted: 51 ", "Accepted: 61 ", "do not fit 61 accepted of 350 drafted"),
        ("Accepted: 51 ", "Accepted: 351 ", "351 draft tokens accepted of 350 drafted"),
        ("length: 1.73", "length: 2.73", "a mean acceptance length of 2.73"),
        ("0.443, 0.171", "0.171, 0.443", "0.171 at position 1 is no share of 70 drafts, or above"),
        ("0.029, 0.029, Avg", "0.029, 0.129, Avg", "do not fit"),
        ("Drafted: 350 ", "Drafted: 250 ", "250 tokens drafted in 70 steps, not 5 in each"),
    ],
)
def test_a_line_that_contradicts_itself_names_its_numbers(write, old, new, message):
    with pytest.raises(LogFormatError) as caught:
        read_rounds(write(f"{LINE}\n{LINE.replace(old, new)}\n{LINE}\n"))
    assert message in str(caught.value)
    assert "log.txt:2)" in str(caught.value)


def test_the_earlier_line_without_rates_is_reported_and_refused(write):
    line = "INFO SpecDecoding metrics: Draft acceptance rate: 100.0%, Accepted: 66 tokens, Drafted: 66 tokens\n"
    with pytest.raises(LogFormatError, match=r"66 tokens accepted of 66, and no rounds; start vLLM with"):
        read_rounds(write(line))


def test_v0_is_refused_with_its_reason_and_its_numbers(write, samples):
    with pytest.raises(LogFormatError, match="counts tokens accepted after the first miss") as caught:
        read_rounds(write(samples["vllm v0"].text))
    assert "Draft acceptance rate 0.642" in str(caught.value)


def test_a_wrong_horizon_is_refused(write):
    with pytest.raises(LogFormatError, match="--set horizon=4, but the file holds 5"):
        read_rounds(write(LINE), constants={"horizon": 4})


def test_a_whole_last_line_that_contradicts_itself_is_an_error_with_or_without_its_newline(write):
    wrong = LINE.replace("Accepted: 51 ", "Accepted: 61 ")
    for end in ("", "\n"):
        with pytest.raises(LogFormatError, match=r"do not fit 61 accepted .*log\.txt:2\)"):
            read_rounds(write(f"{LINE}\n{wrong}{end}"))


def test_a_very_long_line_is_read_around_its_mark(write):
    assert counts(read_rounds(write("x" * 2_000_000 + f" {LINE} " + "draft acceptance = (" * 100_000))) == COUNTS
