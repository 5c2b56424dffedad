from datetime import date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pytest

from lawfit.cast import fits_nowhere, typed
from lawfit.errors import LogFormatError
from lawfit.place import Place

PLACE = Place("x.jsonl", [3, 5])
INT, REAL, FLAG, TEXT = pl.Int64(), pl.Float64(), pl.Boolean(), pl.String()
REALS, INTS = pl.List(pl.Float64()), pl.List(pl.Int64())


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1.0, None], INT, [1, None]),
        (["1", "2.0"], INT, [1, 2]),
        (["0.5", "1e-3"], REAL, [0.5, 1e-3]),
        ([1, 2], REAL, [1.0, 2.0]),
        ([1, 0], FLAG, [True, False]),
        (["True", "false"], FLAG, [True, False]),
        ([7, 8], TEXT, ["7", "8"]),
        ([[1], []], REALS, [[1.0], []]),
        ([[1.0], []], INTS, [[1], []]),
        ([None, None], INTS, [None, None]),
    ],
)
def test_a_value_of_another_type_is_taken_where_it_means_the_same(values, dtype, expected):
    assert typed(pl.Series("c", values), dtype, PLACE).to_list() == expected


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, 1.5], INT),
        ([1.0, float("nan")], INT),
        ([1.0, 1e300], INT),
        (["1", "one"], INT),
        (["1", "1.5"], INT),
        ([None, True], INT),
        ([None, True], REAL),
        (["1", "NA"], REAL),
        ([0, 2], FLAG),
        ([0.0, 0.5], FLAG),
        (["true", "yes"], FLAG),
        ([0, 2**63], INT),
        ([None, [1]], INT),
        ([None, [1]], TEXT),
        ([None, {"a": 1}], TEXT),
        ([None, {"a": 1}], INT),
        ([None, b"\xff"], TEXT),
        ([None, 1.0], REALS),
        ([[1.0], [1.5]], INTS),
    ],
)
def test_a_value_that_would_change_is_refused_with_its_line(values, dtype):
    series = pl.Series("c", values, dtype=pl.UInt64 if 2**63 in values else None)
    with pytest.raises(LogFormatError, match=r"^c is .*, expected .* \(x\.jsonl:5\)$"):
        typed(series, dtype, PLACE)


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(LogFormatError) as caught:
        typed(pl.Series("c", ["x" * 10_000]), INT, PLACE)
    assert len(str(caught.value)) < 120


def test_a_column_none_of_whose_values_fits_is_of_another_kind():
    assert fits_nowhere(pl.Series("round", ["r1", None]), INT)
    assert not fits_nowhere(pl.Series("round", ["r1", "2"]), INT)
    assert not fits_nowhere(pl.Series("round", [None, None]), INT)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, {"a": 1}], INT),
        (["p", [1]], TEXT),
        ([[1], [1, "x"]], INTS),
        ([[0.5], 0.5], REALS),
        ([[1], [2**70, "x"]], INTS),
    ],
)
def test_of_mixed_values_the_one_at_fault_is_named(values, dtype):
    with pytest.raises(LogFormatError, match=r"\(x\.jsonl:5\)$"):
        typed(pl.Series("c", values, dtype=pl.Object), dtype, PLACE)


@pytest.mark.parametrize("value", [date(1970, 1, 2), timedelta(days=1), datetime(2020, 1, 1), time(1, 0)])
@pytest.mark.parametrize("dtype", [INT, REAL])
def test_a_moment_is_no_number(value, dtype):
    with pytest.raises(LogFormatError, match="expected a"):
        typed(pl.Series("c", [value]), dtype, PLACE)


def test_decimals_and_categories_are_read_as_what_they_spell():
    assert typed(pl.Series("c", [Decimal("2.0")]), INT, PLACE).to_list() == [2]
    assert typed(pl.Series("c", [Decimal("1.5")]), REAL, PLACE).to_list() == [1.5]
    with pytest.raises(LogFormatError, match="whole number"):
        typed(pl.Series("c", [Decimal("1.5")]), INT, PLACE)
    assert typed(pl.Series("c", ["2"], dtype=pl.Categorical), INT, PLACE).to_list() == [2]
    assert typed(pl.Series("c", ["true"], dtype=pl.Enum(["true"])), FLAG, PLACE).to_list() == [True]
