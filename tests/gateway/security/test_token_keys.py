"""Keys of signed tokens from a file or a URL, and their refresh."""

import gc
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security.oauthbearer import JAAS
from brokertwin.gateway.security.token_keys import (
    BACKOFF_MAX,
    ENDPOINT,
    MISSING_MAX,
    MISSING_S,
    REFRESH,
    FetchedKeys,
    KeySource,
    key_source,
)
from tests.support.jwks_server import JwksServer, serving
from tests.support.patience import wait_until

A, B = {"kty": "oct", "kid": "a", "k": "YQ"}, {"kty": "oct", "kid": "b", "k": "Yg"}


@pytest.fixture
def jwks(tmp_path: Path) -> Iterator[JwksServer]:
    with serving(tmp_path, [A]) as served:
        yield served


def properties(url: str, **options: str) -> BrokerProperties:
    return BrokerProperties({ENDPOINT: url, **options}, "SASL_SSL")


def fetched(
    jwks: JwksServer, clock: Callable[[], float] = time.monotonic, **given: str
) -> KeySource:
    options = {JAAS: f"Module required {jwks.jaas_options};", BACKOFF_MAX: "0"}
    return FetchedKeys(jwks.url, properties(jwks.url, **options, **given), clock)


def test_changed_key_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys of a site.json"
    file.write_text(json.dumps({"keys": [A]}))
    source = key_source(properties(file.as_uri()))
    assert source.newest() == (A,)
    for number, (text, keys) in enumerate([('{"keys": []}', ()), ("no JWKS", ())]):
        file.write_text(text)
        os.utime(file, ns=(number, number))
        assert source.newest() == keys, "what is no JWKS changes nothing"
    file.unlink()
    assert source.newest() == ()


@pytest.mark.parametrize("text", [None, "{}", "[]", '{"keys": 5}', "words"])
def test_gateway_does_not_start_without_keys(
    tmp_path: Path, jwks: JwksServer, text: str | None
) -> None:
    file = tmp_path / "keys.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=r"jwks\.endpoint\.url"):
        key_source(properties(file.as_uri()))
    jwks.body = text.encode() if text is not None else None
    with pytest.raises(UserError, match=r"jwks\.endpoint\.url"):
        fetched(jwks)


@pytest.mark.parametrize("url", ["", "ftp://keys.example.com/jwks", "https:///jwks", "keys.json"])
def test_invalid_url_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(UserError, match=r"Invalid sasl\.oauthbearer\.jwks\.endpoint\.url"):
        key_source(properties(url))


def test_certificate_of_another_authority_is_refused(jwks: JwksServer) -> None:
    with pytest.raises(UserError, match="CERTIFICATE_VERIFY_FAILED"):
        key_source(properties(jwks.url))
    assert jwks.requested == 0


def test_keys_are_refreshed_periodically(jwks: JwksServer) -> None:
    source = fetched(jwks, **{REFRESH: "20"})
    jwks.serve([A, B])
    wait_until(lambda: source.newest() == (A, B))
    jwks.body = None
    fetches = jwks.requested
    wait_until(lambda: jwks.requested > fetches + 1)
    assert source.newest() == (A, B), "while it fails the keys stay"


def test_missing_key_is_fetched_at_most_once_a_minute(jwks: JwksServer) -> None:
    now = 0.0
    source = fetched(jwks, lambda: now)
    source.missing("b")
    wait_until(lambda: jwks.requested == 2)
    source.missing("b")
    source.missing("x" * 1_001)
    now += MISSING_S
    source.missing("b")
    wait_until(lambda: jwks.requested == 3)
    for number in range(MISSING_MAX):
        source.missing(str(number))
    wait_until(lambda: jwks.requested > 3)
    jwks.serve([A, B])
    source.missing("b")  # sixteen other ids evicted its last fetch time
    wait_until(lambda: source.newest() == (A, B))


def test_closed_keys_are_not_fetched_again(jwks: JwksServer) -> None:
    before = set(threading.enumerate())
    source: KeySource | None = fetched(jwks)
    assert source is not None
    (requests,) = (each for each in set(threading.enumerate()) - before if each.name == "jwks")
    del source
    gc.collect()
    wait_until(lambda: not requests.is_alive())
