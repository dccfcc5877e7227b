// Calls the methods of Java's Admin at several brokers. Arguments: their addresses. First it writes its table, and the
// names of all methods that there are; then for each line of input, a broker's place and a number in the table, what
// is told: the fields of the result as a document.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

public class AdminCalls {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TIMEOUT_S = 30;
    private static final String T = "java";
    private static final TopicPartition P0 = new TopicPartition(T, 0);
    private static final TopicPartition P1 = new TopicPartition(T, 1);
    private static final TopicPartition NOWHERE = new TopicPartition("absent", 0);
    private static final List<String[]> NAMES = new ArrayList<>();
    private static final List<Function<Admin, Object>> CALLS = new ArrayList<>();

    private static void call(String method, String about, Function<Admin, Object> call) {
        NAMES.add(new String[] {method, about});
        CALLS.add(call);
    }

    /** What others do at this place of the table. */
    private static void act(String what) {
        NAMES.add(new String[] {"", what});
        CALLS.add(null);
    }

    private static Map<ConfigResource, Collection<AlterConfigOp>> altered(
            String topic, String name, String value, AlterConfigOp.OpType type) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), type)));
    }

    private static AclBinding acl(AclOperation operation) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, T, PatternType.LITERAL),
            new AccessControlEntry("User:carol", "*", operation, AclPermissionType.ALLOW));
    }

    private static void topics() {
        call("createTopics", "settings", a -> a.createTopics(List.of(
            new NewTopic(T, 3, (short) 1).configs(Map.of("retention.ms", "100000")),
            new NewTopic("notes", 1, (short) 1))));
        call("createTopics", "faults", a -> a.createTopics(List.of(
            new NewTopic(T, 3, (short) 1), new NewTopic("bad name", 1, (short) 1),
            new NewTopic("wide", 1, (short) 7), new NewTopic("assigned", Map.of(0, List.of(9))))));
        call("createTopics", "checked", a -> a.createTopics(
            List.of(new NewTopic("checked", 2, (short) 1)), new CreateTopicsOptions().validateOnly(true)));
        call("createPartitions", "more, fewer, absent", a -> a.createPartitions(Map.of(
            T, NewPartitions.increaseTo(4), "notes", NewPartitions.increaseTo(1), "absent", NewPartitions.increaseTo(2))));
        call("listTopics", "all", a -> a.listTopics(new ListTopicsOptions().listInternal(false)));
        call("describeTopics", "two, and an absent one", a -> a.describeTopics(List.of(T, "notes", "absent")));
        act("records");
        call("listOffsets", "end, begin, time, nowhere", a -> List.of(
            a.listOffsets(Map.of(P0, OffsetSpec.latest(), P1, OffsetSpec.earliest())),
            a.listOffsets(Map.of(P0, OffsetSpec.maxTimestamp())),
            a.listOffsets(Map.of(P0, OffsetSpec.forTimestamp(1), P1, OffsetSpec.forTimestamp(1)))));
        call("deleteRecords", "some, and beyond", a -> a.deleteRecords(Map.of(
            P0, RecordsToDelete.beforeOffset(2), P1, RecordsToDelete.beforeOffset(99))));
    }

    private static void settings() {
        call("incrementalAlterConfigs", "set", a -> a.incrementalAlterConfigs(
            altered(T, "segment.bytes", "1048576", AlterConfigOp.OpType.SET)));
        call("incrementalAlterConfigs", "append", a -> a.incrementalAlterConfigs(
            altered(T, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND)));
        call("incrementalAlterConfigs", "unknown", a -> a.incrementalAlterConfigs(
            altered(T, "no.such", "1", AlterConfigOp.OpType.SET)));
        call("incrementalAlterConfigs", "absent", a -> a.incrementalAlterConfigs(
            altered("absent", "retention.ms", "1", AlterConfigOp.OpType.SET)));
        List<ConfigResource> described = new ArrayList<>();
        described.add(new ConfigResource(ConfigResource.Type.TOPIC, T));
        described.add(new ConfigResource(ConfigResource.Type.TOPIC, "absent"));
        described.add(new ConfigResource(ConfigResource.Type.BROKER, "1"));
        described.add(new ConfigResource(ConfigResource.Type.GROUP, "some"));
        described.add(new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "some"));
        call("describeConfigs", "of five kinds", a -> a.describeConfigs(
            described, new DescribeConfigsOptions().includeSynonyms(true)));
        call("listConfigResources", "all", a -> a.listConfigResources());
        call("listClientMetricsResources", "all", a -> a.listClientMetricsResources());
        ClientQuotaEntity carol = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "carol"));
        for (Double rate : new Double[] {1000.0, null}) {
            call("alterClientQuotas", rate == null ? "away" : "set", a -> a.alterClientQuotas(List.of(
                new ClientQuotaAlteration(carol, List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", rate))))));
            call("describeClientQuotas", rate == null ? "none" : "one", a -> a.describeClientQuotas(ClientQuotaFilter.all()));
        }
        call("alterClientQuotas", "no such", a -> a.alterClientQuotas(List.of(
            new ClientQuotaAlteration(carol, List.of(new ClientQuotaAlteration.Op("no_such", 1.0))))));
        call("createAcls", "two", a -> a.createAcls(List.of(acl(AclOperation.READ), acl(AclOperation.WRITE))));
        call("describeAcls", "all", a -> a.describeAcls(AclBindingFilter.ANY));
        call("deleteAcls", "all", a -> a.deleteAcls(List.of(AclBindingFilter.ANY, acl(AclOperation.ALTER).toFilter())));
        call("describeUserScramCredentials", "nobody", a -> a.describeUserScramCredentials(List.of("nobody")));
        call("createDelegationToken", "without SASL", a -> a.createDelegationToken());
        call("renewDelegationToken", "none", a -> a.renewDelegationToken(new byte[] {1}).expiryTimestamp());
        call("expireDelegationToken", "none", a -> a.expireDelegationToken(new byte[] {1}).expiryTimestamp());
        call("describeDelegationToken", "without SASL", a -> a.describeDelegationToken());
    }

    private static void groups() {
        act("a coordinator");
        Map<TopicPartition, OffsetAndMetadata> at = Map.of(P0, new OffsetAndMetadata(3, Optional.of(0), "m"));
        call("alterConsumerGroupOffsets", "a new group", a -> a.alterConsumerGroupOffsets("g", at));
        call("alterConsumerGroupOffsets", "absent", a -> a.alterConsumerGroupOffsets(
            "g", Map.of(NOWHERE, new OffsetAndMetadata(3))));
        call("alterStreamsGroupOffsets", "a new group", a -> a.alterStreamsGroupOffsets("c", at));
        call("alterShareGroupOffsets", "absent", a -> a.alterShareGroupOffsets("s", Map.of(NOWHERE, 3L)));
        call("listGroups", "all", a -> a.listGroups());
        call("listGroups", "of consumers, in a state", a -> a.listGroups(
            ListGroupsOptions.forConsumerGroups().inGroupStates(Set.of(GroupState.STABLE))));
        call("listConsumerGroups", "all", a -> a.listConsumerGroups());
        List<String> asked = List.of("g", "absent");
        call("describeConsumerGroups", "one, and an absent one", a -> a.describeConsumerGroups(
            asked, new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)));
        call("describeClassicGroups", "one, and an absent one", a -> a.describeClassicGroups(asked));
        call("describeShareGroups", "of another kind, absent", a -> a.describeShareGroups(asked));
        call("describeStreamsGroups", "of another kind, absent", a -> a.describeStreamsGroups(asked));
        call("listConsumerGroupOffsets", "one", a -> a.listConsumerGroupOffsets("g"));
        call("listConsumerGroupOffsets", "absent", a -> a.listConsumerGroupOffsets("absent"));
        call("listStreamsGroupOffsets", "one", a -> a.listStreamsGroupOffsets(
            Map.of("c", new ListStreamsGroupOffsetsSpec())));
        call("listShareGroupOffsets", "absent", a -> a.listShareGroupOffsets(
            Map.of("absent", new ListShareGroupOffsetsSpec())));
        call("removeMembersFromConsumerGroup", "not in it", a -> a.removeMembersFromConsumerGroup(
            "g", new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody")))));
        call("deleteConsumerGroupOffsets", "one", a -> a.deleteConsumerGroupOffsets("g", Set.of(P0)));
        call("deleteConsumerGroupOffsets", "absent", a -> a.deleteConsumerGroupOffsets("absent", Set.of(P0)));
        call("deleteStreamsGroupOffsets", "one", a -> a.deleteStreamsGroupOffsets("c", Set.of(P0)));
        call("deleteShareGroupOffsets", "absent", a -> a.deleteShareGroupOffsets("absent", Set.of(T)));
        call("deleteConsumerGroups", "one, and an absent one", a -> a.deleteConsumerGroups(asked));
        call("deleteStreamsGroups", "one", a -> a.deleteStreamsGroups(List.of("c")));
        call("deleteShareGroups", "absent", a -> a.deleteShareGroups(List.of("absent")));
    }

    private static void cluster() {
        call("describeCluster", "rights", a -> a.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(true)));
        call("describeCluster", "fenced ones, too", a -> a.describeCluster(
            new DescribeClusterOptions().includeFencedBrokers(true)));
        call("describeFeatures", "all", a -> a.describeFeatures());
        for (String feature : List.of("group.version", "absent")) {
            call("updateFeatures", feature, a -> a.updateFeatures(
                Map.of(feature, new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
        }
        call("describeMetadataQuorum", "all", a -> a.describeMetadataQuorum());
        call("unregisterBroker", "absent", a -> a.unregisterBroker(9));
        call("electLeaders", "preferred", a -> a.electLeaders(ElectionType.PREFERRED, Set.of(P0, NOWHERE)));
        call("electLeaders", "unclean", a -> a.electLeaders(ElectionType.UNCLEAN, Set.of(P0)));
        call("alterPartitionReassignments", "here, nowhere, none", a -> a.alterPartitionReassignments(Map.of(
            P0, Optional.of(new NewPartitionReassignment(List.of(1))),
            P1, Optional.of(new NewPartitionReassignment(List.of(9))), NOWHERE, Optional.empty())));
        call("listPartitionReassignments", "all", a -> a.listPartitionReassignments());
        TopicPartitionReplica replica = new TopicPartitionReplica(T, 0, 1);
        call("alterReplicaLogDirs", "nowhere", a -> a.alterReplicaLogDirs(Map.of(replica, "/nowhere")));
        call("describeLogDirs", "all", a -> a.describeLogDirs(List.of(1)));
        call("describeReplicaLogDirs", "one", a -> a.describeReplicaLogDirs(List.of(replica)));
    }

    private static void transactions() {
        TopicPartition notes = new TopicPartition("notes", 0);
        act("begin");
        call("listTransactions", "all", a -> a.listTransactions());
        call("listTransactions", "over", a -> a.listTransactions(
            new ListTransactionsOptions().filterStates(List.of(TransactionState.COMPLETE_ABORT))));
        call("describeTransactions", "one, and an absent one", a -> a.describeTransactions(List.of("paying", "absent")));
        call("describeProducers", "one", a -> a.describeProducers(List.of(notes)));
        act("commit");
        call("abortTransaction", "none", a -> a.abortTransaction(new AbortTransactionSpec(notes, 77, (short) 0, 0)));
        call("fenceProducers", "a new one", a -> a.fenceProducers(List.of("fenced")));
        call("forceTerminateTransaction", "none", a -> a.forceTerminateTransaction("fenced"));
        call("deleteTopics", "two, and an absent one", a -> a.deleteTopics(List.of(T, "notes", "absent")));
        call("listTopics", "none are left", a -> a.listTopics());
    }

    /** A result in maps, lists and texts. */
    private static Object plain(Object told) throws Exception {
        if (told == null || told instanceof Number || told instanceof Boolean || told instanceof String) {
            return told;
        } else if (told instanceof KafkaFuture) {
            try {
                return plain(((KafkaFuture<?>) told).get(TIMEOUT_S, TimeUnit.SECONDS));
            } catch (ExecutionException error) {
                return plain(error.getCause());
            }
        } else if (told instanceof Throwable) {
            return Arrays.asList(told.getClass().getSimpleName(), ((Throwable) told).getMessage());
        } else if (told instanceof Optional) {
            return plain(((Optional<?>) told).orElse(null));
        } else if (told instanceof Map) {
            Map<String, Object> found = new LinkedHashMap<>();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) told).entrySet()) {
                Object key = plain(each.getKey());
                found.put(key instanceof Map ? JSON.writeValueAsString(key) : String.valueOf(key), plain(each.getValue()));
            }
            return found;
        } else if (told instanceof Collection) {
            List<Object> found = new ArrayList<>();
            for (Object each : (Collection<?>) told) {
                found.add(plain(each));
            }
            return found;
        } else if (told instanceof Enum || told instanceof Uuid || told instanceof OptionalInt
                || told instanceof OptionalLong || !told.getClass().getName().startsWith("org.apache.kafka.")) {
            return told.toString();
        }
        return fields(told);
    }

    private static Object fields(Object told) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Class<?> type = told.getClass(); type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                boolean isCache = field.getName().equals("hash");
                if (!Modifier.isStatic(field.getModifiers()) && !field.isSynthetic() && !isCache) {
                    field.setAccessible(true);
                    found.put(field.getName(), plain(field.get(told)));
                }
            }
        }
        return found;
    }

    private static Object told(Admin admin, int number) {
        try {
            return plain(CALLS.get(number).apply(admin));
        } catch (Exception error) {
            return Arrays.asList(error.getClass().getSimpleName(), error.getMessage());
        }
    }

    public static void main(String[] addresses) throws Exception {
        topics();
        settings();
        groups();
        cluster();
        transactions();
        TreeSet<String> methods = new TreeSet<>();
        for (Method each : Admin.class.getMethods()) {
            if (!Modifier.isStatic(each.getModifiers())) {
                methods.add(each.getName());
            }
        }
        System.out.println(JSON.writeValueAsString(List.of(NAMES, methods)));
        Map<Integer, Admin> admins = new HashMap<>();
        for (int at = 0; at < addresses.length; at++) {
            admins.put(at, Admin.create(Map.of("bootstrap.servers", addresses[at])));
        }
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.split(" ");
            System.out.println(JSON.writeValueAsString(told(admins.get(Integer.parseInt(words[0])), Integer.parseInt(words[1]))));
        }
        Runtime.getRuntime().halt(0);
    }
}
