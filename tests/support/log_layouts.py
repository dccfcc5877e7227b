"""A request log as runtimes, agents, layouts and exports give it: the same lines in other forms."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple

Layout = Callable[[Sequence["Logged"]], bytes]


class Logged(NamedTuple):
    """A line of a request log: its time in ms since 1970, and its JSON."""

    time: int
    body: str

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.time / 1000, UTC)

    @property
    def message(self) -> str:
        return f"Completed request:{self.body}"

    @property
    def text(self) -> str:
        """As Kafka's own configuration writes it."""
        return f"[{self.at(',')}] DEBUG {self.message} (kafka.request.logger)"

    def at(self, point: str = ".", form: str = "%Y-%m-%d %H:%M:%S") -> str:
        return f"{self.moment.strftime(form)}{point}{self.time % 1000:03d}"

    @property
    def iso(self) -> str:
        return self.at(form="%Y-%m-%dT%H:%M:%S") + "Z"


def lines(each: Callable[[Logged], str]) -> Layout:
    return lambda log: "".join(f"{each(line)}\n" for line in log).encode()


def objects(each: Callable[[Logged], Any]) -> Layout:
    return lines(lambda line: json.dumps(each(line)))


def whole(each: Callable[[Sequence[Logged]], Any], indent: int | None = None) -> Layout:
    return lambda log: json.dumps(each(log), indent=indent).encode()


def table(head: Sequence[str], each: Callable[[Logged], Sequence[str]]) -> Layout:
    def written(log: Sequence[Logged]) -> bytes:
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(head)
        rows.writerows(each(line) for line in log)
        return text.getvalue().encode()

    return written


def pieces(text: str, size: int = 700) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def cri(line: Logged) -> str:
    *first, last = pieces(line.text)
    stamp = line.at(form="%Y-%m-%dT%H:%M:%S") + "123456Z"
    return "\n".join([*(f"{stamp} stdout P {part}" for part in first), f"{stamp} stdout F {last}"])


def docker_in_parts(line: Logged) -> str:
    parts = pieces(line.text + "\n")
    return "\n".join(
        json.dumps({"log": part, "stream": "stdout", "time": line.iso}) for part in parts
    )


def journal_in_parts(line: Logged) -> str:
    start = f"{line.moment:%b %d %H:%M:%S} kafka-1 kafka-server-start.sh[812]: "
    return "\n".join(start + part for part in pieces(line.text))


