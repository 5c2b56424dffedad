import pytest

from runtime.loops import loops


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 3] * 8, True),
        ([9, 8, 7, *[1, 2, 3] * 8], True),
        ([1, 2, 3] * 8 + [4], False),
        ([5] * 24, True),
        ([5] * 23, False),
        (list(range(10)) * 3, True),
        (list(range(10)) * 2, False),
        (list(range(96)), False),
        ([], False),
    ],
)
def test_an_output_loops_where_it_ends_in_three_copies(tokens, expected):
    assert loops(tokens) is expected
