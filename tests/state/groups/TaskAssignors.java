import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Kafka's assignor of tasks: a group as a line of JSON in, what it assigns as one out. */
public class TaskAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode group) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        group.get("members").fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            members.put(entry.getKey(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get("active")),
                tasks(member.get("standby")), Map.of(), member.get("process").asText(), Map.of(),
                Map.of(), Map.of()));
        });
        String replicas = group.get("standbyReplicas").asText();
        GroupAssignment assigned = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, Map.of("num.standby.replicas", replicas)),
            new Topology(group));
        ObjectNode answer = JSON.createObjectNode();
        assigned.members().forEach((id, mine) -> {
            ObjectNode target = answer.putObject(id);
            put(target.putObject("active"), mine.activeTasks());
            put(target.putObject("standby"), mine.standbyTasks());
        });
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode said) {
        Map<String, Set<Integer>> found = new HashMap<>();
        said.fields().forEachRemaining(entry -> {
            Set<Integer> partitions = new HashSet<>();
            entry.getValue().forEach(each -> partitions.add(each.asInt()));
            found.put(entry.getKey(), partitions);
        });
        return found;
    }

    private static void put(ObjectNode target, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((id, partitions) -> {
            ArrayNode numbers = target.putArray(id);
            partitions.stream().sorted().forEach(numbers::add);
        });
    }

    private static class Topology implements TopologyDescriber {
        private final TreeMap<String, Integer> counts = new TreeMap<>();
        private final Set<String> stateful = new HashSet<>();

        Topology(JsonNode group) {
            group.get("taskCounts").fields().forEachRemaining(
                entry -> counts.put(entry.getKey(), entry.getValue().asInt()));
            group.get("stateful").forEach(each -> stateful.add(each.asText()));
        }

        @Override
        public List<String> subtopologies() {
            return new ArrayList<>(counts.keySet());
        }

        @Override
        public int maxNumInputPartitions(String id) {
            return counts.get(id);
        }

        @Override
        public boolean isStateful(String id) {
            return stateful.contains(id);
        }
    }
}
