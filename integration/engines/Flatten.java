import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.transforms.ExtractNewRecordState;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * Flattens records as a connector does: lines {"headers":[k,v,…],"key":…,"value":…} of
 * JsonConverter's texts with schemas, or null, in; the same out, and a line "dropped" for a
 * record that the transform drops. Arguments: schemas=true or false of what comes out, and
 * settings of ExtractNewRecordState.
 */
class Flatten {
    public static void main(String[] args) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (String a : args) {
            settings.put(a.substring(0, a.indexOf('=')), a.substring(a.indexOf('=') + 1));
        }
        String schemas = settings.remove("schemas");
        JsonConverter inKey = converter("true", true), inValue = converter("true", false);
        JsonConverter outKey = converter(schemas, true), outValue = converter(schemas, false);
        ExtractNewRecordState<SinkRecord> smt = new ExtractNewRecordState<>();
        smt.configure(settings);
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode record = json.readTree(line);
            SchemaAndValue key = inKey.toConnectData("t", bytes(record.get("key")));
            SchemaAndValue value = inValue.toConnectData("t", bytes(record.get("value")));
            SinkRecord r = new SinkRecord("t", 0, key.schema(), key.value(), value.schema(), value.value(), 0);
            JsonNode headers = record.get("headers");
            for (int i = 0; headers != null && i + 1 < headers.size(); i += 2) {
                r.headers().addString(headers.get(i).asText(), headers.get(i + 1).asText());
            }
            r = smt.apply(r);
            if (r == null) {
                System.out.println("\"dropped\"");
                continue;
            }
            ObjectNode out = json.createObjectNode();
            ArrayNode names = out.putArray("headers");
            for (Header h : r.headers()) {
                names.add(h.key());
                names.add(String.valueOf(h.value()));
            }
            out.put("key", text(outKey.fromConnectData("t", r.keySchema(), r.key())));
            out.put("value", r.value() == null ? null : text(outValue.fromConnectData("t", r.valueSchema(), r.value())));
            System.out.println(json.writeValueAsString(out));
        }
    }

    static JsonConverter converter(String schemas, boolean key) {
        JsonConverter c = new JsonConverter();
        c.configure(Map.of("schemas.enable", schemas), key);
        return c;
    }

    static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] b) {
        return b == null ? null : new String(b, StandardCharsets.UTF_8);
    }
}
