import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Kafka's own definitions: a setting and texts as a line of JSON in, what they say of each out. */
public class SettingValues {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> definitions = Map.of(
            "broker", AbstractKafkaConfig.CONFIG_DEF,
            "topic", LogConfig.configDefCopy(),
            "group", GroupConfig.CONFIG_DEF);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ConfigDef definition = definitions.get(asked.get("of").asText());
            System.out.println(JSON.writeValueAsString(answer(definition, asked)));
        }
    }

    private static ObjectNode answer(ConfigDef definition, JsonNode asked) {
        ConfigDef.ConfigKey key = definition.configKeys().get(asked.get("name").asText());
        ObjectNode answer = JSON.createObjectNode();
        answer.put("default", key.hasDefault()
            ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        ArrayNode said = answer.putArray("said");
        asked.get("texts").forEach(text -> said.add(fault(key, text.asText())));
        return answer;
    }

    private static String fault(ConfigDef.ConfigKey key, String text) {
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, value);
            }
            return null;
        } catch (ConfigException error) {
            return error.getMessage();
        }
    }
}
