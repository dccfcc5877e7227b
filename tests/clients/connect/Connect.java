import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.distributed.ConnectAssignor;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocolCompatibility;
import org.apache.kafka.connect.runtime.distributed.EagerAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.storage.ClusterConfigState;

/** Kafka's own assignors of Connect: a rebalance as a line of JSON in, the members' bytes out. */
public class Connect {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final LogContext LOG = new LogContext();
    private static final Clock CLOCK = new Clock();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ConnectAssignor cooperative = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            if (asked.get("round").asInt() == 0) {
                int maxDelay = asked.get("maxDelayMs").asInt();
                cooperative = new IncrementalCooperativeAssignor(LOG, CLOCK, maxDelay);
            }
            System.out.println(JSON.writeValueAsString(answer(asked, cooperative)));
        }
    }

    private static ObjectNode answer(JsonNode asked, ConnectAssignor cooperative) {
        CLOCK.now = asked.get("now").asLong();
        ConnectProtocolCompatibility protocol =
            ConnectProtocolCompatibility.fromProtocol(asked.get("protocol").asText());
        ConnectAssignor assignor =
            protocol == ConnectProtocolCompatibility.EAGER ? new EagerAssignor(LOG) : cooperative;
        List<JoinGroupResponseMember> members = new ArrayList<>();
        asked.get("members").fields().forEachRemaining(member -> members.add(
            new JoinGroupResponseMember()
                .setMemberId(member.getKey())
                .setMetadata(Base64.getDecoder().decode(member.getValue().asText()))));
        Map<String, ByteBuffer> assigned = assignor.performAssignment(
            asked.get("leader").asText(), protocol, members, new Worker(asked));
        ObjectNode answer = JSON.createObjectNode();
        assigned.forEach((member, bytes) ->
            answer.put(member, Base64.getEncoder().encodeToString(bytes.array())));
        return answer;
    }

    /** The leader, as far as an assignor asks it. */
    private static class Worker extends WorkerCoordinator {
        private final JsonNode asked;
        private final ClusterConfigState known;

        Worker(JsonNode asked) {
            super(
                new GroupRebalanceConfig(10000, 60000, 3000, "connect", Optional.empty(), null, 100, 1000),
                LOG, null, new Metrics(), "connect", CLOCK, "http://leader", null, null,
                ConnectProtocolCompatibility.SESSIONED, 0);
            this.asked = asked;
            Map<String, Integer> counts = new HashMap<>();
            Map<String, Map<String, String>> configs = new HashMap<>();
            Map<String, TargetState> states = new HashMap<>();
            asked.get("taskCounts").fields().forEachRemaining(connector -> {
                counts.put(connector.getKey(), connector.getValue().asInt());
                configs.put(connector.getKey(), Map.of());
                states.put(connector.getKey(), TargetState.STARTED);
            });
            known = new ClusterConfigState(
                asked.get("offset").asLong(), null, counts, configs, states, Map.of(), Map.of(),
                Map.of(), Map.of(), Set.of(), Set.of());
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return known;
        }

        @Override
        public ClusterConfigState configFreshSnapshot() {
            return known;
        }

        @Override
        public int generationId() {
            return asked.get("generation").asInt();
        }

        @Override
        public int lastCompletedGenerationId() {
            return asked.get("lastCompleted").asInt();
        }
    }

    private static class Clock implements Time {
        private long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object obj, Supplier<Boolean> condition, long deadlineMs) { }
    }
}
