// A mirror that decodes each record and produces it again: the least that somebody would write instead.
// Arguments: source and target bootstrap servers, topic, remote topic, compression.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	source, target, topic, remote, compression := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(source), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	check(err)
	producer, err := kgo.NewClient(kgo.SeedBrokers(target), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[compression]), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(200_000))
	check(err)
	for {
		fetches := consumer.PollFetches(context.Background())
		for _, failure := range fetches.Errors() {
			check(failure.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			record.Topic = remote
			producer.Produce(context.Background(), record, func(_ *kgo.Record, err error) { check(err) })
		})
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
