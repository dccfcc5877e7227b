"""SCRAM on the server: the example of RFC 7677, and kafka-python's client."""

import contextlib
from base64 import b64decode, b64encode
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from brokertwin.gateway.security.scram import (
    ITERATIONS_MIN,
    MECHANISMS,
    Challenge,
    ClientExchange,
    Credential,
    LoginError,
    derive,
    matches,
    parse_client_first,
)

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
names = st.text(st.characters(exclude_characters="\0,=", codec="utf-8"), min_size=1, max_size=12)
passwords = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)


@cache
def rfc_credential() -> Credential:
    return derive("user", SHA_256, b"pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)


def rfc_challenge() -> Challenge:
    return Challenge(parse_client_first(FIRST), rfc_credential(), SERVER_NONCE)


def test_example_of_rfc_7677() -> None:
    challenge = rfc_challenge()
    assert challenge.message == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert challenge.verify(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@settings(deadline=None)  # hashing depends on the machine
@given(names, passwords, passwords, st.sampled_from(sorted(MECHANISMS)), st.binary(min_size=1))
def test_login_needs_the_right_password(
    user: str, password: str, tried: str, mechanism: str, salt: bytes
) -> None:
    credential = derive(user, MECHANISMS[mechanism], password.encode(), salt, ITERATIONS_MIN)
    client = ScramClient(user, tried, mechanism)
    first = parse_client_first(client.first_message())
    assert first.user == user
    challenge = Challenge(first, credential)
    client.process_server_first_message(challenge.message)
    if tried == password:
        client.process_server_final_message(challenge.verify(client.final_message()))
    else:
        with pytest.raises(LoginError):
            challenge.verify(client.final_message())
    assert matches(credential, tried.encode()) == (tried == password)
    ours = ClientExchange(user, tried, MECHANISMS[mechanism])
    again = Challenge(parse_client_first(ours.first()), credential)
    proof = ours.final(again.message)
    if tried == password:
        ours.check(again.verify(proof))
    else:
        with pytest.raises(LoginError):
            again.verify(proof)


def test_the_client_side_of_the_rfc_example() -> None:
    client = ClientExchange("user", "pencil", MECHANISMS["SCRAM-SHA-256"], "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == FIRST
    assert client.final(rfc_challenge().message) == FINAL
    client.check(rfc_challenge().verify(FINAL))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"r=xOther,s=c2FsdA==,i=4096", "nonce"),
        (b"r=mine1,s=c2FsdA==,i=4095", "4095 iterations"),
        (b"r=mine1,s=c2FsdA==,i=many", "invalid literal"),
        (b"m=must,r=mine1,s=c2FsdA==,i=4096", "nonce"),
        (b"r=mine1,s=!,i=4096", ""),
        (b"nonsense", ""),
        (b"", ""),
    ],
)
def test_a_server_that_does_not_follow_the_rfc_is_refused(message: bytes, why: str) -> None:
    client = ClientExchange("user", "pencil", MECHANISMS["SCRAM-SHA-256"], "mine")
    with pytest.raises(ValueError, match=why):
        client.final(message)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    client = ClientExchange("user", "pencil", MECHANISMS["SCRAM-SHA-256"], "rOprNGfwEbeRWgbNEkqO")
    client.final(rfc_challenge().message)
    for message in (b"v=AAAA", b"e=other-error", b""):
        with pytest.raises(ValueError, match="signature"):
            client.check(message)


@pytest.mark.parametrize(
    ("name", "user"), [(b"a=2Cb", "a,b"), (b"a=3Db", "a=b"), (b"=3D2C", "=2C"), ("ä".encode(), "ä")]
)
def test_user_names_are_unescaped(name: bytes, user: str) -> None:
    assert parse_client_first(b"n,,n=%b,r=x" % name).user == user


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=a,r=",
        b"n,,n=a=b,r=x",
        b"n,,n=a,r=x y",
        b"n,,n=a\0,r=x",
        b"n,,n=\xff,r=x",
        b"y,,n=a,r=x",
        b"p=tls-unique,,n=a,r=x",
        b"n,,m=must,n=a,r=x",
        b"n,,n=a,r=x,",
        b"n,,n=a,r=x\n",
    ],
)
def test_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginError) as refused:
        parse_client_first(message)
    assert refused.value.detail is None


def test_authorization_id_of_another_user_is_refused() -> None:
    assert parse_client_first(b"n,a=alice,n=alice,r=x").user == "alice"
    with pytest.raises(LoginError, match="different from username"):
        parse_client_first(b"n,a=bob,n=alice,r=x")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        FINAL.replace(b"p=dH", b"p=dI"),
        FINAL.replace(b"r=rO", b"r=rP"),
        FINAL.replace(b"c=biws", b"c=eSws"),  # the proof does not cover this
        FINAL[:-4],
        FINAL + b"=",
        FINAL.partition(b",p=")[0] + b",p=" + b64encode(b"x" * 31),
        FINAL.partition(b",p=")[0] + b",p=",
    ],
)
def test_invalid_final_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginError):
        rfc_challenge().verify(message)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_parsed_or_refused(message: bytes) -> None:
    with pytest.raises(LoginError):
        rfc_challenge().verify(message)
    with contextlib.suppress(LoginError):
        parse_client_first(b"n,," + message)


def test_proof_cannot_be_replayed() -> None:
    again = Challenge(parse_client_first(FIRST), rfc_credential())
    with pytest.raises(LoginError):
        again.verify(FINAL)


def test_repr_of_a_credential_shows_no_key() -> None:
    assert repr(rfc_credential()) == "Credential('user', SCRAM-SHA-256)"
