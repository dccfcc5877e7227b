"""Connection of `brokertwin cluster` to a gateway's control socket or to a job's topics.

With `--control` the target is the local engine of a gateway, otherwise a job.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from brokertwin.cli.options import (
    Bootstrap,
    ConfigFile,
    JobCluster,
    KafkaConfig,
    Prefix,
    options_of,
    selected_cluster,
    settings_of,
    with_options,
)
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.engine.engine import EngineResponse
    from brokertwin.gateway.engine.spark_engine import SparkEngine
    from brokertwin.tables.state_rows import Row

INTERNAL_KIND = "internal kind from outside"

ControlFile = Annotated[
    Path | None,
    typer.Option(
        "--control",
        metavar="FILE",
        help="Control socket of a gateway with --engine local; default: a job.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=1, metavar="SECONDS", help="How long to wait for the job's response."
    ),
]


class Access(NamedTuple):
    """Options of each subcommand that select the cluster; None means not given."""

    control: ControlFile = None
    cluster: JobCluster = None
    bootstrap: Bootstrap = None
    prefix: Prefix = None
    kafka_config: KafkaConfig = None
    config: ConfigFile = None
    timeout_s: Timeout = 60.0

    def status(self, checkpoint: Path | None) -> "dict[str, list[Row]]":
        """Return `brokers` and `partitions` of the cluster, as in `state/cell/overview.py`.

        Raises:
            UserError: the target does not respond, has no checkpoint, or has several clusters.
        """
        if self.control is not None:
            from brokertwin.gateway.admin.control import STATUS, ask

            return ask(self.control, ask=STATUS)
        return self._status_of_job(checkpoint)

    def intervene(self, kind: str, broker: int, directory: str = "") -> None:
        """Change a broker by one of `ABOUT_BROKERS`. Raises UserError if it is refused.

        `directory` is the log directory to fail.
        """
        if self.control is not None:
            from brokertwin.gateway.admin.control import ask

            response = ask(self.control, ask=kind, broker=broker, directory=directory)
            _refuse(response.get("error"))
            return
        from brokertwin.state.core.events import Kind

        self._at_job(lambda engine: engine.intervene(Kind(kind), broker, directory), broker)

    def request(self, api_key: int, version: int, body: Any, principal: str) -> Any:
        """Send a request and return the response body. Raises UserError if there is none."""
        from brokertwin.gateway.admin import control

        if self.control is not None:
            fields = {"apiKey": api_key, "apiVersion": version, "body": body}
            response = control.ask(self.control, ask=control.REQUEST, principal=principal, **fields)
            _refuse(response.get("error"))
            return response["response"]
        return self._at_job(
            lambda engine: control.request(engine, api_key, version, body, principal)
        ).document(version)

    def _status_of_job(self, checkpoint: Path | None) -> "dict[str, list[Row]]":
        from brokertwin.state.cell import overview
        from brokertwin.state.core.settings import cluster_of
        from brokertwin.state.core.tables import CellTables
        from brokertwin.streaming.checkpoint import facts, state_reader

        settings = settings_of(self.config, checkpoint=checkpoint, prefix=self.prefix)
        cells = state_reader.read_cells(settings.checkpoint_dir)
        job_facts = facts.read(settings.checkpoint_dir)
        assert job_facts is not None, "a job with cells has facts"
        name = selected_cluster(job_facts.brokers, self.cluster)
        tables = [CellTables(cells[cell]) for cell in cells if cluster_of(cell) == name]
        return {
            "brokers": overview.brokers(tables, job_facts.brokers[name]),
            "partitions": overview.partitions(tables),
        }

    def _at_job(
        self, work: "Callable[[SparkEngine], Awaitable[EngineResponse]]", broker: int | None = None
    ) -> "EngineResponse":
        """Return a job's response. Raises UserError if there is none or it is a refusal."""
        from brokertwin.cli.broker.engines import EngineOptions
        from brokertwin.gateway.engine.engine import NoResponseError
        from brokertwin.gateway.engine.spark_engine import SparkEngine
        from brokertwin.state.core.settings import BrokerSettings

        options = EngineOptions(
            cluster=self.cluster,
            bootstrap=self.bootstrap,
            prefix=self.prefix,
            kafka_config=self.kafka_config,
            config=self.config,
            response_timeout_s=self.timeout_s,
        )
        engine = options.make("spark", BrokerSettings(), ())
        assert isinstance(engine, SparkEngine)
        if broker is not None and broker not in engine.brokers:
            raise UserError(
                f"Broker {broker} does not exist.", f"The cluster has the brokers {engine.brokers}."
            )

        async def do() -> "EngineResponse":
            await engine.start()
            try:
                return await work(engine)
            finally:
                await engine.close()

        try:
            response = asyncio.run(do())
        except NoResponseError as error:
            raise UserError(
                f"The job did not respond: {error}.", "Check that it runs, or raise --timeout."
            ) from None
        _refuse(response.error)
        return response


def _access(config: Path | None, **options: Any) -> Access:
    settings_of(config)  # configures logging and checks the settings
    return Access(config=config, **options)


with_access = with_options("access", _access, options_of(Access))
"""Replace a command's parameter `access` by the options of `Access`."""


def _refuse(error: "dict[str, str] | None") -> None:
    """Raise UserError with the reason if the job refused a command."""
    if error is None:
        return
    if error["reason"] == INTERNAL_KIND:
        raise UserError(
            "This job does not accept `brokertwin cluster` commands.",
            "Restart it with `brokertwin run --interventions`.",
        )
    raise UserError(f"The job refused the command ({error['reason']}): {error['detail']}.")
