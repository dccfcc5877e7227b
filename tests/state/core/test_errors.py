"""Kafka's error codes."""

from brokertwin.protocol.errors import Error


def test_codes_have_no_gaps() -> None:
    assert [int(error) for error in Error] == list(range(-1, len(Error) - 1))
