// kfake on a free port. Each line on standard input collects garbage and prints the heap's bytes.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{
		"group.initial.rebalance.delay.ms":          "0",
		"group.max.session.timeout.ms":              "1000000",
		"max.incremental.fetch.session.cache.slots": "10000",
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		fmt.Println(memory.HeapAlloc)
	}
}
