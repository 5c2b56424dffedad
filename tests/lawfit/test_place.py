from lawfit.place import MEMORY, Place


def test_a_row_of_a_text_file_is_named_by_its_line():
    assert Place("x.jsonl", [1, 4, 5]).of(1) == "x.jsonl:4"


def test_a_row_without_lines_is_named_by_its_number():
    assert Place("x.parquet").of(412) == "x.parquet row 412"
    assert MEMORY.of(0) == "frame row 0"
