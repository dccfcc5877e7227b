#!/usr/bin/env bash
# A Kafka of one process that lets in whom it knows, over TLS, an admin, and clients:  examples/secured.sh PORT
set -euo pipefail
address=localhost:$1
cd "$(mktemp -d)"

openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout key.pem -out ca.pem 2> /dev/null
cat key.pem ca.pem > broker.pem
echo "wonder land" | brokertwin credentials add users.jsonl alice
brokertwin gateway --listen "$address" --security-protocol SASL_SSL --credentials users.jsonl \
    --set ssl.keystore.type=PEM --set ssl.keystore.location=broker.pem 2> gateway.log &
trap 'kill $!' EXIT
until (: < /dev/tcp/"${address/://}") 2> /dev/null; do sleep 0.1; done

python - "$address" << 'ADMIN'
import sys

from confluent_kafka.admin import AdminClient, NewTopic

known = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "wonder land"}
place = {"bootstrap.servers": sys.argv[1], "security.protocol": "SASL_SSL", "ssl.ca.location": "ca.pem"}
admin = AdminClient({**place, **known})
admin.create_topics([NewTopic("orders", 3)])["orders"].result(30)
ADMIN

client() { # a file of properties for a user with a password
    printf '%s\n' security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-512 ssl.truststore.type=PEM \
        ssl.truststore.location=ca.pem "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
required username=\"$1\" password=\"$2\";" > "$1.properties"
}
client alice "wonder land"
client mallory "open sesame"
seq 100 | brokertwin produce orders --bootstrap "$address" --kafka-config alice.properties
brokertwin consume orders --group billing --from-beginning -n 100 \
    --bootstrap "$address" --kafka-config alice.properties | sort -n | tail -1
brokertwin consume orders --group billing --bootstrap "$address" --kafka-config mallory.properties && exit 1
echo "mallory was not let in"
