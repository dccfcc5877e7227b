"""Reports: scores, JSON and its use as a baseline, JUnit XML, the page."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.testing.exam.model import ExamSeverity
from brokertwin.testing.exam.pages import page
from brokertwin.testing.exam.reports import (
    ApiClaim,
    api_summary,
    as_card,
    as_json,
    as_junit,
    as_sarif,
    baseline,
    report_of,
    total,
)
from brokertwin.testing.exam.verdicts import Deviation, Outcome, Result, keys_of
from tests.support.browsers import DARK, LIGHT, assert_fits, seen
from tests.support.said import assert_said

DEVIATION = Deviation(
    "produce", "a.errorCode", 0, 45, ExamSeverity.DATA, "Produce", 9, {"topic": "<b>\x00"}
)
RESULTS = [
    Result("idempotence", "one", "A rule.", "Class", "KIP-98", Outcome.AGREES),
    Result("idempotence", "two", "Second.", "Class", "", Outcome.DEVIATES, [DEVIATION]),
    Result("offsets", "three", "Third.", "Class", "", Outcome.NOT_CLAIMED, reason="no API"),
]
APIS = [ApiClaim("Produce", (3, 8), (3, 13)), ApiClaim("ShareFetch", None, (1, 2))]
REPORT = report_of("kafka:9092", KAFKA_VERSION, RESULTS, 1.23, APIS)


def test_score_counts_played_scenarios_alone() -> None:
    scores = {each.subject: (each.played, each.percent) for each in REPORT.scores}
    assert scores == {"idempotence": (2, "50.0 %"), "offsets": (0, "-")}
    assert total(REPORT.scores).not_claimed == 1


def test_json_report_is_a_baseline() -> None:
    assert baseline(as_json(REPORT)) == keys_of(RESULTS)


def test_headline_counts_scenarios_by_their_worst_consequence() -> None:
    assert list(REPORT.headline.values()) == [1, 0, 0, 0]


def test_each_form_of_a_report_is_as_it_was() -> None:
    forms = {
        "JSON": as_json(REPORT),
        "JUnit": as_junit(REPORT, set()),
        "SARIF": as_sarif(REPORT, set()),
        "card": as_card(REPORT),
        "page": page(REPORT),
    }
    texts = {
        name: form.decode() if isinstance(form, bytes) else form for name, form in forms.items()
    }
    assert_said("exam-reports", {name: text.splitlines() for name, text in texts.items()})


def test_versions_of_apis_are_counted() -> None:
    assert api_summary(APIS) == "APIs announced: 1 of 2, in 6 of 13 versions of Kafka."


def test_report_of_a_former_version_is_a_baseline() -> None:
    old = as_json(REPORT).replace(b"loses or duplicates data", b"loses data")
    assert baseline(old) == keys_of(RESULTS)


def test_sarif_has_a_rule_and_a_result_for_each_deviation() -> None:
    (run,) = msgspec.json.decode(as_sarif(REPORT, set()))["runs"]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["two"]
    (found,) = run["results"]
    assert (found["ruleId"], found["level"], found["baselineState"]) == ("two", "error", "new")
    assert "got 45 OUT_OF_ORDER_SEQUENCE_NUMBER" in found["message"]["text"]
    (known,) = msgspec.json.decode(as_sarif(REPORT, keys_of(RESULTS)))["runs"][0]["results"]
    assert known["baselineState"] == "unchanged"


def test_card_has_headline_deviations_and_missing_versions() -> None:
    lines = as_card(REPORT).splitlines()
    assert "| 1 | loses or duplicates data |" in lines
    assert "| Produce | 3 to 8 | 3 to 13 |" in lines
    assert "| ShareFetch | - | 1 to 2 |" in lines
    (found,) = [line for line in lines if line.startswith("- **two**")]
    assert "expected 0 NONE, got 45 OUT_OF_ORDER_SEQUENCE_NUMBER" in found


def test_other_json_is_no_baseline() -> None:
    with pytest.raises(UserError, match="Cannot read the baseline"):
        baseline(b'{"broker": 1}')


def test_junit_has_a_case_for_each_scenario() -> None:
    root = ElementTree.fromstring(as_junit(REPORT, set()))
    suite = root.find("testsuite")
    assert suite is not None and suite.attrib["failures"] == "1"
    cases = {each.attrib["name"]: [part.tag for part in each] for each in root.iter("testcase")}
    assert cases == {"one": [], "two": ["failure"], "three": ["skipped"]}
    failure = root.find(".//failure")
    assert failure is not None and failure.text is not None
    assert "expected 0 NONE, got 45 OUT_OF_ORDER_SEQUENCE_NUMBER" in failure.text


def test_junit_does_not_fail_known_deviations() -> None:
    root = ElementTree.fromstring(as_junit(REPORT, keys_of(RESULTS)))
    assert list(root.iter("failure")) == []


def test_page_has_score_deviation_rule_and_request_escaped() -> None:
    text = page(REPORT)
    for part in ("Idempotent producers", "1 / 2", "45 OUT_OF_ORDER_SEQUENCE_NUMBER", "Second."):
        assert part in text
    assert "&lt;b&gt;" in text and "<b>\x00" not in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_page_fits_a_telephone_and_a_screen(tmp_path: Path, scheme: int) -> None:
    wide = msgspec.structs.replace(DEVIATION, request={"records": "ab" * 2000}, got="x" * 400)
    results = [msgspec.structs.replace(each, deviations=[wide]) for each in RESULTS[1:2]]
    path = tmp_path / "exam.html"
    path.write_text(page(report_of("kafka:9092", KAFKA_VERSION, results, 1.0)), encoding="utf-8")
    assert_fits(seen(path, (390, 1280), scheme), (390, 1280), scheme)
