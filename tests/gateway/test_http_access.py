"""Pages of other sites and other machines cannot use an HTTP port, and no request stops it."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from brokertwin.cli.watching.server import CONNECTIONS_MAX, served
from brokertwin.errors import UserError
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.gateway.http_access import BODY_BYTES_MAX, HttpAccess
from brokertwin.gateway.proxy.control import app
from tests.support.certificates import Authority
from tests.support.patience import PATIENCE_S, wait_until

JSON = {"Content-Type": "application/json"}
OWN_PAGE = {**JSON, "Host": "ci.example.org:9405", "Origin": "http://CI.example.org:9405"}
FAULT = json.dumps({"effect": "cut", "api": "FETCH"})


def call(
    port: int, method: str, path: str, body: str | bytes | None, headers: Mapping[str, str]
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path, body, dict(headers))
    response = connection.getresponse()
    result = response.status, json.loads(response.read())
    connection.close()
    return result


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].strip("/"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    access = HttpAccess(hosts=frozenset({"ci.example.org"}))
    with served(app(FaultSet([]), list), "--control 0", "127.0.0.1", 0, access) as url:
        yield port_of(url)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (JSON, FAULT, 201),
        ({**JSON, "Host": "localhost:9405"}, FAULT, 201),
        ({**JSON, "Host": "[::1]:9405"}, FAULT, 201),
        ({**JSON, "Host": "proxy:9405"}, FAULT, 201),
        ({**JSON, "Host": "ci.example.org"}, FAULT, 201),
        (OWN_PAGE, FAULT, 201),
        ({**JSON, "Host": "attacker.example"}, FAULT, 403),
        ({**JSON, "Host": "attacker.example:9405"}, FAULT, 403),
        ({**JSON, "Host": "127.0.0.1.attacker.example"}, FAULT, 403),
        ({**JSON, "Origin": "https://attacker.example"}, FAULT, 403),
        ({**JSON, "Origin": "null"}, FAULT, 403),
        ({"Content-Type": "text/plain"}, FAULT, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, FAULT, 415),
        ({}, FAULT, 415),
        (JSON, "[" * 100_000, 400),
        (JSON, '{"a":' * 100_000, 400),
        (JSON, "{", 400),
        (JSON, b"\xff\xfe", 400),
        ({**JSON, "Content-Length": "-1"}, "", 411),
        ({**JSON, "Content-Length": str(BODY_BYTES_MAX + 1)}, "", 413),
        ({**JSON, "Transfer-Encoding": "chunked"}, "", 411),
    ],
)
def test_who_may_add_a_fault(
    port: int,
    headers: Mapping[str, str],
    body: str | bytes,
    status: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert call(port, "POST", "/faults", body, headers)[0] == status
    assert call(port, "DELETE", "/faults", None, {})[0] == 200
    assert capfd.readouterr().err == ""


def test_a_foreign_page_reads_nothing(port: int) -> None:
    assert call(port, "GET", "/requests", None, {"Host": "attacker.example"})[0] == 403
    assert call(port, "DELETE", "/faults", None, {"Origin": "http://attacker.example"})[0] == 403


def test_a_token_is_needed_except_for_health() -> None:
    def well(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"{}"]

    with served(well, "--http-listen 0", "127.0.0.1", 0, HttpAccess("secret")) as url:
        cases = {"Bearer secret": 200, "Bearer wrong": 401, "Basic secret": 401, "": 401}
        for given, status in cases.items():
            headers = {"Authorization": given}
            assert call(port_of(url), "GET", "/status.json", None, headers)[0] == status
        assert call(port_of(url), "GET", "/healthz", None, {})[0] == 200


def test_a_fault_of_the_application_is_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    def broken(environ: Any, start_response: Any) -> list[bytes]:
        raise KeyError("inner")

    with served(broken, "--http-listen 0", "127.0.0.1", 0) as url:
        assert call(port_of(url), "GET", "/", None, {}) == (500, {"error": "KeyError", "hint": ""})
        with socket.create_connection(("127.0.0.1", port_of(url))) as client:
            client.sendall(b"\x16\x03\x01 no HTTP \xff\r\n\r\n")
            client.recv(1000)
    assert capfd.readouterr().err == ""


def test_connections_are_bounded() -> None:
    with served(app(FaultSet([]), list), "--control 0", "127.0.0.1", 0) as url:
        idle = [
            socket.create_connection(("127.0.0.1", port_of(url)))
            for _ in range(CONNECTIONS_MAX + 1)
        ]
        assert idle[-1].recv(1) == b""
        for each in idle:
            each.close()

        def is_served() -> bool:
            try:
                return call(port_of(url), "GET", "/faults", None, {}) == (200, [])
            except (ConnectionError, http.client.HTTPException):
                return False

        wait_until(is_served)


def test_https_with_the_certificate_of_the_file(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue("status").store(tmp_path / "server.pem")
    (tmp_path / "access.toml").write_text('certificate = "server.pem"\n')
    access = HttpAccess.read(tmp_path / "access.toml")
    context = ssl.create_default_context(cadata=authority.certificate)
    with served(app(FaultSet([]), list), "--control 0", "localhost", 0, access) as url:
        assert url.startswith("https://")
        connection = http.client.HTTPSConnection(
            "localhost", port_of(url), timeout=PATIENCE_S, context=context
        )
        connection.request("GET", "/faults")
        assert json.loads(connection.getresponse().read()) == []
        connection.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokens = 'a'", "unknown field"),
        ("token = 5", "Expected `str"),
        ("token", "Expected '='"),
        ("token = 'ä'", "not ASCII"),
        ("certificate = 'none.pem'", "Cannot read the certificate none.pem: No such file"),
    ],
)
def test_a_wrong_access_file_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        HttpAccess.read(file)
