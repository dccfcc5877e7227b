#!/usr/bin/env bash
# Record what a client and a real Kafka say to each other, then decide it again.
#
#   brokertwin kafka start
#   examples/capture.sh localhost:PORT      (the address that `kafka start` has printed)
set -euo pipefail
broker=$1
proxy=${2:-localhost:19092}
recording=$(mktemp -d)/orders.jsonl.gz

brokertwin capture "$broker" --listen "$proxy" --out "$recording" &
capture=$!
until (: </dev/tcp/"${proxy%:*}"/"${proxy#*:}") 2>/dev/null; do sleep 0.1; done

python - "$proxy" <<'CLIENT'
import sys

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

KafkaAdminClient(bootstrap_servers=sys.argv[1]).create_topics([NewTopic("recorded-orders", 1, 1)])
producer = KafkaProducer(bootstrap_servers=sys.argv[1], enable_idempotence=True)
for number in range(10):
    producer.send("recorded-orders", b"order %d" % number).get(30)
producer.close()
CLIENT

kill "$capture"
wait "$capture"
echo "recorded in $recording"
brokertwin replay "$recording" --compare --api CREATE_TOPICS,PRODUCE
