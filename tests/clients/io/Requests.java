import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Java's clients ask a broker, each under its own client id.
 *
 * <p>Arguments: the broker's address, a topic, what the names of groups begin with, and the clients:
 * producers idempotent and transactional, consumers classic and consumer, by their protocols, again,
 * which goes on where classic has committed, and pattern and regex, which subscribe to what matches,
 * in a classic and in a consumer group. A consumer reads until a byte of input comes.
 */
public class Requests {
    /** The time of all records, in ms; what is years old a broker may delete. */
    static final long WRITTEN_AT = Long.parseLong(System.getenv("WRITTEN_AT"));

    static Map<String, Object> settings(String bootstrap, String client) {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", client));
    }

    static void produce(KafkaProducer<byte[], byte[]> producer, String topic) {
        for (int at = 0; at < 6; at++) {
            byte[] value = String.valueOf(at).getBytes();
            producer.send(new ProducerRecord<>(topic, at % 2, WRITTEN_AT, value, value));
        }
        producer.flush();
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        settings.put("linger.ms", 10_000);
        ByteArraySerializer bytes = new ByteArraySerializer();
        return new KafkaProducer<>(settings, bytes, bytes);
    }

    static void idempotent(Map<String, Object> settings, String topic) {
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            produce(producer, topic);
        }
    }

    @SuppressWarnings("removal")
    static void transactional(Map<String, Object> settings, String topic, String group) {
        settings.put("transactional.id", group);
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            produce(producer, topic);
            Map<TopicPartition, OffsetAndMetadata> offsets =
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1));
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
            producer.commitTransaction();
            producer.beginTransaction();
            produce(producer, topic);
            producer.abortTransaction();
        }
    }

    static void consume(Map<String, Object> settings, String topic, String group, String protocol)
            throws IOException {
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", 100);
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            switch (settings.get("client.id").toString()) {
                case "pattern" -> consumer.subscribe(Pattern.compile(topic + ".*"));
                case "regex" -> consumer.subscribe(new SubscriptionPattern(topic + ".*"));
                default -> consumer.subscribe(List.of(topic));
            }
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(100));
            }
            System.in.read();
        }
    }

    public static void main(String[] arguments) throws IOException {
        String topic = arguments[1];
        for (String client : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            Map<String, Object> settings = settings(arguments[0], client);
            String group = arguments[2] + "-" + client;
            switch (client) {
                case "idempotent" -> idempotent(settings, topic);
                case "transactional" -> transactional(settings, topic, group);
                case "again" -> consume(settings, topic, arguments[2] + "-classic", "classic");
                case "pattern" -> consume(settings, topic, group, "classic");
                case "regex" -> consume(settings, topic, group, "consumer");
                default -> consume(settings, topic, group, client);
            }
        }
    }
}
