import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/** Java's, Scala's and Kafka's own maps: keys as a line of JSON in, their hashes and orders out. */
public class HashOrders {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode asked) {
        List<String> texts = new ArrayList<>();
        asked.get("texts").forEach(each -> texts.add(each.asText()));
        List<Integer> hashes = new ArrayList<>();
        texts.forEach(each -> hashes.add(each.hashCode()));
        List<Integer> places = new ArrayList<>();
        texts.forEach(each -> places.add(new TopicPartition(each, each.length()).hashCode()));
        List<Integer> ids = new ArrayList<>();
        asked.get("ids").forEach(each -> ids.add(Uuid.fromString(each.asText()).hashCode()));

        HashMap<String, String> hashMap = new HashMap<>();
        scala.collection.mutable.HashMap<String, String> scalaMap =
            new scala.collection.mutable.HashMap<>();
        TimelineHashMap<String, String> timeline =
            new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (String each : texts) {
            hashMap.put(each, each);
            scalaMap.put(each, each);
            timeline.put(each, each);
            timeline.put(each, each);
        }
        // some are taken out again: the room that they had stays
        int kept = asked.get("kept").asInt();
        HashMap<String, String> shrunk = new HashMap<>();
        texts.forEach(each -> shrunk.put(each, each));
        texts.subList(kept, texts.size()).forEach(shrunk::remove);
        List<String> ofScala = new ArrayList<>();
        scalaMap.keysIterator().foreach(each -> ofScala.add(each));

        ObjectNode answer = JSON.createObjectNode();
        answer.set("hashes", JSON.valueToTree(hashes));
        answer.set("places", JSON.valueToTree(places));
        answer.set("ids", JSON.valueToTree(ids));
        answer.set("hashMap", JSON.valueToTree(new ArrayList<>(hashMap.keySet())));
        answer.set("shrunk", JSON.valueToTree(new ArrayList<>(shrunk.keySet())));
        answer.set("hashSet", JSON.valueToTree(new ArrayList<>(new HashSet<>(texts))));
        answer.set("scala", JSON.valueToTree(ofScala));
        answer.set("timeline", JSON.valueToTree(new ArrayList<>(timeline.keySet())));
        return answer;
    }
}
