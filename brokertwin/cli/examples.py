"""Examples at the end of each command's help.

`tests/cli/test_help.py` checks that every command has one and that its words and options exist.
"""

EXAMPLES = {
    "": (
        "brokertwin audit kafka-request.log",
        "brokertwin page kafka-request.log --out incident.html",
        "brokertwin gateway --listen localhost:9092",
    ),
    "demo": ("brokertwin demo --svg demo.svg",),
    "setup": ("brokertwin setup",),
    "kafka": ("brokertwin kafka start", "brokertwin kafka stop"),
    "kafka start": (
        "brokertwin kafka start",
        "brokertwin kafka start --data-dir /tmp/kafka --property num.partitions=3",
    ),
    "kafka stop": ("brokertwin kafka stop",),
    "kafka status": ("brokertwin kafka status --json",),
    "kafka tools": ("brokertwin kafka tools kafka-topics --bootstrap-server kafka:9092 --list",),
    "run": (
        "brokertwin run",
        "brokertwin run --bootstrap kafka:9092 --cluster shop --http-listen 0.0.0.0:9404",
        "brokertwin run --available-now --event-time recorded --json",
        "brokertwin run --snapshot-every '5 minutes' --snapshots /backup/brokertwin",
        "brokertwin run --snapshot-suite default --check-every '1 hour' --check-policy hold",
        "brokertwin run --follow-offsets kafka-1:9092 --follow-into backup",
    ),
    "send": (
        "brokertwin send examples/first.jsonl",
        "tail -f requests.jsonl | brokertwin send - --cluster shop",
        "brokertwin send orders.jsonl.gz",
        "brokertwin send --check orders.jsonl.gz",
    ),
    "ingest": (
        "brokertwin ingest kafka-request.log --batches-from kafka:9092 --out requests.jsonl.gz",
        "brokertwin ingest *.log.gz --out events.jsonl.gz",
    ),
    "replay": (
        "brokertwin replay recording.jsonl.gz --compare",
        "brokertwin replay *.jsonl.gz --compare --api FETCH,PRODUCE --out verdicts.jsonl",
        "brokertwin replay monday.jsonl.gz --keep monday",
        "brokertwin replay tuesday.jsonl.gz --from monday --keep tuesday --compare",
    ),
    "replay state": (
        "brokertwin replay state offsets recording.jsonl.gz --at 2026-03-01T12:00:03",
        "brokertwin replay state producers --from monday",
    ),
    "replay diff": (
        "brokertwin replay diff recording.jsonl:120 end recording.jsonl.gz --kind groups",
        "brokertwin replay diff monday tuesday --kind offsets",
    ),
    "replay records": ("brokertwin replay records records.jsonl --prefix shop",),
    "replication": (
        "brokertwin replication broker-*.kafka-request.log controller-*.log --plot report.html",
        "brokertwin replication *.log.gz --topic-partition orders-0 --checkpoints snapshots/",
    ),
    "explain": (
        "brokertwin explain producer orders-tx recording.jsonl.gz",
        "brokertwin explain group billing recording.jsonl.gz --errors",
        "brokertwin explain group billing --job --bootstrap kafka:9092 --prefix shop",
    ),
    "explain client": ("brokertwin explain client billing-pod-1 recording.jsonl.gz --errors",),
    "explain producer": ("brokertwin explain producer orders-tx recording.jsonl.gz",),
    "explain transaction": ("brokertwin explain transaction orders-tx recording.jsonl.gz",),
    "explain partition": (
        "brokertwin explain partition orders-0 broker-*.log.gz controller-*.log.gz --errors",
        "brokertwin explain partition orders-0 --job --prefix shop",
    ),
    "explain group": (
        "brokertwin explain group billing recording.jsonl.gz --errors",
        "brokertwin explain group billing --live live --bootstrap kafka:9092",
    ),
    "explain lso": ("brokertwin explain lso payments-0 broker-*.log.gz",),
    "explain session": ("brokertwin explain session 1996149028 recording.jsonl.gz",),
    "explain error": (
        "brokertwin explain error OUT_OF_ORDER_SEQUENCE_NUMBER",
        "brokertwin explain error",
    ),
    "explain line": ("brokertwin explain line recording.jsonl:120 recording.jsonl.gz",),
    "audit": (
        "brokertwin audit recording.jsonl.gz",
        "brokertwin audit broker-*.log.gz controller-*.log.gz --html audit.html --fail-on error",
    ),
    "page": ("brokertwin page broker-*.log.gz controller-*.log.gz -o incident.html",),
    "mcp": ("brokertwin mcp --check",),
    "live": (
        "brokertwin live --topic kafka-requests --bootstrap kafka:9092",
        "brokertwin live --topic shop=shop-requests --topic bank=bank-requests --key entity",
    ),
    "offsets": (
        "brokertwin offsets import kafka:9092 backup",
        "brokertwin offsets history backup my-group --change back",
    ),
    "offsets import": (
        "brokertwin offsets import kafka:9092 backup",
        "brokertwin offsets import kafka:9092 backup --follow --interval 300",
        "brokertwin offsets import kafka:9092 job --offsets-topic brokertwin.offsets.default",
    ),
    "offsets show": (
        "brokertwin offsets show kafka:9092",
        "brokertwin offsets show backup --group my-group --at 2026-03-01T12:00:03",
    ),
    "offsets shares": (
        "brokertwin offsets shares kafka-1:9092",
        "brokertwin offsets shares kafka-1:9092 --group sharers --json",
    ),
    "offsets history": (
        "brokertwin offsets history kafka:9092 my-group",
        "brokertwin offsets history backup my-group --topic orders --change back --change gone",
    ),
    "offsets clean": (
        "brokertwin offsets clean kafka:9092 my-group",
        "brokertwin offsets clean kafka:9092 my-group --execute",
    ),
    "offsets verify": ("brokertwin offsets verify backup",),
    "offsets undo": (
        "brokertwin offsets undo offsets-before-20261128T221500000000Z.json kafka:9092 --dry-run",
    ),
    "offsets diff": ("brokertwin offsets diff backup 2026-03-01T12:00 2026-03-01T18:00",),
    "offsets export": (
        "brokertwin offsets export backup --out offsets.csv",
        "brokertwin offsets export backup --parquet history.parquet",
        "brokertwin offsets export backup --group my-group --to other:9092 --dry-run",
        "brokertwin offsets export kafka:9092 --to other:9092 --by-time kafka:9092",
    ),
    "consume": (
        "brokertwin consume orders --group billing --from-beginning",
        "brokertwin consume orders --group billing --members 3 --show-threads",
        "brokertwin consume orders -g billing --assignor cooperative-sticky --json",
        "brokertwin consume orders -g billing --protocol consumer --members 2 --show-threads",
        "brokertwin consume --include 'orders-.*' -g billing --protocol consumer",
        "brokertwin consume orders -g billing --kafka-config client.properties",
    ),
    "produce": (
        "seq 1000 | brokertwin produce orders",
        "brokertwin produce orders orders.csv --key-separator , --compression zstd",
        "brokertwin produce orders orders.csv --transactional-id loader --transaction-size 100",
    ),
    "streams": (
        "brokertwin streams wordcount lines word-counts --threads 3 --show-threads",
        "brokertwin streams join orders customers joined --exactly-once --num-standby-replicas 1",
    ),
    "streams wordcount": (
        "brokertwin streams wordcount lines word-counts --create 6 --threads 3 --show-threads",
        "brokertwin streams wordcount lines word-counts --exactly-once --timeout 5",
    ),
    "streams ask": (
        "brokertwin streams ask localhost:7070 counts the",
        "brokertwin streams ask localhost:7070 counts --from-key a --to-key m --stale",
    ),
    "streams join": ("brokertwin streams join orders customers joined --create 6 --threads 2",),
    "connect": (
        "brokertwin connect source.properties sink.properties",
        "brokertwin connect --worker distributed --workers 3 --show-threads *.properties",
        "brokertwin connect --worker distributed worker.properties source.properties",
    ),
    "gateway": (
        "brokertwin gateway --listen localhost:9092 --journal broker.journal",
        "brokertwin gateway --journal broker.journal --journal-fsync always",
        "brokertwin gateway --listen localhost:9092 --control-listen 9405",
        "brokertwin gateway --engine spark --listen 0.0.0.0:9092 --advertise kafka.example:9092",
    ),
    "cluster": (
        "brokertwin gateway --brokers 3 --control gateway.sock",
        "brokertwin cluster status --control gateway.sock",
    ),
    "cluster status": (
        "brokertwin cluster status --control gateway.sock",
        "brokertwin cluster status --cluster shop --all --json",
    ),
    "cluster stop": ("brokertwin cluster stop 2 --control gateway.sock",),
    "cluster kill": ("brokertwin cluster kill 2 --control gateway.sock",),
    "cluster start": ("brokertwin cluster start 2 --cluster shop",),
    "cluster elect": (
        "brokertwin cluster elect --control gateway.sock",
        "brokertwin cluster elect orders-0 orders-1 --unclean --cluster shop",
    ),
    "cluster reassign": (
        "brokertwin cluster reassign orders-0=2,3,1 --control gateway.sock",
        "brokertwin cluster reassign orders-0 --cancel --control gateway.sock",
    ),
    "cluster isolate": ("brokertwin cluster isolate 3 --control gateway.sock",),
    "cluster sever": ("brokertwin cluster sever 3 --control gateway.sock",),
    "cluster fail-log-dir": ("brokertwin cluster fail-log-dir 2 /disk-2 --control gateway.sock",),
    "cluster rejoin": ("brokertwin cluster rejoin 3 --control gateway.sock",),
    "credentials": (
        "brokertwin credentials add users.jsonl alice",
        "brokertwin gateway --security-protocol SASL_PLAINTEXT --credentials users.jsonl",
    ),
    "credentials add": (
        "brokertwin credentials add users.jsonl alice",
        "pass show kafka/alice | brokertwin credentials add users.jsonl alice",
    ),
    "credentials list": ("brokertwin credentials list users.jsonl --json",),
    "credentials remove": (
        "brokertwin credentials remove users.jsonl alice --mechanism SCRAM-SHA-256",
    ),
    "capture": ("brokertwin capture kafka:9092 --listen localhost:19092 --out new.jsonl.gz",),
    "exam": (
        "brokertwin exam localhost:9092",
        "brokertwin exam kafka:9092 --only transactions_v1 --html exam.html",
        "brokertwin exam kafka:9092 --baseline exam.json --junit exam.xml",
    ),
    "proxy": (
        "brokertwin proxy kafka:9092 --faults faults.toml",
        "brokertwin proxy kafka:9092 --listen localhost:0 --control-listen 9405",
    ),
    "exam-client": (
        "brokertwin exam-client --plans 3 -- python examples/exam_client/confluent.py",
        "brokertwin exam-client --bootstrap kafka:9092 --plan exam-client-seed-7.json -- ./adapter",
    ),
    "top": (
        "brokertwin run --http-listen 9404",
        "brokertwin live --topic shop=shop-requests --http-listen 9404",
        "brokertwin top",
        "brokertwin top gateway-1:9405 --once --json",
    ),
    "state": (
        "brokertwin state",
        "brokertwin state groups --checkpoint /var/lib/brokertwin/checkpoint --json",
    ),
    "snapshot": ("brokertwin snapshot take", "brokertwin snapshot list"),
    "snapshot take": (
        "brokertwin snapshot take",
        "brokertwin snapshot take --suite default",
        "brokertwin snapshot take --checkpoint /var/lib/brokertwin/checkpoint --json",
    ),
    "snapshot list": ("brokertwin snapshot list --prefix shop",),
    "snapshot show": ("brokertwin snapshot show",),
    "snapshot restore": ("brokertwin snapshot restore --checkpoint restored",),
    "snapshot reshard": ("brokertwin snapshot reshard --cells 3 --checkpoint three-cells",),
    "query": (
        "brokertwin query",
        'brokertwin query "select groupId, count(*) from offsets group by all"',
        'brokertwin query "from producers" recording.jsonl.gz --at 2026-03-01T12:00:03',
    ),
    "check": (
        "brokertwin check --docs checks",
        "brokertwin check --on responses --from-offset 0:1000 --to-offset 0:2000 --json",
        "brokertwin check offsets.parquet --suite mine.yaml",
    ),
    "dead-letters": ("brokertwin dead-letters list",),
    "dead-letters list": ("brokertwin dead-letters list --limit 10 --json",),
    "dead-letters show": ("brokertwin dead-letters show 2/1729",),
    "simulate": (
        "brokertwin simulate --seeds 200",
        "brokertwin simulate --seed 17 --trace",
    ),
    "explore": (
        "brokertwin explore --list",
        "brokertwin explore torn-transaction-v1 --html torn.html",
        "brokertwin explore torn-transaction-v1 --play localhost:9092",
    ),
    "gc": (
        "brokertwin gc --dry-run",
        "brokertwin gc --prefix shop --older-than 6h",
    ),
    "config": ("brokertwin config show",),
    "config show": ("BROKERTWIN_CELLS=2 brokertwin config show --json",),
}
"""Command without `brokertwin` to its examples, which are shell lines."""


def as_markdown(words: str) -> str:
    """Return the examples of a command as a Markdown block; empty if it has none."""
    lines = EXAMPLES.get(words, ())
    if not lines:
        return ""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["", "", title, "", "```", *lines, "```"])
