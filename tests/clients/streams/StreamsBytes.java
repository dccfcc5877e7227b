import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/** Bytes of Streams in, a line of JSON each: what Kafka's own classes read, and write of it again. */
public class StreamsBytes {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode(asked.get("data").asText()));
            ObjectNode answer = JSON.createObjectNode();
            ByteBuffer again = asked.get("kind").asText().equals("subscription")
                ? subscription(SubscriptionInfo.decode(data), answer)
                : assignment(AssignmentInfo.decode(data), answer);
            byte[] bytes = new byte[again.remaining()];
            again.get(bytes);
            System.out.println(answer.put("again", Base64.getEncoder().encodeToString(bytes)));
        }
    }

    private static ByteBuffer subscription(SubscriptionInfo info, ObjectNode answer) {
        answer.put("versions", info.version() + "/" + info.latestSupportedVersion());
        answer.put("processId", info.processId().id().toString());
        answer.put("userEndPoint", info.userEndPoint());
        answer.put("errorCode", info.errorCode());
        ObjectNode sums = answer.putObject("offsetSums");
        info.taskOffsetSums().forEach((task, sum) -> sums.put(task.toString(), sum));
        ArrayNode previous = answer.putArray("running");
        info.prevTasks().forEach(task -> previous.add(task.toString()));
        return info.encode();
    }

    private static ByteBuffer assignment(AssignmentInfo info, ObjectNode answer) {
        answer.put("versions", info.version() + "/" + info.commonlySupportedVersion());
        answer.put("errorCode", info.errCode());
        answer.put("nextRebalanceMs", info.nextRebalanceMs());
        ArrayNode active = answer.putArray("active");
        info.activeTasks().forEach(task -> active.add(task.toString()));
        ObjectNode standby = answer.putObject("standby");
        for (Map.Entry<TaskId, Set<TopicPartition>> each : info.standbyTasks().entrySet()) {
            partitions(standby.putArray(each.getKey().toString()), each.getValue());
        }
        hosts(answer.putObject("hosts"), info.partitionsByHost());
        hosts(answer.putObject("standbyHosts"), info.standbyPartitionByHost());
        return info.encode();
    }

    private static void hosts(ObjectNode to, Map<HostInfo, Set<TopicPartition>> known) {
        known.forEach((host, at) -> partitions(to.putArray(host.host() + ":" + host.port()), at));
    }

    private static void partitions(ArrayNode to, Set<TopicPartition> known) {
        known.forEach(at -> to.add(at.toString()));
    }
}
