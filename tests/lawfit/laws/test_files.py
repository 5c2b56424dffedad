from __future__ import annotations

import json
from typing import Any

import pytest

from lawfit import LAWS, AffineLogit, FreeHazard, Geometric, Isotonic, Law, LawfitError, RoundLog


@pytest.mark.parametrize("name", LAWS)
def test_a_fitted_law_survives_json_with_its_details(name: str, synthetic: RoundLog) -> None:
    law = LAWS[name].fit(synthetic)
    back = Law.from_json(law.to_json())
    assert back == law
    assert back.fitted == law.fitted
    assert type(law).from_json(law.to_json()) == law


@pytest.mark.parametrize(
    "law", [AffineLogit(), Isotonic((0.5,), (0.9, 0.1), 4), Geometric(0.5), FreeHazard((0.9, 1.0, 0.0))]
)
def test_a_law_made_by_hand_survives_json(law: Law) -> None:
    assert Law.from_json(law.to_json()) == law


def changed(law: Law, /, **changes: Any) -> str:
    return json.dumps({**json.loads(law.to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x.json: not JSON"),
        ("[]", "x.json: list, expected a JSON object"),
        ("{}", "format is None"),
        (changed(AffineLogit(), version=2), "law version 2, this lawfit reads version 1"),
        (changed(AffineLogit(), version=True), "law version True"),
        (changed(AffineLogit(), law="cubic"), "law is 'cubic', expected one of affine, isotonic"),
        (changed(AffineLogit(), extra=1), "absent or unknown fields: extra"),
        (changed(AffineLogit(), values={"b0": 1.0, "b1": 1.0}), "absent or unknown fields: horizon"),
        (changed(AffineLogit(), values={"b0": "1", "b1": 1.0, "horizon": 3}), "b0 is '1', expected float"),
        (changed(AffineLogit(), values={"b0": True, "b1": 1.0, "horizon": 3}), "b0 is True, expected float"),
        (changed(AffineLogit(), values={"b0": 1.0, "b1": 1.0, "horizon": 0}), "x.json: horizon is 0"),
        (
            changed(AffineLogit(), values={"b0": [1.0], "b1": 1.0, "horizon": 3}),
            "b0 is [1.0], expected float",
        ),
        (changed(FreeHazard((0.5,)), values={"hazards": 0.5}), "hazards is 0.5, expected"),
        (AffineLogit().to_json().replace("0.96", "NaN"), "holds NaN"),
        (changed(AffineLogit(), fitted=3), "fitted is 3"),
        (changed(AffineLogit(), fitted={}), "absent or unknown fields: cluster_covariance, clusters"),
    ],
)
def test_a_file_that_is_no_law_is_refused_with_its_name(text: str, message: str) -> None:
    with pytest.raises(LawfitError, match=message.replace("[", r"\[")):
        Law.from_json(text, "x.json")


def test_another_kind_of_law_is_refused() -> None:
    with pytest.raises(LawfitError, match="holds the law geometric, expected affine"):
        AffineLogit.from_json(Geometric(0.5).to_json())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "guess"),
        ("rounds", "many"),
        ("clusters", 1.5),
        ("covariance", [[1, "a"]]),
        ("names", "b0"),
        ("versions", [["a"]]),
    ],
)
def test_a_mistyped_detail_is_refused(field: str, value: Any, synthetic: RoundLog) -> None:
    record = json.loads(AffineLogit.fit(synthetic).to_json())
    record["fitted"][field] = value
    with pytest.raises(LawfitError, match=rf"fitted\.{field} is"):
        Law.from_json(json.dumps(record))


def tampered(law: Law, part: str, **changes: Any) -> str:
    record = json.loads(law.to_json())
    record[part] |= changes
    return json.dumps(record)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("fitted", {"covariance": [[1.0, 0.0], [0.0]]}, "is not 2 by 2"),
        ("fitted", {"covariance": [[1.0]]}, "is not 2 by 2"),
        ("fitted", {"covariance": [[1.0, 0.5], [0.2, 1.0]]}, "is not symmetric"),
        ("fitted", {"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "larger off its diagonal"),
        ("fitted", {"cluster_covariance": [[-1.0, 0.0], [0.0, 1.0]]}, "a variance out of range"),
        ("fitted", {"cluster_covariance": [[1e308, 0.0], [0.0, 1.0]]}, "a variance out of range"),
        ("fitted", {"covariance": [[1.0, None], [None, 1.0]]}, "lacks a number"),
        ("fitted", {"rounds": -1.0}, "rounds is -1"),
        ("fitted", {"rounds": None}, "rounds is nan"),
        ("fitted", {"clusters": 10**400}, "clusters is 1000"),
        ("values", {"horizon": 10_001}, "expected at most 10000"),
        ("values", {"horizon": 10**29}, "expected at most 10000"),
        ("values", {"b0": -1e308}, "b0 is -1e\\+308"),
        ("fitted", {"covariance": [[1.0, 1e308], [1e308, 1.0]]}, "larger off its diagonal"),
        ("values", {"b0": "x" * 1_000_000}, "expected float|b0 is"),
        ("values", {"evil\n" * 2000: 1}, "absent or unknown fields: evil"),
    ],
)
def test_a_tampered_law_is_one_short_line(part: str, changes: Any, message: str, synthetic: RoundLog) -> None:
    with pytest.raises(LawfitError, match=message) as refused:
        Law.from_json(tampered(AffineLogit.fit(synthetic), part, **changes), "x.json")
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_a_law_that_ends_holds_no_more_hazards_than_a_log_has_offsets() -> None:
    with pytest.raises(LawfitError, match="expected at most 10000"):
        Law.from_json(FreeHazard((0.9,) * 10_001).to_json())
