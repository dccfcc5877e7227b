"""The image and the compose file, held against the project: no docker is needed.

The image's own steps are run, those of Debian left out: what `COPY` brings goes into an empty
directory, what `pip install` says is done in an environment that has nothing else.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.cli.main import load
from brokertwin.cli.watching import live
from brokertwin.settings import Settings, default_home
from tests.support.commits import commit
from tests.support.environments import environment_with, install
from tests.support.images import Ignored, context_files, copy_context, steps
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import AT_THE_TOP, PACKAGES, ROOT
from tests.support.typed_commands import free_port

DOCKERFILE = ROOT / "docker" / "Dockerfile"
IGNORED = Ignored(ROOT / ".dockerignore")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))
STEPS = steps(DOCKERFILE)
USER = "brokertwin"


def commands(program: str) -> list[list[str]]:
    runs = [step for step in STEPS if step.instruction == "RUN"]
    return [words for run in runs for words in run.commands() if words[0] == program]


@pytest.mark.parametrize(
    ("path", "is_left_out"),
    [
        ("docs/testing.md", True),
        ("state/cell.py", False),
        ("state/apis/fetch.py", False),
        ("state/__pycache__/cell.pyc", True),
        (".git/HEAD", True),
        ("pyproject.toml", False),
    ],
)
def test_how_the_rules_are_read(path: str, is_left_out: bool) -> None:
    assert IGNORED.has(PurePosixPath(path)) is is_left_out


def test_the_image_gets_every_mapped_package_and_nothing_else() -> None:
    directories = set(AT_THE_TOP)
    files = {"pyproject.toml", ".ci"}
    files |= {PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"]}
    found = list(context_files(ROOT, IGNORED))
    assert {path.parts[0] for path in found} == directories | files | {"docker"}
    (entry_point,) = (path for path in found if path.parts[0] == "docker")
    (entered,) = (step.argument for step in STEPS if step.instruction == "ENTRYPOINT")
    places = [step.argument for step in STEPS if step.instruction == "WORKDIR"]
    assert json.loads(entered) == [f"{places[0]}/{entry_point}"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's environment after COPY and pip's steps; its interpreter."""
    place = tmp_path_factory.mktemp("image")
    assert [step.argument for step in STEPS if step.instruction == "COPY"] == [". ."]
    copy_context(ROOT, IGNORED, place / "source")
    ((_, verb, *words),) = commands("pip")
    assert verb == "install"
    required = [*PYPROJECT["project"]["dependencies"]]
    for extra in words[-1].partition("[")[2].removesuffix("]").split(","):
        required += PYPROJECT["project"]["optional-dependencies"][extra]
    python = environment_with(place / "environment", [*required, "setuptools"])
    install(python, *words, cwd=place / "source")
    return python


