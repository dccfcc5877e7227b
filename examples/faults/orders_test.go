// Faults from a Go suite, with franz-go. In front of a real cluster, use
// `brokertwin proxy HOST:PORT --listen localhost:19092 --control-listen 9405` in place of the gateway.
//
//	brokertwin gateway --listen localhost:19092 --control-listen 9405
//	go mod init orders && go get github.com/twmb/franz-go/pkg/kadm
//	go test
package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type status struct {
	ID   int    `json:"id"`
	Hits int    `json:"hits"`
	Text string `json:"text"`
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func call(t *testing.T, method, path string, body any, found any) {
	t.Helper()
	sent, _ := json.Marshal(body)
	url := env("CONTROL", "http://127.0.0.1:9405") + path
	request, _ := http.NewRequest(method, url, bytes.NewReader(sent))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var refused struct{ Error, Hint string }
		_ = json.NewDecoder(response.Body).Decode(&refused)
		t.Fatalf("%s %s", refused.Error, refused.Hint)
	}
	if err := json.NewDecoder(response.Body).Decode(found); err != nil {
		t.Fatal(err)
	}
}

// fault adds a fault for the time of the test.
func fault(t *testing.T, spec map[string]any) status {
	t.Helper()
	var added []status
	call(t, "POST", "/faults", spec, &added)
	t.Cleanup(func() { call(t, "DELETE", fmt.Sprintf("/faults/%d", added[0].ID), nil, &status{}) })
	return added[0]
}

func TestAnOrderIsWrittenOnceIfItsLeaderRefusesAndTheResponseIsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	topic := fmt.Sprintf("orders-%d", os.Getpid())
	client, err := kgo.NewClient(kgo.SeedBrokers(env("BROKER", "localhost:19092")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}

	fault(t, map[string]any{
		"effect": "fail", "api": "PRODUCE", "error": "NOT_LEADER_OR_FOLLOWER", "topic": topic,
	})
	lost := fault(t, map[string]any{"effect": "lose", "api": "PRODUCE", "topic": topic, "nth": 2})
	record := &kgo.Record{Topic: topic, Value: []byte("one")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}

	call(t, "GET", fmt.Sprintf("/faults/%d?hits=1", lost.ID), nil, &lost)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup(topic, 0); end.Offset != 1 || lost.Hits != 1 {
		t.Fatalf("end offset %d, %s: %d hits", end.Offset, lost.Text, lost.Hits)
	}
}
