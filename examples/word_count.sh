#!/bin/sh
# Words are counted by two instances, exactly once; one is killed; a minute:
# examples/word_count.sh HOST:PORT NAME
# What the killed one had begun is aborted after ten to twenty seconds, by Kafka: nobody reads past it before.
set -e
lines="$2-lines" counts="$2-counts"
count() {
    exec brokertwin streams wordcount "$lines" "$counts" --bootstrap "$1" --application-id "$lines-count" \
        --create 3 --exactly-once --session-timeout-ms 6000 "$2" "$3" "$4"
}
(count "$1" --threads 1 --timeout=22 --show-threads) & left=$!
sleep 2
(count "$1" --threads 2 --timeout=90 2>/dev/null) & killed=$!
yes "the quick fox jumps over the lazy dog" | head -500 | (sleep 5; brokertwin produce "$lines" --bootstrap "$1")
sleep 1
kill -9 "$killed"
wait "$left"
brokertwin consume "$counts" --bootstrap "$1" --group "$2-readers" --from-beginning --read-committed \
    --timeout 2 --json | grep '"key": "the"' | tail -1
