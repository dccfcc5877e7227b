// Adapter of `brokertwin exam-client` for franz-go.
//
//	go mod init adapter && go get github.com/twmb/franz-go/pkg/kgo && go build -o adapter
//	brokertwin exam-client -- ./adapter
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	name, topic   = os.Getenv("EXAM_NAME"), os.Getenv("EXAM_TOPIC")
	count, _      = strconv.Atoi(os.Getenv("EXAM_COUNT"))
	partitions, _ = strconv.Atoi(os.Getenv("EXAM_PARTITIONS"))
	background    = context.Background()
)

func main() {
	work := map[string]func(){
		"produce": produce, "transact": transact, "consume": consume, "share": share,
	}
	work[os.Getenv("EXAM_WORK")]()
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(os.Getenv("EXAM_BOOTSTRAP")), kgo.ClientID(name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(partition int, numbers ...int) *kgo.Record {
	value := name
	for _, number := range numbers {
		value += "-" + strconv.Itoa(number)
	}
	return &kgo.Record{Topic: topic, Partition: int32(partition % partitions), Value: []byte(value)}
}

func produce() {
	producer := client()
	for number := range count {
		producer.Produce(background, record(number, number), func(r *kgo.Record, err error) {
			if err == nil {
				fmt.Println("acked", string(r.Value))
			}
		})
		time.Sleep(5 * time.Millisecond) // several batches
	}
	check(producer.Flush(background))
}

func transact() {
	producer := client(kgo.TransactionalID(os.Getenv("EXAM_TRANSACTIONAL_ID")))
	for number := range count {
		check(producer.BeginTransaction())
		var records []*kgo.Record
		for index := range 3 {
			records = append(records, record(number+index, number, index))
		}
		end, verb := kgo.TryCommit, "committed"
		if producer.ProduceSync(background, records...).FirstErr() != nil || number%3 == 2 {
			end, verb = kgo.TryAbort, "aborted"
		}
		check(producer.EndTransaction(background, end))
		fmt.Println(verb, number)
	}
}

func consume() {
	ended, stop := signal.NotifyContext(background, syscall.SIGTERM)
	defer stop()
	consumer := client(kgo.ConsumeTopics(topic), kgo.ConsumerGroup(os.Getenv("EXAM_GROUP")),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(2*time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for ended.Err() == nil {
		fetches := consumer.PollFetches(ended)
		fetches.EachRecord(func(r *kgo.Record) {
			fmt.Println("read", r.Partition, r.Offset, string(r.Value))
		})
		_ = consumer.CommitUncommittedOffsets(background) // after a rebalance they are read again
	}
	consumer.Close()
}

func share() {
	ended, stop := signal.NotifyContext(background, syscall.SIGTERM)
	defer stop()
	consumer := client(kgo.ConsumeTopics(topic), kgo.ShareGroup(os.Getenv("EXAM_GROUP")))
	for ended.Err() == nil {
		consumer.PollFetches(ended).EachRecord(func(r *kgo.Record) {
			fmt.Println("received", r.Partition, r.Offset, string(r.Value))
			r.Ack(kgo.AckAccept)
		})
		_ = consumer.FlushAcks(background)
	}
	consumer.Close()
}
