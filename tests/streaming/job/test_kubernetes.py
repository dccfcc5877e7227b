"""The manifests of docker/kubernetes: Spark's own client makes pods of them, which are processes.

No kubelet, scheduler or access control is there.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import brokertwin
from brokertwin.kafka_io import placement
from brokertwin.streaming.job import job
from tests.support.commands import Commands
from tests.support.jobs import JobBench, capture
from tests.support.kubernetes import HOST, Kubernetes, kubernetes
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT
from tests.support.typed_commands import free_port

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.full]

SCRIPTS = Path(sys.executable).parent
NO_WATCH = "spark.kubernetes.executor.enableApiWatcher"
"""Spark asks for the state of pods instead; the API here has no web sockets."""

IMAGE, VOLUME = "registry.example/brokertwin", "/checkpoints"


def manifest(name: str) -> dict[str, Any]:
    text = (ROOT / "docker" / "kubernetes" / name).read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> JobBench:
    made = JobBench(kafka, tmp_path)
    placement.write(made.client, made.prefix, job.placements(made.settings))
    made.send("a", capture("fetch_session_assign", made.edge("a")))
    return made


@pytest.fixture
def image() -> dict[str, str]:
    return {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}


def executors(found: Kubernetes) -> list[dict[str, Any]]:
    pods = found.pods.values()
    return [each for each in pods if each["metadata"]["labels"]["spark-role"] == "executor"]


def assert_pod(pod: dict[str, Any], role: str, place: str) -> None:
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["args"][0]) == (IMAGE, role)
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["checkpoints"] == place
    claims = [each.get("persistentVolumeClaim") for each in pod["spec"]["volumes"]]
    assert {"claimName": "checkpoints", "readOnly": False} in claims


def test_the_driver_of_the_stateful_set_gets_executors(
    bench: JobBench, image: dict[str, str], tmp_path: Path
) -> None:
    (container,) = manifest("stateful_set.yaml")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    (tmp_path / "pods").mkdir()
    with kubernetes(tmp_path / "pods", image) as namespace:
        here = {
            "BROKERTWIN_MASTER": f"k8s://{namespace.master}",
            "BROKERTWIN_SPARK_CONF": f"{given['BROKERTWIN_SPARK_CONF']}; {NO_WATCH}=false".replace(
                VOLUME, str(bench.checkpoint.parent)
            )
            .replace("brokertwin-0.brokertwin", HOST)
            .replace("7078", str(free_port()))
            .replace("7079", str(free_port())),
        }
        assert given.keys() == here.keys() | {"BROKERTWIN_BOOTSTRAP", "BROKERTWIN_CHECKPOINT"}
        assert container["image"] == IMAGE
        words = [ROOT / "docker" / "entrypoint.sh", container["args"][0], "--available-now"]
        done = subprocess.run(
            words,
            env={**Commands(bench).environment, **here, "PATH": image["PATH"]},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (done.stderr, *map(namespace.output, namespace.pods))
        assert len(executors(namespace)) == 2
        for pod in executors(namespace):
            assert_pod(pod, "executor", str(bench.checkpoint.parent))
        bench.assert_live_run_equals_replay("a")


def test_spark_submit_makes_the_driver_pod_of_the_operators_application(
    image: dict[str, str], tmp_path: Path
) -> None:
    """Spark's own client checks the configuration, as the operator's does."""
    application = manifest("spark_application.yaml")
    spec = application["spec"]
    with kubernetes(tmp_path, None) as found:
        settings = {**spec["sparkConf"], "spark.kubernetes.submission.waitAppCompletion": "false"}
        words = [
            *(str(SCRIPTS / "spark-submit"), "--master", f"k8s://{found.master}"),
            *("--deploy-mode", "cluster", "--name", application["metadata"]["name"]),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            *(spec["pyFiles"], *spec["driverArgs"]),
        ]
        done = subprocess.run(words, env=image, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        (driver,) = found.pods.values()
    assert_pod(driver, "driver", VOLUME)
    (container,) = driver["spec"]["containers"]
    assert container["args"][-2:] == [spec["pyFiles"], "run"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["BROKERTWIN_CHECKPOINT"] == f"{VOLUME}/orders"
    program = Path(brokertwin.__path__[0]) / "__main__.py"
    assert spec["pyFiles"].endswith(f"/site-packages/brokertwin/{program.name}")
