"""An example or two for each command, shown at the end of its help.

`tests/cli/test_help.py` holds that every command has one and that its words and options exist.
"""

EXAMPLES = {
    "": (
        "brokerstream replay recording.jsonl.gz --compare",
        "brokerstream gateway --listen localhost:9092",
    ),
    "demo": ("brokerstream demo --svg demo.svg",),
    "setup": ("brokerstream setup",),
    "kafka": ("brokerstream kafka start", "brokerstream kafka stop"),
    "kafka start": (
        "brokerstream kafka start",
        "brokerstream kafka start --data-dir /tmp/kafka --property num.partitions=3",
    ),
    "kafka stop": ("brokerstream kafka stop",),
    "kafka status": ("brokerstream kafka status --json",),
    "run": (
        "brokerstream run",
        "brokerstream run --bootstrap kafka:9092 --cluster shop --http-listen 0.0.0.0:9404",
        "brokerstream run --available-now --event-time recorded --json",
        "brokerstream run --snapshot-every '5 minutes' --snapshots /backup/brokerstream",
        "brokerstream run --snapshot-suite default --check-every '1 hour' --check-policy hold",
        "brokerstream run --follow-offsets kafka-1:9092 --follow-into backup",
    ),
    "send": (
        "brokerstream send examples/first.jsonl",
        "tail -f requests.jsonl | brokerstream send - --cluster shop",
        "brokerstream send orders.jsonl.gz",
        "brokerstream send --check orders.jsonl.gz",
    ),
    "ingest": (
        "brokerstream ingest kafka-request.log --batches-from kafka:9092",
        "brokerstream ingest *.log.gz --out events.jsonl.gz",
    ),
    "replay": (
        "brokerstream replay recording.jsonl.gz --compare",
        "brokerstream replay *.jsonl.gz --compare --only FETCH,PRODUCE --out verdicts.jsonl",
        "brokerstream replay recording.jsonl.gz --state offsets --until 2026-03-01T12:00:03",
        "brokerstream replay recording.jsonl.gz --diff recording.jsonl:120 end --state groups",
        "brokerstream replay monday.jsonl.gz --keep monday",
        "brokerstream replay tuesday.jsonl.gz --from monday --keep tuesday --compare",
        "brokerstream replay --diff monday tuesday --state offsets",
        "brokerstream replay --job --prefix shop --records records.jsonl",
    ),
    "report": (
        "brokerstream report broker-*.kafka-request.log controller-*.log --plot report.html",
        "brokerstream report *.log.gz --partition orders-0 --checkpoints snapshots/",
    ),
    "explain": (
        "brokerstream explain producer orders-tx recording.jsonl.gz",
        "brokerstream explain group billing recording.jsonl.gz --errors",
        "brokerstream explain group billing --job --bootstrap kafka:9092 --prefix shop",
    ),
    "explain client": ("brokerstream explain client billing-pod-1 recording.jsonl.gz --errors",),
    "explain producer": ("brokerstream explain producer orders-tx recording.jsonl.gz",),
    "explain transaction": ("brokerstream explain transaction orders-tx recording.jsonl.gz",),
    "explain partition": (
        "brokerstream explain partition orders-0 broker-*.log.gz controller-*.log.gz --errors",
        "brokerstream explain partition orders-0 --job --prefix shop",
    ),
    "explain group": ("brokerstream explain group billing recording.jsonl.gz --errors",),
    "explain session": ("brokerstream explain session 1996149028 recording.jsonl.gz",),
    "explain error": (
        "brokerstream explain error OUT_OF_ORDER_SEQUENCE_NUMBER",
        "brokerstream explain error",
    ),
    "explain line": ("brokerstream explain line recording.jsonl:120 recording.jsonl.gz",),
    "audit": (
        "brokerstream audit recording.jsonl.gz",
        "brokerstream audit recording.jsonl.gz --decide --broker-config broker.properties",
        "brokerstream audit broker-*.log.gz controller-*.log.gz --html audit.html --fail-on error",
    ),
    "offsets": (
        "brokerstream offsets import kafka:9092 backup",
        "brokerstream offsets history backup my-group --only back",
    ),
    "offsets import": (
        "brokerstream offsets import kafka:9092 backup",
        "brokerstream offsets import kafka:9092 backup --follow --every 300",
        "brokerstream offsets import kafka:9092 job --offsets-topic brokerstream.offsets.default",
    ),
    "offsets show": (
        "brokerstream offsets show kafka:9092",
        "brokerstream offsets show backup --group my-group --at 2026-03-01T12:00:03",
    ),
    "offsets shares": (
        "brokerstream offsets shares kafka-1:9092",
        "brokerstream offsets shares kafka-1:9092 --group sharers --json",
    ),
    "offsets history": (
        "brokerstream offsets history kafka:9092 my-group",
        "brokerstream offsets history backup my-group --topic orders --only back --only gone",
    ),
    "offsets diff": ("brokerstream offsets diff backup 2026-03-01T12:00 2026-03-01T18:00",),
    "offsets export": (
        "brokerstream offsets export backup --csv offsets.csv",
        "brokerstream offsets export backup --parquet history.parquet",
        "brokerstream offsets export backup --group my-group --to other:9092 --dry-run",
        "brokerstream offsets export kafka:9092 --to other:9092 --by-time kafka:9092",
    ),
    "consume": (
        "brokerstream consume orders --group billing --from-beginning",
        "brokerstream consume orders --group billing --members 3 --show-threads",
        "brokerstream consume orders -g billing --assignor cooperative-sticky --json",
        "brokerstream consume orders -g billing --protocol consumer --members 2 --show-threads",
        "brokerstream consume --include 'orders-.*' -g billing --protocol consumer",
        "brokerstream consume orders -g billing --kafka-config client.properties",
    ),
    "produce": (
        "seq 1000 | brokerstream produce orders",
        "brokerstream produce orders orders.csv --key-separator , --compression zstd",
        "brokerstream produce orders orders.csv --transactional-id loader --transaction-size 100",
    ),
    "streams": (
        "brokerstream streams wordcount lines word-counts --threads 3 --show-threads",
        "brokerstream streams join orders customers joined --exactly-once --num-standby-replicas 1",
    ),
    "streams wordcount": (
        "brokerstream streams wordcount lines word-counts --create 6 --threads 3 --show-threads",
        "brokerstream streams wordcount lines word-counts --exactly-once --timeout 5",
    ),
    "streams ask": (
        "brokerstream streams ask localhost:7070 counts the",
        "brokerstream streams ask localhost:7070 counts --from a --to m --stale",
    ),
    "streams join": ("brokerstream streams join orders customers joined --create 6 --threads 2",),
    "connect": (
        "brokerstream connect source.properties sink.properties",
        "brokerstream connect --worker distributed --workers 3 --show-threads *.properties",
        "brokerstream connect --worker distributed worker.properties source.properties",
    ),
    "gateway": (
        "brokerstream gateway --listen localhost:9092 --journal broker.journal",
        "brokerstream gateway --journal broker.journal --journal-fsync always",
        "brokerstream gateway --engine spark --listen 0.0.0.0:9092 --advertise kafka.example:9092",
    ),
    "cluster": (
        "brokerstream gateway --brokers 3 --control gateway.sock",
        "brokerstream cluster status --control gateway.sock",
    ),
    "cluster status": (
        "brokerstream cluster status --control gateway.sock",
        "brokerstream cluster status --cluster shop --all --json",
    ),
    "cluster stop": ("brokerstream cluster stop 2 --control gateway.sock",),
    "cluster kill": ("brokerstream cluster kill 2 --control gateway.sock",),
    "cluster start": ("brokerstream cluster start 2 --cluster shop",),
    "cluster elect": (
        "brokerstream cluster elect --control gateway.sock",
        "brokerstream cluster elect orders-0 orders-1 --unclean --cluster shop",
    ),
    "cluster reassign": (
        "brokerstream cluster reassign orders-0=2,3,1 --control gateway.sock",
        "brokerstream cluster reassign orders-0 --cancel --control gateway.sock",
    ),
    "cluster isolate": ("brokerstream cluster isolate 3 --control gateway.sock",),
    "cluster sever": ("brokerstream cluster sever 3 --control gateway.sock",),
    "cluster fail-log-dir": ("brokerstream cluster fail-log-dir 2 /disk-2 --control gateway.sock",),
    "cluster rejoin": ("brokerstream cluster rejoin 3 --control gateway.sock",),
    "credentials": (
        "brokerstream credentials add users.jsonl alice",
        "brokerstream gateway --security-protocol SASL_PLAINTEXT --credentials users.jsonl",
    ),
    "credentials add": (
        "brokerstream credentials add users.jsonl alice",
        "pass show kafka/alice | brokerstream credentials add users.jsonl alice",
    ),
    "credentials list": ("brokerstream credentials list users.jsonl --json",),
    "credentials remove": (
        "brokerstream credentials remove users.jsonl alice --mechanism SCRAM-SHA-256",
    ),
    "capture": (
        "brokerstream capture --broker kafka:9092 --listen localhost:19092 --out new.jsonl.gz",
    ),
    "top": (
        "brokerstream run --http-listen 9404",
        "brokerstream top",
        "brokerstream top gateway-1:9405 --once --json",
    ),
    "state": (
        "brokerstream state",
        "brokerstream state groups --checkpoint /var/lib/brokerstream/checkpoint --json",
    ),
    "snapshot": ("brokerstream snapshot take", "brokerstream snapshot list"),
    "snapshot take": (
        "brokerstream snapshot take",
        "brokerstream snapshot take --suite default",
        "brokerstream snapshot take --checkpoint /var/lib/brokerstream/checkpoint --json",
    ),
    "snapshot list": ("brokerstream snapshot list --prefix shop",),
    "snapshot show": ("brokerstream snapshot show",),
    "snapshot restore": ("brokerstream snapshot restore --checkpoint restored",),
    "snapshot reshard": ("brokerstream snapshot reshard --cells 3 --checkpoint three-cells",),
    "query": (
        "brokerstream query",
        'brokerstream query "select groupId, count(*) from offsets group by all"',
        'brokerstream query "from producers" recording.jsonl.gz --as-of 2026-03-01T12:00:03',
    ),
    "check": (
        "brokerstream check --docs checks",
        "brokerstream check --on responses --from 0:1000 --to 0:2000 --json",
        "brokerstream check offsets.parquet --suite mine.yaml",
    ),
    "dead-letters": ("brokerstream dead-letters list",),
    "dead-letters list": ("brokerstream dead-letters list --limit 10 --json",),
    "dead-letters show": ("brokerstream dead-letters show 2/1729",),
    "simulate": (
        "brokerstream simulate --seeds 200",
        "brokerstream simulate --seed 17 --trace",
    ),
    "gc": (
        "brokerstream gc --dry-run",
        "brokerstream gc --prefix shop --older-than 6h",
    ),
    "config": ("brokerstream config show",),
    "config show": ("BROKERSTREAM_CELLS=2 brokerstream config show --json",),
}
"""Words of a command, without `brokerstream`, to its examples: lines for a shell."""


def as_markdown(words: str) -> str:
    """The examples of a command as a block of Markdown; empty for one that has none."""
    lines = EXAMPLES.get(words, ())
    if not lines:
        return ""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["", "", title, "", "```", *lines, "```"])
