"""Clients in threads of one process; msgspec 0.22 ends it where two first use a type at once."""

import subprocess
import sys

import pytest

CLIENTS = """
import sys
import threading

import msgspec

from brokertwin.clients.client_loop import RESPONSES

sys.setswitchinterval(1e-6)
begins = threading.Barrier(8)
bodies = {api: dict.fromkeys(kind.__struct_encode_fields__, 0) for api, kind in RESPONSES.items()}

def read_all():
    begins.wait()
    for api, kind in RESPONSES.items():
        try:
            msgspec.convert(bodies[api], kind)
        except msgspec.ValidationError:
            pass

threads = [threading.Thread(target=read_all) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


@pytest.mark.processes
def test_several_threads_decode_first_responses_concurrently() -> None:
    """Seven of ten processes ended by a signal before the types were known to begin with."""
    for _ in range(4):
        assert subprocess.run([sys.executable, "-c", CLIENTS]).returncode == 0
