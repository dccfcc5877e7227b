"""An object store with S3's protocol on this machine: moto's server, with a bucket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from brokertwin import places
from tests.support.patience import wait_until
from tests.support.typed_commands import free_port

BUCKET = "checkpoints"
PROGRAM = "from moto.server import main; main()"


@contextmanager
def object_store(log: Path) -> Iterator[dict[str, str]]:
    """Run the server; give AWS's environment variables for it, which this process has, too."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    variables = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    former = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    places._filesystem.cache_clear()
    command = [sys.executable, "-c", PROGRAM, "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: _has_bucket(address), "moto did not start")
        yield variables
    finally:
        server.kill()
        server.wait()
        for name, value in former.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        places._filesystem.cache_clear()


def _has_bucket(address: str) -> bool:
    from pyarrow import fs

    store = fs.S3FileSystem(endpoint_override=address, allow_bucket_creation=True)
    with suppress(OSError):
        store.create_dir(BUCKET)
        return True
    return False