@pytest.mark.processes
def test_the_steps_give_every_package(image: Path) -> None:
    names = ["brokertwin", *(f"brokertwin.{name}" for name in PACKAGES if name != "brokertwin")]
    code = f"import importlib; [importlib.import_module(name) for name in {names}]"
    code += "; import brokertwin.streaming.job.runner, brokertwin.cli.watching.server"
    done = subprocess.run([image, "-I", "-c", code], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
def test_the_setup_step_finds_its_jars(image: Path, tmp_path: Path) -> None:
    """They are installed, so that the network is not used."""
    ((program, *words),) = commands("brokertwin")
    (tmp_path / "jars").symlink_to(default_home() / "jars")
    environment = {**os.environ, "BROKERTWIN_HOME": str(tmp_path)}
    command = [image.parent / program, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_mounted_and_written_directories_belong_to_the_image_user() -> None:
    """A new volume has the owner of the directory in the image, or else root."""
    names = [step.instruction for step in STEPS]
    assert STEPS[names.index("USER")].argument == USER
    ((_, *words),) = commands("install")
    assert words[words.index("-o") + 1] == USER
    environment = dict(step.argument.split("=") for step in STEPS if step.instruction == "ENV")
    home = environment["BROKERTWIN_HOME"]
    settings = Settings(home=Path(home))
    mounted = {volume.partition(":")[2] for of in OURS.values() for volume in of.get("volumes", ())}
    of_job = {str(settings.checkpoint_dir.parent), str(settings.snapshots_dir.parent)}
    assert mounted == of_job | {str(live.home(settings, live.PREFIX).parent)}
    assert mounted | {home} <= set(words)
    (volumes,) = [step.argument for step in STEPS if step.instruction == "VOLUME"]
    assert mounted == set(volumes.split())
    assert STEPS[len(names) - names[::-1].index("WORKDIR") - 1].argument == home


OURS = {name: of for name, of in COMPOSE["services"].items() if of["image"] == "brokertwin"}


def arguments(service: str) -> dict[str, Any]:
    """The options that a service's command gives. Raises where our command line has no such."""
    name, *words = OURS[service]["command"]
    context = load(name).make_context(name, words)
    assert OURS[service]["command"]
    return dict(context.params)


@pytest.mark.parametrize("service", OURS)
def test_service_is_built_from_this_repository_and_calls_an_existing_command(service: str) -> None:
    build = OURS[service]["build"]
    assert (ROOT / "docker" / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]) == DOCKERFILE
    assert arguments(service)
    for name in OURS[service]["environment"]:
        assert name.removeprefix("BROKERTWIN_").lower() in Settings.model_fields


def test_volumes_and_services_named_by_a_service_exist() -> None:
    assert set(OURS) == {"job", "gateway", "capture", "live"}
    volumes = set()
    for service in COMPOSE["services"].values():
        for place in (volume.partition(":")[0] for volume in service.get("volumes", ())):
            if place.startswith("./"):
                assert (ROOT / "docker" / place).is_file()
            else:
                volumes.add(place)
        for other, condition in service.get("depends_on", {}).items():
            is_requested = "healthcheck" in COMPOSE["services"][other]
            wanted = "service_healthy" if is_requested else "service_started"
            assert condition == {"condition": wanted}
    assert volumes == set(COMPOSE["volumes"])


def test_kafka_is_reached_inside_by_the_name_of_its_service() -> None:
    listeners = COMPOSE["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    inside = dict(listener.split("://") for listener in listeners.split(","))["INSIDE"]
    assert inside.partition(":")[0] in COMPOSE["services"]
    for service in OURS.values():
        assert service["environment"]["BROKERTWIN_BOOTSTRAP"] == inside


def test_clients_outside_reach_the_gateway_at_its_advertised_address() -> None:
    given = arguments("gateway")
    (published,) = OURS["gateway"]["ports"]
    _, outside, inside = published.split(":")
    assert given["listen"] == f"0.0.0.0:{inside}"
    assert given["advertise"] == f"localhost:{outside}"
    assert inside in _exposed()


def test_the_jobs_metrics_are_served_where_compose_publishes_them() -> None:
    (published,) = OURS["job"]["ports"]
    host, outside, inside = published.split(":")
    assert host == "127.0.0.1", "they are for this machine alone"
    assert arguments("job")["http_listen"] == f"0.0.0.0:{inside}"
    assert inside in _exposed()
    assert f"http://localhost:{outside}/metrics" in (ROOT / "docker" / "README.md").read_text()
    scraped = yaml.safe_load((ROOT / "docker" / "prometheus.yaml").read_text(encoding="utf-8"))
    (targets,) = scraped["scrape_configs"][0]["static_configs"]
    (audited,) = OURS["live"]["ports"]
    assert arguments("live")["http_listen"] == f"0.0.0.0:{audited.rpartition(':')[2]}"
    assert targets == {"targets": [f"job:{inside}", f"live:{audited.rpartition(':')[2]}"]}
    (rules,) = scraped["rule_files"]
    assert f"./{rules}:/etc/prometheus/{rules}:ro" in COMPOSE["services"]["prometheus"]["volumes"]


def test_the_live_audit_reads_what_clients_and_kafka_exchange_through_the_capture() -> None:
    captured, audited = arguments("capture"), arguments("live")
    (published,) = OURS["capture"]["ports"]
    host, outside, inside = published.split(":")
    assert (host, outside) == ("127.0.0.1", inside), "metadata has the port that it listens on"
    assert captured["listen"] == f"0.0.0.0:{inside}"
    assert captured["advertise"] == "localhost"
    assert captured["broker"] == OURS["capture"]["environment"]["BROKERTWIN_BOOTSTRAP"]
    assert live.sources_of(audited["topic"]) == {captured["topic"]: "shop"}
    assert inside in _exposed()


def test_grafana_is_provisioned_with_the_dashboard_and_prometheus() -> None:
    places = dict(volume.split(":")[:2] for volume in COMPOSE["services"]["grafana"]["volumes"])
    provisioned = {
        place: yaml.safe_load((ROOT / "docker" / place).read_text(encoding="utf-8"))
        for place in places
    }
    (source,) = provisioned["./grafana/datasources.yaml"]["datasources"]
    (published,) = COMPOSE["services"]["prometheus"]["ports"]
    assert source["url"] == f"http://prometheus:{published.rpartition(':')[2]}"
    (provider,) = provisioned["./grafana/dashboards.yaml"]["providers"]
    for name in ("./grafana.json", "./grafana-live.json"):
        shown = PurePosixPath(places[name])
        assert provider["options"]["path"] == str(shown.parent)
        assert provisioned[name]["panels"]


class Composed:
    """Starts compose's own commands, with free ports of this machine and a Kafka of the test.

    Attributes:
        ports: port in compose to the one here.
    """

    def __init__(self, kafka: str, directory: Path, *ports: str) -> None:
        self.ports = {port: str(free_port()) for port in ports}
        self._kafka, self._directory = kafka, directory
        (directory / "jars").symlink_to(default_home() / "jars")
        self.environment = {
            **os.environ,
            "BROKERTWIN_HOME": str(directory),
            "BROKERTWIN_BOOTSTRAP": kafka,
            "BROKERTWIN_PREFIX": "compose",
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def _here(self, words: list[str]) -> list[str]:
        text = "\0".join(words).replace("kafka:19092", self._kafka)
        for port, free in self.ports.items():
            text = text.replace(f":{port}", f":{free}").replace(f", {port})", f", {free})")
        return text.split("\0")

    def start(self, service: str, probe: str) -> None:
        command = [sys.executable, "-m", "brokertwin", *self._here(OURS[service]["command"])]
        with (self._directory / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self._running.append(process)
        words = self._here(shlex.split(OURS[probe]["healthcheck"]["test"]))[1:]
        probed = [sys.executable, *words]

        def is_well() -> bool:
            assert process.poll() is None, (self._directory / f"{service}.log").read_text()
            return subprocess.run(probed, capture_output=True, check=False).returncode == 0

        wait_until(is_well)

    def call(self, *words: str) -> str:
        """Run a command to its end; its output."""
        command = [sys.executable, "-m", "brokertwin", *words]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        for process in self._running[::-1]:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(PATIENCE_S) for process in self._running]
        logs = [file.read_text() for file in self._directory.glob("*.log")]
        assert codes == [0] * len(codes), logs


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.processes
def test_the_commands_of_compose_start_a_job_and_a_gateway_that_work_together(
    kafka: str, tmp_path: Path
) -> None:
    composed = Composed(kafka, tmp_path, "9404", "9192")
    try:
        for service in ("job", "gateway"):
            composed.start(service, "job")
        client = AdminClient({"bootstrap.servers": f"localhost:{composed.ports['9192']}"})
        wait_until(lambda: client.list_topics(timeout=PATIENCE_S).brokers)
        (created,) = client.create_topics([NewTopic("orders", 1, 1)]).values()
        assert created.result(PATIENCE_S) is None
        composed.call("check", "--on", "state")
    finally:
        composed.stop()
    assert len(list((tmp_path / "snapshots" / "compose").glob("*/snapshot.json"))) == 1


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.processes
def test_the_commands_of_compose_report_an_offset_that_a_client_moved_back(
    own_kafka: str, tmp_path: Path
) -> None:
    composed = Composed(own_kafka, tmp_path, "9404", "9292")
    through = f"localhost:{composed.ports['9292']}"
    try:
        for service in ("capture", "live"):
            composed.start(service, service)
        client = AdminClient({"bootstrap.servers": through})
        (created,) = client.create_topics([NewTopic("orders", 1, 1)]).values()
        assert created.result(PATIENCE_S) is None
        for offset in (9, 4):
            commit(through, "billing", "orders", offset)

        def metrics() -> str:
            with urlopen(f"http://localhost:{composed.ports['9404']}/metrics") as response:
                return str(response.read(), "utf-8")

        counted = (
            'brokertwin_live_findings_total{client="rdkafka",cluster="shop",kind="offset-back"}'
        )
        wait_until(lambda: f"{counted} 1.0" in metrics())
        shown = composed.call("top", f"localhost:{composed.ports['9404']}", "--once")
        assert "live live  running" in shown
        assert "offset-back" in shown
        reported = composed.call("explain", "group", "billing", "--live", "live", "--json")
        kinds = {json.loads(line)["kind"] for line in reported.splitlines()}
        assert {"groups", "offsets", "offset-back"} <= kinds
    finally:
        composed.stop()
    assert list((tmp_path / "live" / "live" / "findings").glob("*.parquet"))


def _exposed() -> list[str]:
    return [
        port for step in STEPS if step.instruction == "EXPOSE" for port in step.argument.split()
    ]