def instant(line: Logged) -> dict[str, int]:
    return {"epochSecond": line.time // 1000, "nanoOfSecond": line.time % 1000 * 1_000_000}


def pretty(line: Logged) -> str:
    body = json.dumps(json.loads(line.body), indent=2)
    return f"[{line.at(',')}] DEBUG Completed request:{body} (kafka.request.logger)"


def loki(log: Sequence[Logged]) -> Any:
    values = [[str(line.time * 1_000_000), line.message] for line in reversed(log)]
    stream = {"stream": {"pod": "kafka-1", "container": "kafka"}, "values": values}
    return {"status": "success", "data": {"resultType": "streams", "result": [stream]}}


def hits(log: Sequence[Logged]) -> Any:
    found = [
        {
            "_index": "logs",
            "_id": str(n),
            "_source": {"@timestamp": line.iso, "message": line.message},
        }
        for n, line in enumerate(log)
    ]
    return {"took": 3, "hits": {"total": {"value": len(found)}, "hits": found}}


def otlp(line: Logged) -> Any:
    record = {"timeUnixNano": str(line.time * 1_000_000), "body": {"stringValue": line.message}}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def gelf(line: Logged) -> Any:
    return {
        "version": "1.1",
        "host": "kafka-1",
        "short_message": line.message[:120],
        "full_message": line.message,
        "timestamp": line.time / 1000,
    }


LAYOUTS: dict[str, Layout] = {
    "slashes": lines(lambda line: f"{line.at(form='%Y/%m/%d %H:%M:%S')} DEBUG {line.message}"),
    "log4j DATE": lines(lambda line: f"{line.at(',', '%d %b %Y %H:%M:%S')} {line.message}"),
    "log4j COMPACT": lines(lambda line: f"{line.at('', '%Y%m%d%H%M%S')} {line.message}"),
    "log4j ISO8601_BASIC": lines(lambda line: f"{line.at(',', '%Y%m%dT%H%M%S')} {line.message}"),
    "German date": lines(lambda line: f"{line.at(',', '%d.%m.%Y %H:%M:%S')} {line.message}"),
    "US date": lines(lambda line: f"{line.at('.', '%m/%d/%Y %H:%M:%S')} {line.message}"),
    "epoch ms": lines(lambda line: f"{line.time} {line.message}"),
    "epoch s with fraction": lines(lambda line: f"{line.time / 1000:.3f} {line.message}"),
    "time behind": lines(lambda line: f"DEBUG {line.message} at {line.iso}"),
    "MDC behind": lines(lambda line: f"{line.text} {{requestId=7, user={{}}}}"),
    "XML": lines(
        lambda line: f'<Event timeMillis="{line.time}"><Message>{escape(line.message)}</Message>'
    ),
    "XML with CDATA": lines(
        lambda line: f'<Event timeMillis="{line.time}"><![CDATA[{line.message}]]></Event>'
    ),
    "XML of Log4j 1": lines(
        lambda line: (
            f'<log4j:event logger="kafka.request.logger" timestamp="{line.time}" level="DEBUG">\n'
            f"<log4j:message><![CDATA[{line.message}]]></log4j:message>\n</log4j:event>\n"
        )
    ),
    "XML of Log4j 2": lines(
        lambda line: (
            '<Event xmlns="http://logging.apache.org/log4j/2.0/events" level="DEBUG">\n'
            f'  <Instant epochSecond="{line.time // 1000}"'
            f' nanoOfSecond="{line.time % 1000 * 1_000_000}"/>\n'
            f"  <Message>{escape(line.message)}</Message>\n</Event>"
        )
    ),
    "XML of java.util.logging": lines(
        lambda line: (
            f"<record>\n  <date>{line.iso}</date>\n  <millis>{line.time}</millis>\n"
            f"  <level>FINE</level>\n  <message>{escape(line.message)}</message>\n</record>"
        )
    ),
    ".NET console": lines(
        lambda line: f"{line.iso} dbug: Kafka[0]\n      {line.message}\n      => scope"
    ),
    "OpenTelemetry, debug exporter": lines(
        lambda line: f"LogRecord #0\nTimestamp: {line.at()} +0000 UTC\nBody: Str({line.message})"
    ),
    "JsonTemplateLayout for Google": objects(
        lambda line: {
            "timestampSeconds": line.time // 1000,
            "timestampNanos": line.time % 1000 * 1_000_000,
            "message": line.message,
        }
    ),
    "Logstash rubydebug": lines(
        lambda line: "\n".join(
            [
                "{",
                f'  "@timestamp" => {line.iso},',
                f'  "message" => {json.dumps(line.message)}',
                "}",
            ]
        )
    ),
    "printed by Node": lines(
        lambda line: "\n".join(["{", f"  message: '{line.text}',", "  level: 'debug'", "}"])
    ),
    "journal as JSON": objects(
        lambda line: {"__REALTIME_TIMESTAMP": f"{line.time}000", "MESSAGE": line.message}
    ),
    "journal as JSON of bytes": objects(
        lambda line: {"__REALTIME_TIMESTAMP": f"{line.time}000", "MESSAGE": [*line.text.encode()]}
    ),
    "aws logs tail": lines(lambda line: f"{line.iso} kafka-1 {line.text}"),
    "quoted mail": lines(lambda line: f"> {line.text}"),
    "MDC before": lines(lambda line: f"{{requestId=7}} {line.text}"),
    "MDC of JSON behind": lines(lambda line: f'{line.text} {{"a": {{"b": 1}}}}'),
    "12 hours": lines(
        lambda line: f"{line.at('.', '%b %d, %Y %I:%M:%S')} {line.moment:%p} {line.message}"
    ),
    "three levels of JSON": objects(
        lambda line: {"a": json.dumps({"b": json.dumps({"ts": line.time, "m": line.message})})}
    ),
    "semicolons": lines(lambda line: f'{line.iso};"{line.message.replace(chr(34), chr(34) * 2)}"'),
    "bulk": lines(
        lambda line: (
            '{"index": {"_index": "x"}}\n'
            + json.dumps({"@timestamp": line.iso, "message": line.message})
        )
    ),
    "two on a line": lambda log: " ".join(line.text for line in log).encode(),
    "colours": lines(lambda line: f"\x1b[36mkafka-1  | \x1b[0m{line.text}"),
    "Windows line ends": lambda log: b"\r\n".join(line.text.encode() for line in log),
    "compose": lines(lambda line: f"kafka-1  | {line.text}"),
    "kubectl --prefix": lines(lambda line: f"[pod/kafka-1/kafka] {line.text}"),
    "stern": lines(lambda line: f"kafka-1 kafka {line.text}"),
    "docker logs -t": lines(lambda line: f"{line.iso} {line.text}"),
    "grep": lines(lambda line: f"/var/log/broker-1.log:{line.text}"),
    "tail": lambda log: b"==> broker-1.log <==\n" + lines(lambda line: line.text)(log),
    "syslog": lines(lambda line: f"<135>1 {line.iso} kafka-1 kafka[8]: {line.message}"),
    "journal in parts": lines(journal_in_parts),
    "CRI in parts": lines(cri),
    "docker json-file": objects(
        lambda line: {"log": line.text + "\n", "stream": "stdout", "time": line.iso}
    ),
    "docker json-file in parts": lines(docker_in_parts),
    "docker of a JSON layout": objects(
        lambda line: {
            "log": json.dumps({"timeMillis": line.time, "message": line.message}) + "\n",
            "time": line.at("", "%Y-%m-%dT%H:%M:%SZ")[:-3],
        }
    ),
    "compose of a JSON layout": lines(
        lambda line: "kafka-1  | " + json.dumps({"instant": instant(line), "message": line.message})
    ),
    "unknown prefix of JSON": lines(
        lambda line: "[0] kafka: " + json.dumps([line.time / 1000, {"log": line.message}])
    ),
    "ruby": lines(
        lambda line: (
            f'[0] kafka: [[{line.time / 1000:.3f}, {{}}], {{"log"=>{json.dumps(line.text)}}}]'
        )
    ),
    "logfmt": lines(lambda line: f"time={line.iso} level=debug msg={json.dumps(line.message)} n=1"),
    "Log4j JsonLayout": objects(
        lambda line: {"instant": instant(line), "level": "DEBUG", "message": line.message}
    ),
    "Log4j JsonLayout, complete": whole(
        lambda log: [{"instant": instant(line), "message": line.message} for line in log], 2
    ),
    "ECS": objects(lambda line: {"@timestamp": line.iso, "message": line.message}),
    "Filebeat": objects(
        lambda line: {
            "@timestamp": line.iso,
            "message": line.text,
            "event": {"original": line.text, "ingested": "2027-01-01T00:00:00.000Z"},
            "kubernetes": {"pod": {"name": "kafka-1"}, "node": {"name": "worker-7"}},
        }
    ),
    "Filebeat, printed by jq": lines(
        lambda line: json.dumps({"@timestamp": line.iso, "message": line.message}, indent=2)
    ),
    "Vector": objects(
        lambda line: {"file": "/var/log/kafka.log", "message": line.message, "timestamp": line.iso}
    ),
    "Fluent Bit": objects(lambda line: {"date": line.time / 1000, "log": line.message}),
    "GELF": objects(gelf),
    "Google": objects(
        lambda line: {
            "receiveTimestamp": "2027-01-01T00:00:00.123Z",
            "textPayload": line.message,
            "timestamp": line.iso,
        }
    ),
    "OpenTelemetry": objects(otlp),
    "Splunk": objects(lambda line: {"result": {"_raw": line.message, "_time": line.iso}}),
    "parsed by the agent": objects(
        lambda line: {"@timestamp": line.iso, "kafka": json.loads(line.body)}
    ),
    "Loki": whole(loki),
    "Loki, printed by jq": whole(loki, 2),
    "Elasticsearch": whole(hits),
    "Elasticsearch, printed by jq": whole(hits, 4),
    "a list of objects": lambda log: (
        b"[\n"
        + b",\n".join(
            json.dumps({"t": each.iso, "ts": each.iso, "m": each.message}).encode() for each in log
        )
        + b"\n]\n"
    ),
    "CloudWatch events": whole(
        lambda log: {"events": [{"timestamp": each.time, "message": each.message} for each in log]}
    ),
    "CloudWatch query": whole(
        lambda log: {
            "results": [
                [
                    {"field": "@timestamp", "value": each.at()},
                    {"field": "@message", "value": each.message},
                ]
                for each in log
            ]
        }
    ),
    "CloudWatch CSV": table(
        ["timestamp", "message"], lambda line: [str(line.time), line.message + "\n"]
    ),
    "Kibana CSV": table(
        ["@timestamp", "message"],
        lambda line: [line.at(".", "%b %d, %Y @ %H:%M:%S"), line.message],
    ),
    "Splunk CSV": table(["_raw", "_time"], lambda line: [line.message, line.iso]),
    "pretty body": lines(pretty),
    "pretty body behind a prefix": lines(
        lambda line: "\n".join(f"kafka-1  | {row}" for row in pretty(line).splitlines())
    ),
    "wrapped by columns": lines(lambda line: "\n".join(pieces(line.text, 120))),
    "JSON wrapped by columns": lines(
        lambda line: "\n".join(
            pieces(json.dumps({"@timestamp": line.iso, "message": line.message}), 200)
        )
    ),
    "newest first": lambda log: lines(lambda line: line.text)(log[::-1]),
    "each line twice": lambda log: lines(lambda line: line.text)([*log, *log]),
    "overlapping exports": lambda log: lines(lambda line: line.text)([*log[20:], *log[:30]]),
}
