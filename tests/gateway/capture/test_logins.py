"""The principal of a SASL exchange that passes through the proxy."""

import pytest

from brokertwin.gateway.capture.logins import ANONYMOUS, LoginTracker

PLAIN, SCRAM, BEARER = "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"


def logged_in(mechanism: str, *tokens: bytes, version: int = 1) -> LoginTracker:
    login = LoginTracker()
    login.handshake(version, mechanism)
    for token in tokens:
        login.token(token)
        login.accepted()
    return login


@pytest.mark.parametrize(
    ("mechanism", "tokens", "principal"),
    [
        (PLAIN, [b"\0alice\0secret"], "User:alice"),
        (PLAIN, [b"alice\0alice\0sec,ret"], "User:alice"),
        (PLAIN, ["\0zoë\0p".encode()], "User:zoë"),
        (SCRAM, [b"n,,n=alice,r=abc", b"c=biws,r=abc,p=x"], "User:alice"),
        ("SCRAM-SHA-512", [b"n,,n=a=2Cb=3Dc,r=1", b"c=biws"], "User:a,b=c"),
        (SCRAM, [b"n,,n=token1,r=abc,tokenauth=true", b"c=biws"], None),
        (PLAIN, [b"no token at all"], None),
        (BEARER, [b"n,,\x01auth=Bearer e30.eyJzdWIiOiJhbGljZSJ9.c2ln\x01\x01"], "User:alice"),
        (BEARER, [b"n,,\x01auth=Bearer e30.eyJzdWIiOjd9.\x01\x01"], None),
        (BEARER, [b"n,,\x01auth=Bearer e30.e30.\x01\x01"], None),
        (BEARER, [b"n,,\x01auth=Bearer x\x01\x01"], None),
        (BEARER, [b"no token at all"], None),
        ("GSSAPI", [b"\x60abc", b"\x60def", b"\x05ghi"], None),
    ],
)
def test_principal_of_a_login(mechanism: str, tokens: list[bytes], principal: str | None) -> None:
    assert logged_in(mechanism, *tokens).principal == principal


def test_principal_is_set_once_the_broker_has_accepted() -> None:
    login = logged_in(SCRAM, b"n,,n=alice,r=abc")
    assert login.principal == ANONYMOUS
    login.token(b"c=biws,r=abc,p=x")
    assert login.principal == ANONYMOUS
    login.accepted()
    assert login.principal == "User:alice"


def test_oauthbearer_challenge_is_a_refusal() -> None:
    login = LoginTracker()
    login.handshake(0, BEARER)
    assert login.takes_raw(b"n,,")
    login.token(b"n,,\x01auth=Bearer e30.eyJzdWIiOiJhbGljZSJ9.\x01\x01")
    login.accepted(b'{"status":"invalid_token"}')
    assert login.principal == ANONYMOUS
    assert login.takes_raw(b"\x01"), "that it has seen the answer"


def test_later_login_replaces_the_principal() -> None:
    login = logged_in(PLAIN, b"\0alice\0p")
    login.handshake(1, SCRAM)
    login.token(b"n,,n=bob,r=1")
    login.accepted()
    assert login.principal == "User:alice"
    login.accepted()
    assert login.principal == "User:bob"


def test_tokens_without_headers_follow_version_0_until_the_login_is_complete() -> None:
    assert not LoginTracker().takes_raw(b"\0\3")
    assert not logged_in(PLAIN).takes_raw(b"\0alice\0p")
    login = logged_in(PLAIN, version=0)
    assert login.takes_raw(b"\0alice\0p")
    login.accepted()
    assert not login.takes_raw(b"\0\3")


def test_first_byte_distinguishes_tokens_from_frames_for_an_unknown_mechanism() -> None:
    login = logged_in("GSSAPI", version=0)
    assert login.takes_raw(b"\x60abc")
    assert login.takes_raw(b"")
    assert not login.takes_raw(b"\0\3\0\1")
    assert not login.takes_raw(b"\x60abc"), "it is over"
