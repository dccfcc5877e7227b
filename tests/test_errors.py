"""Messages of user errors."""

import pickle

import pytest

from brokertwin.errors import UserError
from brokertwin.testing import KafkaBroker


def test_an_error_as_a_text_has_its_hint() -> None:
    assert str(UserError("It is so.", "Do that.")) == "It is so. Do that."
    assert str(UserError("It is so.")) == "It is so."


def test_an_error_comes_through_another_process() -> None:
    sent = pickle.loads(pickle.dumps(UserError("It is so.", "Do that.")))
    assert (sent.message, sent.hint) == ("It is so.", "Do that.")


def test_a_misspelt_api_in_a_test_double_names_the_nearest() -> None:
    with KafkaBroker() as broker, pytest.raises(UserError) as refused:
        broker.fail_next("PRODUSE", "NOT_LEADER_OR_FOLLOWER")
    assert str(refused.value).startswith("Kafka has no API PRODUSE. Did you mean PRODUCE")
