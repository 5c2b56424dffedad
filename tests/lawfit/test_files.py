import os
import stat
from pathlib import Path

import pytest

from lawfit.errors import LawfitError
from lawfit.files import replacing, require_apart, write_text


def stop_within(path, error):
    path.write_text("half")
    raise error


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="stop"), replacing(path) as temporary:
        stop_within(temporary, RuntimeError("stop"))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_missing_folders_are_made(tmp_path):
    write_text(tmp_path / "a" / "b" / "c.txt", "é")
    assert (tmp_path / "a" / "b" / "c.txt").read_text(encoding="utf-8") == "é"


def test_others_may_read_the_written_file(tmp_path):
    write_text(tmp_path / "a.txt", "x")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(LawfitError, match="is a folder, expected a file name"):
        write_text(tmp_path / "a", "x")
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "a").write_text("x")
    with pytest.raises(LawfitError, match="cannot be written"):
        write_text(tmp_path / "a" / "b.txt", "x")


def test_a_failing_write_is_a_lawfit_error(tmp_path):
    full = OSError(28, "No space left on device")
    message = r"a\.txt: cannot be written \(No space left on device\)"
    with pytest.raises(LawfitError, match=message), replacing(tmp_path / "a.txt") as temporary:
        stop_within(temporary, full)
    assert os.listdir(tmp_path) == []


def test_too_long_a_name_is_refused(tmp_path):
    with pytest.raises(LawfitError, match="cannot be written"):
        write_text(tmp_path / ("n" * 300), "x")


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    there, link = tmp_path / "there" / "a.txt", tmp_path / "link.txt"
    link.symlink_to(there)
    for text in ("new", "newer"):  # the target is absent at first
        write_text(link, text)
        assert link.is_symlink()
        assert there.read_text() == text
    assert os.listdir(there.parent) == ["a.txt"]


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(LawfitError, match="cannot be written"):
        write_text(tmp_path / "a", "x")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_written_to_and_stays(tmp_path, linked):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        (tmp_path / "link").symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "link" if linked else pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"][not linked :]


def test_a_device_is_written_to_and_stays(tmp_path, monkeypatch):
    device = tmp_path / "device"
    device.touch()
    os.link(device, tmp_path / "same")  # would part from it if the name were replaced
    monkeypatch.setattr("lawfit.files._mode", lambda path: stat.S_IFCHR | 0o666)
    write_text(device, "text")
    assert (tmp_path / "same").read_text() == "text"
    assert device.samefile(tmp_path / "same")


def test_a_device_that_has_gone_is_not_made_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("lawfit.files._mode", lambda path: stat.S_IFCHR | 0o666)
    with pytest.raises(LawfitError, match="cannot be written"):
        write_text(tmp_path / "gone", "text")
    assert os.listdir(tmp_path) == []


def test_an_output_is_no_input_by_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "a.parquet"
    log.touch()
    (tmp_path / "link").symlink_to(log)
    for output in (log, tmp_path / "link", tmp_path / ".." / tmp_path.name / "a.parquet"):
        for inputs in ([log], [tmp_path / "b", tmp_path], [tmp_path / "*.parquet"], [Path("a.parquet")]):
            with pytest.raises(LawfitError, match="is also an input, expected another file name"):
                require_apart(output, inputs)
    require_apart(tmp_path / "page.html", [log, tmp_path, tmp_path / "page.html"])
    require_apart(tmp_path / ("n" * 300), [tmp_path / ("n" * 300)])
    require_apart(None, [log])
