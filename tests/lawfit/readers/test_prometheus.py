"""Prometheus counters: one scrape, or the difference of several."""

import json

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes


def scrape(
    drafts=100, drafted=300, accepted=90, survivors=(60, 20, 10), labels='model_name="m"', suffix="_total", more=""
):
    names = [("drafts", drafts), ("draft_tokens", drafted), ("accepted_tokens", accepted)]
    lines = [f"vllm:spec_decode_num_{name}{suffix}{{{labels}}} {float(value)}" for name, value in names]
    name = f"vllm:spec_decode_num_accepted_tokens_per_pos{suffix}"
    lines += [f'{name}{{{labels},position="{j}"}} {float(count)}' for j, count in enumerate(survivors)]
    return "\n".join(["# HELP x y", *lines, more]) + "\n"


BEFORE, AFTER = scrape(), scrape(140, 420, 120, (80, 26, 14))
FIRST = [(0, 40), (1, 40), (2, 10), (3, 10)]
BETWEEN = [(0, 20), (1, 14), (2, 2), (3, 4)]


def counts(log):
    return log.frame.select("accept_len", "count").rows()


@pytest.mark.parametrize(
    "text", [BEFORE, scrape(suffix=""), BEFORE.replace("\n", " 1700000000\n"), BEFORE.replace("\n", "\r\n")]
)
def test_one_scrape_is_all_since_the_server_started(write, text):
    path = write(text, "m.prom")
    reading = read_with_notes(path)
    assert counts(reading.log) == FIRST
    assert reading.log.frame["horizon"].unique().to_list() == [3]
    assert reading.log.frame["target"].unique().to_list() == ["m"]
    assert any("all drafts since the server started, warm-up included" in note for note in reading.notes)


def test_two_scrapes_in_one_file_give_their_difference(write):
    assert counts(read_rounds(write(BEFORE + AFTER))) == BETWEEN


def test_two_scrapes_in_two_files_give_their_difference(write):
    paths = [write(BEFORE, "a.prom"), write(AFTER, "b.prom")]
    reading = read_with_notes(paths)
    assert counts(reading.log) == BETWEEN
    assert any("b.prom:2: less the scrape at" in note for note in reading.notes)


def test_of_three_scrapes_first_and_last_count(write):
    text = BEFORE + scrape(120, 360, 100, (66, 22, 12)) + AFTER
    assert counts(read_rounds(write(text))) == BETWEEN


def test_two_servers_are_two_runs(write):
    text = BEFORE + scrape(labels='model_name="n"')
    frame = read_rounds(write(text)).frame
    assert frame.select("run_id", "target").unique(maintain_order=True).rows() == [("log/0", "m"), ("log/1", "n")]


def test_a_restart_that_the_scrape_tells_is_two_runs(write):
    created = [f'vllm:spec_decode_num_drafts_created{{model_name="m"}} {n}' for n in (1, 2)]
    frame = read_rounds([write(scrape(more=created[k]), f"{k}.prom") for k in (0, 1)]).frame
    assert frame["run_id"].n_unique() == 2
    assert int(frame["count"].sum()) == 200


def test_counters_that_fall_are_refused(write):
    with pytest.raises(LogFormatError, match="a counter fell by 120 between two scrapes"):
        read_rounds([write(AFTER, "a.prom"), write(BEFORE, "b.prom")])


def test_json_objects_of_the_same_names_are_scrapes_and_deltas_are_taken_as_such(write):
    objects = [
        dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("vllm")) for text in (BEFORE, AFTER)
    ]
    objects = [{name: float(value) for name, value in found.items()} for found in objects]
    scrapes = write(json.dumps([{"metrics": found} for found in objects]), "s.json")
    assert counts(read_rounds(scrapes)) == BETWEEN
    deltas = write(json.dumps([{"metrics_delta": found} for found in objects]), "d.json")
    frame = read_rounds(deltas).frame
    assert int(frame["count"].sum()) == 240
    assert frame["run_id"].n_unique() == 2


def test_a_repeated_run_is_told_and_kept(write):
    found = dict(line.rsplit(" ", 1) for line in BEFORE.splitlines() if line.startswith("vllm"))
    reading = read_with_notes(write([{"delta": found}] * 3, "d.json"))
    notes = reading.notes
    assert int(reading.log.frame["count"].sum()) == 300
    assert reading.log.frame["run_id"].n_unique() == 3
    assert any("2 of 3 sets have the very numbers of another; all are kept" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (scrape(accepted=91), "num_accepted_tokens_per_pos accepts 90, num_accepted_tokens is 91"),
        (scrape(survivors=(60, 61, 10), accepted=131), "61 drafts accepted 2 tokens, above the 60 that got there"),
        (scrape(survivors=(160, 20, 10), accepted=190), "160 drafts accepted 1 tokens, above the 100"),
        (scrape(drafted=301), "301 tokens drafted in 100 steps of at most 3"),
        (scrape(drafted=80, accepted=90), "90 draft tokens accepted of 80 drafted"),
        (scrape(drafted=200), "not 3 in each: up to 50 rounds may have accepted a shorter draft whole"),
        (BEFORE.replace('position="1"', 'position="7"'), "positions [0, 2, 7], expected 0 to 2"),
        (BEFORE.replace('position="1"', 'position="x"'), "position is 'x'"),
        (BEFORE.replace("300.0", "nan"), "a counter is 'nan', expected a whole number >= 0"),
        (BEFORE.replace("300.0", "300.5"), "a counter is '300.5'"),
        (BEFORE.replace("300.0", "1e300"), "a counter is '1e300'"),
        (BEFORE.replace("num_drafts", "num_emitted_tokens"), "no counter spec_decode_num_drafts"),
        (scrape(survivors=()), "no counter spec_decode_num_accepted_tokens_per_pos"),
        (scrape(0, 0, 0, (0, 0, 0)), "no speculative rounds"),
    ],
)
def test_counters_that_contradict_each_other_or_say_too_little_are_refused(write, text, message):
    with pytest.raises(LogFormatError) as caught:
        read_rounds(write(text))
    assert message in str(caught.value)
    assert "log.txt" in str(caught.value)
