// Reads rows as key and value in hex; tells what Kafka's own classes read in them, and write again.

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

public class GroupRows {
    public static void main(String[] arguments) throws Exception {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        HexFormat hex = HexFormat.of();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            ByteBuffer value = parts.length > 1 ? ByteBuffer.wrap(hex.parseHex(parts[1])) : null;
            CoordinatorRecord record =
                serde.deserialize(ByteBuffer.wrap(hex.parseHex(parts[0])), value);
            JsonNode said = null;
            String again = hex.formatHex(serde.serializeKey(record));
            if (value != null) {
                short version = record.value().version();
                said = CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                    record.value().message(), version);
                again += " " + hex.formatHex(serde.serializeValue(record));
            }
            System.out.println(again + "\t" + record.key().getClass().getSimpleName() + "\t" + said);
        }
    }
}
