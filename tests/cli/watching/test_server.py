"""Documents that a job or a gateway serves over HTTP."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from brokertwin.cli.watching import sources
from brokertwin.cli.watching.server import app, listen_address, served, served_control
from brokertwin.cli.watching.status import Phase, Status
from brokertwin.errors import UserError
from brokertwin.gateway.http_access import HttpAccess
from tests.support.watched import GATEWAY, JOB, Shown

TIMEOUT_S = 30


@contextmanager
def serving(source: Shown) -> Iterator[str]:
    with served(app(source), "--http-listen 0", "127.0.0.1", 0) as url:
        yield url


def got(url: str, method: str = "GET") -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method=method), timeout=TIMEOUT_S
        ) as response:
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


@pytest.mark.parametrize("status", [JOB, GATEWAY], ids=lambda status: status.kind)
def test_the_document_is_served_whole_and_the_page_reads_nothing_else(status: Status) -> None:
    with serving(Shown(status)) as url:
        code, kind, body = got(f"{url}status.json")
        page = got(url)[2].decode()
    assert (code, kind) == (200, "application/json")
    assert msgspec.json.decode(body, type=Status) == status
    assert 'fetch("status.json"' in page
    assert not [word for word in ("http://", "https://", "@import", "src=") if word in
                page.replace('"http://www.w3.org/2000/svg"', "")]  # fmt: skip


def test_prometheus_gets_its_text() -> None:
    with serving(Shown(JOB)) as url:
        code, kind, body = got(f"{url}metrics")
    lines = body.decode().splitlines()
    assert code == 200
    assert kind.startswith("text/plain")
    assert 'brokertwin_errors_total{api="PRODUCE",error="INVALID_PRODUCER_EPOCH"} 1.0' in lines
    assert 'brokertwin_lag_events{partition="0",topic="shop.requests"} 1500.0' in lines


def test_it_is_ready_while_it_runs_and_alive_while_its_loop_goes_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Shown(JOB)
    with serving(source) as url:
        health = lambda: [got(f"{url}{path}")[::2] for path in ("healthz", "readyz")]  # noqa: E731
        assert health() == [(200, b"ok\n"), (503, b"starting\n")]
        source.pulse.beat()
        assert health() == [(200, b"ok\n"), (200, b"ok\n")]
        monkeypatch.setattr(sources, "SILENT_MAX_S", -1.0)
        assert health() == [(503, b"not alive\n"), (200, b"ok\n")]
        source.pulse.stopping()
        source.pulse.beat()
        assert health() == [(200, b"ok\n"), (503, b"stopping\n")]
        assert source.pulse.phase is Phase.STOPPING


def test_it_only_reads_and_reports_what_there_is() -> None:
    with serving(Shown(JOB)) as url:
        assert got(url, "POST")[0] == 405
        code, _, body = got(f"{url}nothing")
        assert got(url, "HEAD") == (200, "text/html; charset=utf-8", b"")
    assert code == 404
    assert b"/status.json" in body


def test_address_in_use_is_reported_with_the_option() -> None:
    with serving(Shown(JOB)) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        again = served(app(Shown(JOB)), f"--http-listen {port}", "127.0.0.1", port)
        with pytest.raises(
            UserError, match=f"^Cannot listen on --http-listen {port}: Address already in use"
        ):
            again.__enter__()


def test_every_address_of_the_machine_and_ipv6() -> None:
    with served(app(Shown(JOB)), "--http-listen 0.0.0.0:0", "0.0.0.0", 0) as url:
        port = url.rstrip("/").rpartition(":")[2]
        assert got(f"http://127.0.0.2:{port}/healthz")[0] == 200
    with served(app(Shown(JOB)), "--http-listen [::1]:0", *listen_address("[::1]:0")) as url:
        assert url.startswith("http://[::1]:")
        assert got(f"{url}healthz")[0] == 200


@pytest.mark.parametrize(
    ("host", "token", "is_warned"),
    [("0.0.0.0", None, True), ("0.0.0.0", "t", False), ("127.0.0.2", None, False)],
)
def test_a_control_port_that_others_reach_without_a_token_is_warned_about(
    host: str, token: str | None, is_warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with served_control(app(Shown(JOB)), "--control-listen", (host, 0), HttpAccess(token)):
        assert ("--http-access FILE adds a token" in capsys.readouterr().err) == is_warned


@pytest.mark.parametrize(
    ("text", "address"),
    [("9404", ("127.0.0.1", 9404)), ("a.b:0", ("a.b", 0)), ("[::1]:9404", ("::1", 9404))],
)
def test_a_port_alone_is_the_loopback_address(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address
