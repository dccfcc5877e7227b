import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * An instance of Kafka's own Streams with the word count of ours: the same tasks, topics and values.
 *
 * <p>Arguments: source, sink, then properties as name=value. A line of input is answered with the
 * tasks that its threads run, as task ids with blanks between them.
 */
public class WordCountMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String each : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            int at = each.indexOf('=');
            settings.put(each.substring(0, at), each.substring(at + 1));
        }
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1]), settings);
        streams.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            System.out.println(streams.metadataForLocalThreads().stream()
                .flatMap(thread -> thread.activeTasks().stream())
                .map(task -> task.taskId().toString())
                .sorted()
                .collect(Collectors.joining(" ")));
        }
        streams.close();
    }

    private static org.apache.kafka.streams.Topology topology(String source, String sink) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(source)
            .flatMap((key, line) -> Arrays.stream(line.toLowerCase().split("\\W+"))
                .filter(word -> !word.isEmpty())
                .map(word -> KeyValue.pair(word, word))
                .collect(Collectors.toList()))
            .groupByKey(Grouped.as("words"))
            .aggregate(
                () -> "0",
                (word, value, count) -> String.valueOf(Long.parseLong(count) + 1),
                Materialized.<String, String>as(Stores.inMemoryKeyValueStore("counts"))
                    .withCachingDisabled())
            .toStream()
            .to(sink);
        return builder.build();
    }
}
