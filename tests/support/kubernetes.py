"""The part of Kubernetes' API that Spark uses. A pod is a process of the image's entry point.

Source: org.apache.spark.scheduler.cluster.k8s, org.apache.spark.deploy.k8s.submit. Nothing here
schedules or restarts pods, or checks rights.
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from brokertwin.streaming.job.session import COMPILE_ONCE
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import ROOT

ENTRY_POINT = ROOT / "docker" / "entrypoint.sh"
HOST = "127.0.0.1"


class Kubernetes:
    """A namespace.

    Args:
        directory: for the files of its pods.
        environment: what the image has; None if no pod is to run.

    Attributes:
        pods: name to pod, also of those that have ended.
        master: the URL for Spark, without `k8s://`.
    """

    def __init__(self, directory: Path, environment: dict[str, str] | None) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.master = ""
        self._directory, self._environment = directory, environment
        self._config_maps: dict[str, dict[str, str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def request(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the document of a response."""
        kind, _, name = path.partition("?")[0].split("/namespaces/default/")[1].partition("/")
        if method in ("POST", "PATCH"):
            self._make(kind, body)
            return 201, body
        if method == "DELETE":
            for each in [name] if name else list(self._running):
                self._end(each)
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if kind == "pods" and not name:
            return 200, {"kind": "PodList", "apiVersion": "v1", "items": self._states()}
        if kind == "pods" and name in self.pods:
            return 200, self.pods[name]
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}

    def output(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        for name in list(self._running):
            self._end(name)

    def _make(self, kind: str, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if kind == "configmaps":
            self._config_maps[name] = body["data"]
        elif kind == "pods":
            body["metadata"]["uid"] = name
            self.pods[name] = body
            if self._environment is not None:
                work = (body, self._environment)
                threading.Thread(target=self._start, args=work, daemon=True).start()

    def _start(self, pod: dict[str, Any], environment: dict[str, str]) -> None:
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        places = {}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "persistentVolumeClaim" in volume:
                continue  # the tests mount it in its own place
            places[mount["mountPath"]] = made = self._directory / name / mount["name"]
            made.mkdir(parents=True)
            if "configMap" in volume:
                config = volume["configMap"]["name"]
                wait_until(partial(self._config_maps.__contains__, config), f"no {config}")
                for file, text in self._config_maps[config].items():
                    (made / file).write_text(text)
        fields = {"status.podIP": HOST, "metadata.name": name}
        values = {
            each["name"]: each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container["env"]
        }
        text = "\0".join([*container["args"], *(f"{key}={values[key]}" for key in values)])
        for place, made in places.items():
            text = text.replace(place, str(made))
        words = text.split("\0")
        count = len(container["args"])
        given = dict(each.split("=", 1) for each in words[count:])
        with (self._directory / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [ENTRY_POINT, *words[:count]],
                env={**environment, "JAVA_TOOL_OPTIONS": COMPILE_ONCE, **given},
                stdout=log,
                stderr=log,
                cwd=self._directory / name,
                start_new_session=True,
            )

    def _states(self) -> list[dict[str, Any]]:
        for name, process in list(self._running.items()):
            code = process.poll()
            phase = "Running" if code is None else "Failed" if code else "Succeeded"
            self.pods[name]["status"] = {"phase": phase, "podIP": HOST}
        return list(self.pods.values())

    def _end(self, name: str) -> None:
        process = self._running.get(name)
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)


@contextmanager
def kubernetes(directory: Path, environment: dict[str, str] | None) -> Iterator[Kubernetes]:
    found = Kubernetes(directory, environment)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            code, document = found.request(self.command, self.path, body)
            text = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 (names of http.server)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    found.master = f"http://{HOST}:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        found.stop()
        server.shutdown()
