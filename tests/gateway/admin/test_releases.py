"""API versions of former releases."""

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.admin.releases import release
from brokertwin.protocol.kafka_apis import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    KAFKA_APIS,
    PRODUCE,
)


def test_the_current_release_has_the_versions_of_the_api_table() -> None:
    assert release("4.3").apis == {
        key: (api.first, api.last) for key, api in KAFKA_APIS.items() if key in release("4.3").apis
    }
    assert release("4.3").features is None


def test_4_4_adds_the_newest_versions() -> None:
    added = {
        key: (api.first, api.newest) for key, api in KAFKA_APIS.items() if api.newest is not None
    }
    own = release("4.4").apis
    assert {key: own[key] for key in added} == added
    assert {key: each for key, each in own.items() if key not in added} == {
        key: each for key, each in release("4.3").apis.items() if key not in added
    }


@pytest.mark.parametrize(
    ("version", "api_key", "versions"),
    [
        ("2.8", PRODUCE.key, (0, 9)),
        ("2.8.1", FETCH.key, (0, 12)),
        ("2.8", API_VERSIONS.key, (0, 3)),
        ("3.4", FETCH.key, (0, 13)),
        ("3.9", FETCH.key, (0, 17)),
        ("4.0", FETCH.key, (4, 17)),
        ("4.3", FETCH.key, (4, 18)),
    ],
)
def test_versions_of_a_release(version: str, api_key: int, versions: tuple[int, int]) -> None:
    assert release(version).apis[api_key] == versions
    assert release(version).offers(api_key, versions[1])
    assert not release(version).offers(api_key, versions[1] + 1)


def test_an_api_and_features_that_a_release_does_not_have() -> None:
    assert not release("3.4").offers(CONSUMER_GROUP_HEARTBEAT.key, 0)
    assert release("3.9").features == frozenset()
    assert release("4.0").features == {"group.version", "transaction.version"}


def test_an_unknown_release() -> None:
    with pytest.raises(UserError, match=r"No profile of Kafka 2\.7\. Use one of 2\.8, 3\.4, 3\.9"):
        release("2.7")
