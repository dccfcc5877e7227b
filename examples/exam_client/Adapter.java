// Adapter of `brokertwin exam-client` for Kafka's Java client: java -cp 'jars/*' Adapter.java
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.*;

public class Adapter {
    static final Map<String, String> EXAM = System.getenv();
    static final String NAME = EXAM.get("EXAM_NAME"), TOPIC = EXAM.get("EXAM_TOPIC");
    static final int COUNT = Integer.parseInt(EXAM.get("EXAM_COUNT"));
    static final int PARTITIONS = Integer.parseInt(EXAM.get("EXAM_PARTITIONS"));
    static final Map<String, Object> SETTINGS = new HashMap<>(
        Map.of("bootstrap.servers", EXAM.get("EXAM_BOOTSTRAP"), "client.id", NAME,
            "max.block.ms", 600_000, "delivery.timeout.ms", 600_000, "default.api.timeout.ms", 600_000));

    public static void main(String[] arguments) throws Exception {
        switch (EXAM.get("EXAM_WORK")) {
            case "produce" -> produce();
            case "transact" -> transact();
            case "share" -> share();
            default -> consume();
        }
    }

    static ProducerRecord<String, String> record(int partition, String value) {
        return new ProducerRecord<>(TOPIC, partition % PARTITIONS, null, value);
    }

    static void produce() throws Exception {
        try (var producer = new KafkaProducer<>(SETTINGS, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < COUNT; number++) {
                String value = NAME + "-" + number;
                producer.send(record(number, value), (metadata, error) -> {
                    if (error == null) System.out.println("acked " + value);
                });
                Thread.sleep(5); // several batches
            }
        }
    }

    static void transact() {
        SETTINGS.put("transactional.id", EXAM.get("EXAM_TRANSACTIONAL_ID"));
        try (var producer = new KafkaProducer<>(SETTINGS, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int number = 0; number < COUNT; number++) {
                producer.beginTransaction();
                for (int index = 0; index < 3; index++)
                    producer.send(record(number + index, NAME + "-" + number + "-" + index));
                if (number % 3 == 2) producer.abortTransaction(); else producer.commitTransaction();
                System.out.println((number % 3 == 2 ? "aborted " : "committed ") + number);
            }
        }
    }

    static void consume() throws Exception {
        SETTINGS.putAll(Map.of("group.id", EXAM.get("EXAM_GROUP"), "session.timeout.ms", 6000,
            "heartbeat.interval.ms", 2000, "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "isolation.level", "read_committed"));
        var consumer = new KafkaConsumer<>(SETTINGS, new StringDeserializer(), new StringDeserializer());
        var closed = atEnd(consumer::wakeup);
        consumer.subscribe(List.of(TOPIC));
        try {
            while (true) {
                for (var each : consumer.poll(Duration.ofMillis(200)))
                    System.out.println("read " + each.partition() + " " + each.offset() + " " + each.value());
                try { consumer.commitSync(); }
                catch (CommitFailedException | org.apache.kafka.common.errors.RebalanceInProgressException error) { }
            }
        } catch (WakeupException error) {
            consumer.close();
        } finally {
            closed.countDown();
        }
    }

    static void share() throws Exception {
        SETTINGS.put("group.id", EXAM.get("EXAM_GROUP"));
        var consumer = new KafkaShareConsumer<>(SETTINGS, new StringDeserializer(), new StringDeserializer());
        var closed = atEnd(consumer::wakeup);
        consumer.subscribe(List.of(TOPIC));
        try {
            while (true) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (var each : records)
                    System.out.println("received " + each.partition() + " " + each.offset() + " " + each.value());
                var failed = new HashSet<Integer>();
                consumer.commitSync().forEach((at, error) -> { if (error.isPresent()) failed.add(at.partition()); });
                for (var each : records)
                    if (!failed.contains(each.partition())) System.out.println("accepted " + each.value());
            }
        } catch (WakeupException error) {
            consumer.close();
        } finally {
            closed.countDown();
        }
    }

    /** Calls `wakeup` on SIGTERM, and lets the JVM end when the latch is released. */
    static CountDownLatch atEnd(Runnable wakeup) {
        var closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            wakeup.run();
            try { closed.await(); } catch (InterruptedException error) { }
        }));
        return closed;
    }
}
