import os
import stat

import pytest

from lawfit.errors import LawfitError
from lawfit.files import replacing, write_text


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
