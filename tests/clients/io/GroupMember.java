import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group by Java's consumer. Arguments: a topic, then properties as name=value.
 *
 * <p>For each line of input it polls once, and prints the partitions that it has, a bar, and what
 * it has read as partition@offset.
 */
public class GroupMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String each : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            int at = each.indexOf('=');
            settings.put(each.substring(0, at), each.substring(at + 1));
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[0]));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            while (lines.readLine() != null) {
                ConsumerRecords<byte[], byte[]> read = consumer.poll(Duration.ofMillis(20));
                String owned = consumer.assignment().stream()
                    .map(at -> String.valueOf(at.partition()))
                    .collect(Collectors.joining(" "));
                System.out.println(owned + "|" + StreamSupport.stream(read.spliterator(), false)
                    .map(record -> record.partition() + "@" + record.offset())
                    .collect(Collectors.joining(" ")));
            }
        }
    }
}
