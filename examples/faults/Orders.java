// A test without JUnit: a consumer dies, and its group notices at once instead of after 45 seconds.
//
//   brokertwin gateway --listen localhost:19092 --control-listen 9405
//   java -cp 'KAFKA/libs/*' Orders.java

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Orders {
    static final String BROKER = System.getenv().getOrDefault("BROKER", "localhost:19092");
    static final String CONTROL = System.getenv().getOrDefault("CONTROL", "http://127.0.0.1:9405");

    /** Calls a method of the broker, such as advance_time; the response has its result. */
    static String call(String method, String arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(CONTROL + "/broker/" + method))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(arguments)).build();
        var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        if (response.statusCode() != 200) throw new AssertionError(response.body());
        return response.body();
    }

    static KafkaConsumer<String, String> member(String client) {
        var config = Map.<String, Object>of(
            "bootstrap.servers", BROKER, "group.id", "billing", "client.id", client,
            "auto.offset.reset", "earliest");
        var text = new StringDeserializer();
        var consumer = new KafkaConsumer<>(config, text, text);
        consumer.subscribe(List.of("payments"));
        return consumer;
    }

    public static void main(String[] arguments) throws Exception {
        call("reset", "{}");
        call("create_topic", "{\"name\": \"payments\", \"partitions\": 2}");
        call("produce", "{\"topic\": \"payments\", \"values\": [\"one\", \"two\"]}");
        try (var dies = member("dies")) {
            while (dies.poll(Duration.ofSeconds(1)).isEmpty()) { }
            call("expire_members", "{\"group\": \"billing\", \"client\": \"dies\"}");
            call("wait_for_group", "{\"group\": \"billing\", \"state\": \"Empty\"}");
        }
        try (var replacement = member("replacement")) {
            var records = replacement.poll(Duration.ofSeconds(10));
            for (int tries = 0; records.isEmpty() && tries < 10; tries++)
                records = replacement.poll(Duration.ofSeconds(10));
            if (records.count() != 2) throw new AssertionError(records.count() + " records");
        }
        System.out.println("passed");
    }
}
