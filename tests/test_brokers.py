"""`--brokers`: how many, or which, in every cluster or in one."""

import pytest

from brokertwin.brokers import brokers_of, parse


@pytest.mark.parametrize(
    ("text", "cluster", "ids"),
    [
        ("1", "demo", [1]),
        ("3", "demo", [1, 2, 3]),
        ("1,2,3,101", "demo", [1, 2, 3, 101]),
        ("101-103,7", "demo", [7, 101, 102, 103]),
        ("0,1", "demo", [0, 1]),
        ("demo=3 1,2", "demo", [1, 2, 3]),
        ("demo=3 1,2", "other", [1, 2]),
        ("demo=3", "other", [1]),
    ],
)
def test_a_cluster_gets_its_brokers(text: str, cluster: str, ids: list[int]) -> None:
    assert brokers_of(text, cluster) == ids


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "1001",
        "a",
        "1,,2",
        "1,1",
        "3-1",
        "1-2-3",
        "demo=",
        "=3",
        "1 2",
        "-1",
        "0-9999999999",
    ],
)
def test_invalid_text_raises_value_error_with_a_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(text)
