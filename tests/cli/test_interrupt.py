"""Ctrl-C ends commands that wait for a broker which never responds."""

import signal
import socket
import subprocess
import sys

import pytest

from tests.support.patience import PATIENCE_S

COMMANDS = (
    ("consume", "orders", "--group", "billing", "--bootstrap", "{address}"),
    ("streams", "wordcount", "lines", "counts", "--bootstrap", "{address}"),
    ("offsets", "import", "{address}", "{folder}"),
    ("exam", "{address}"),
)


def first_request(silent: socket.socket) -> socket.socket:
    """The connection with the first request; some only test whether the port is open."""
    while True:
        connection, _ = silent.accept()
        if connection.recv(1):
            return connection
        connection.close()


@pytest.mark.processes
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_ctrl_c_ends_a_command_without_a_response(words: tuple[str, ...], tmp_path: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        given = [word.format(address=address, folder=f"{tmp_path}/offsets") for word in words]
        process = subprocess.Popen(
            [sys.executable, "-m", "brokertwin", *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with first_request(silent):
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "Traceback" not in printed
