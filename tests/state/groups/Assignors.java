import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;
import org.apache.kafka.common.utils.LogContext;

/** Kafka's own assignors: a group as a line of JSON in, what they assign as a line of JSON out. */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode group) {
        Topics topics = new Topics(group.get("topics"));
        TimelineHashMap<String, JsonNode> members =
            new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (JsonNode member : group.get("members")) {
            String id = member.get("id").asText();
            members.put(id, member);  // a coordinator writes the member,
            members.put(id, member);  // then what is assigned to it
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        members.forEach((id, member) -> specs.put(id, spec(id, member, topics, owners)));
        PartitionAssignor assignor = switch (group.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "simple" -> new SimpleAssignor();
            default -> new UniformAssignor();
        };
        SubscriptionType type = group.get("isHomogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment assigned = assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(specs), type, owners), topics);
        ObjectNode answer = JSON.createObjectNode();
        members.keySet().forEach(id -> answer.withArray("order").add(id));
        ObjectNode targets = answer.putObject("targets");
        specs.keySet().forEach(id -> {
            ObjectNode target = targets.putObject(id);
            MemberAssignment mine = assigned.members().get(id);
            if (mine != null) {
                mine.partitions().forEach((topic, partitions) ->
                    partitions.forEach(each -> target.withArray(topic.toString()).add(each)));
            }
        });
        return answer;
    }

    private static MemberSubscriptionAndAssignmentImpl spec(
        String id, JsonNode member, Topics topics, Map<Uuid, Map<Integer, String>> owners
    ) {
        Set<String> names = new HashSet<>(
            JSON.convertValue(member.get("topics"), java.util.List.class));
        Map<Uuid, Set<Integer>> target = new HashMap<>();
        member.get("target").fields().forEachRemaining(entry -> {
            Uuid topic = Uuid.fromString(entry.getKey());
            java.util.List<Integer> partitions =
                JSON.convertValue(entry.getValue(), java.util.List.class);
            target.put(topic, new HashSet<>(partitions));
            partitions.forEach(each ->
                owners.computeIfAbsent(topic, none -> new HashMap<>()).put(each, id));
        });
        JsonNode instance = member.get("instance");
        return new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(),
            instance.isNull() ? Optional.empty() : Optional.of(instance.asText()),
            new TopicIds(names, topics),
            new Assignment(target));
    }

    private static class Topics implements SubscribedTopicDescriber, TopicIds.TopicResolver {
        private final Map<String, Uuid> ids = new HashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();
        private final Map<Uuid, Integer> counts = new HashMap<>();

        Topics(JsonNode topics) {
            topics.forEach(topic -> {
                Uuid id = Uuid.fromString(topic.get("id").asText());
                ids.put(topic.get("name").asText(), id);
                names.put(id, topic.get("name").asText());
                counts.put(id, topic.get("partitions").asInt());
            });
        }

        @Override
        public int numPartitions(Uuid id) {
            return counts.getOrDefault(id, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid id, int partition) {
            return Set.of();
        }

        @Override
        public String name(Uuid id) {
            return names.get(id);
        }

        @Override
        public Uuid id(String name) {
            return ids.get(name);
        }

        @Override
        public CoordinatorMetadataImage image() {
            return CoordinatorMetadataImage.EMPTY;
        }

        @Override
        public void clear() {
        }
    }
}
