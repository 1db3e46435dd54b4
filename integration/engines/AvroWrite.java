// AvroWrite has Apicurio's converter write records as Debezium hands them to it: one
// change, in each way that the converter can name a schema. One line of JSON each.
import io.apicurio.registry.utils.converter.AvroConverter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;

public class AvroWrite {
  static Schema named(SchemaBuilder b, String name) {
    return b.name(name).version(1).optional().build();
  }

  public static void main(String[] args) {
    Schema decimal = Decimal.builder(4).parameter("connect.decimal.precision", "18").optional().build();
    Schema entry = SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).optional().build();
    Schema point = SchemaBuilder.struct().name("io.debezium.data.geometry.Point").version(1)
        .field("x", Schema.FLOAT64_SCHEMA).field("y", Schema.FLOAT64_SCHEMA)
        .field("wkb", Schema.OPTIONAL_BYTES_SCHEMA).field("srid", Schema.OPTIONAL_INT32_SCHEMA).optional().build();
    Schema variable = SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal").version(1)
        .field("scale", Schema.INT32_SCHEMA).field("value", Schema.BYTES_SCHEMA).optional().build();
    Schema row = SchemaBuilder.struct().name("a-1.shop_2.odd-name.Value").optional()
        .field("id", Schema.INT64_SCHEMA)
        .field("tiny", Schema.OPTIONAL_INT8_SCHEMA)
        .field("small", SchemaBuilder.int16().defaultValue((short) 7).build())
        .field("flag", Schema.OPTIONAL_BOOLEAN_SCHEMA)
        .field("amount", decimal)
        .field("single", Schema.OPTIONAL_FLOAT32_SCHEMA)
        .field("dbl", Schema.OPTIONAL_FLOAT64_SCHEMA)
        .field("day", named(SchemaBuilder.int32(), "io.debezium.time.Date"))
        .field("at", named(SchemaBuilder.int64(), "io.debezium.time.MicroTimestamp"))
        .field("connect_at", org.apache.kafka.connect.data.Timestamp.builder().optional().build())
        .field("zoned", named(SchemaBuilder.string(), "io.debezium.time.ZonedTimestamp"))
        .field("span", named(SchemaBuilder.int64(), "io.debezium.time.MicroTime"))
        .field("state", SchemaBuilder.string().name("io.debezium.data.Enum").version(1).parameter("allowed", "new,paid").defaultValue("new").build())
        .field("bits", SchemaBuilder.bytes().name("io.debezium.data.Bits").version(1).parameter("length", "12").optional().build())
        .field("raw", Schema.OPTIONAL_BYTES_SCHEMA)
        .field("list", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
        .field("by_name", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT64_SCHEMA).optional().build())
        .field("by_number", entry)
        .field("place", point)
        .field("number", variable)
        .field("gone", Schema.OPTIONAL_STRING_SCHEMA)
        .build();
    Schema source = SchemaBuilder.struct().name("io.debezium.connector.mysql.Source")
        .field("name", Schema.STRING_SCHEMA).field("db", Schema.STRING_SCHEMA).field("table", Schema.OPTIONAL_STRING_SCHEMA)
        .field("ts_ms", Schema.INT64_SCHEMA)
        .field("snapshot", SchemaBuilder.string().name("io.debezium.data.Enum").version(1).parameter("allowed", "true,false").defaultValue("false").optional().build())
        .field("server_id", Schema.INT64_SCHEMA).field("gtid", Schema.OPTIONAL_STRING_SCHEMA)
        .field("file", Schema.STRING_SCHEMA).field("pos", Schema.INT64_SCHEMA).field("row", Schema.INT32_SCHEMA).build();
    Schema envelope = SchemaBuilder.struct().name("a-1.shop_2.odd-name.Envelope").version(2)
        .field("before", row).field("after", row).field("source", source).field("op", Schema.STRING_SCHEMA)
        .field("ts_ms", Schema.OPTIONAL_INT64_SCHEMA).build();
    Schema key = SchemaBuilder.struct().name("a-1.shop_2.odd-name.Key").field("id", Schema.INT64_SCHEMA).build();

    Map<String, Long> byName = new LinkedHashMap<>();
    byName.put("a", 1L);
    Map<Integer, String> byNumber = new LinkedHashMap<>();
    byNumber.put(5, "five");
    Struct after = new Struct(row).put("id", 42L).put("tiny", (byte) -8).put("small", (short) 300).put("flag", true)
        .put("amount", new BigDecimal("-12345678901234.5678")).put("single", 5.17f).put("dbl", 0.1).put("day", 19188)
        .put("at", 1657843200123456L).put("connect_at", new java.util.Date(1657843200123L)).put("zoned", "2022-07-15T01:00:00.5+01:00")
        .put("span", -3600000000L).put("state", "paid").put("bits", new byte[] {1, 10}).put("raw", ByteBuffer.wrap(new byte[] {0, (byte) 255}))
        .put("list", Arrays.asList("x", null)).put("by_name", byName).put("by_number", byNumber)
        .put("place", new Struct(point).put("x", 1.0).put("y", 2.0).put("wkb", new byte[] {1, 2}).put("srid", 4326))
        .put("number", new Struct(variable).put("scale", 3).put("value", new BigInteger("123").toByteArray()));
    Struct value = new Struct(envelope).put("after", after).put("op", "c").put("ts_ms", 1657843200999L)
        .put("source", new Struct(source).put("name", "a-1").put("db", "shop-2").put("table", "odd-name").put("ts_ms", 1657843200000L)
            .put("snapshot", "false").put("server_id", 7L).put("file", "bin.000003").put("pos", 99L).put("row", 1));

    Map<String, Map<String, String>> ways = new LinkedHashMap<>();
    ways.put("default", Map.of());
    ways.put("8 bytes", Map.of("apicurio.registry.headers.enabled", "false"));
    ways.put("8 bytes, content", Map.of("apicurio.registry.headers.enabled", "false", "apicurio.registry.use-id", "contentId"));
    ways.put("confluent", Map.of("apicurio.registry.headers.enabled", "false", "apicurio.registry.as-confluent", "true", "apicurio.registry.use-id", "contentId"));
    ways.put("headers, content", Map.of("apicurio.registry.headers.enabled", "true", "apicurio.registry.use-id", "contentId"));
    for (String way : ways.keySet()) {
      Map<String, String> config = new HashMap<>(ways.get(way));
      config.put("apicurio.registry.url", args[0] + "/apis/registry/v2");
      config.put("apicurio.registry.auto-register", "true");
      config.put("apicurio.registry.find-latest", "true");
      Headers headers = new RecordHeaders();
      byte[][] parts = new byte[2][];
      for (boolean isKey : List.of(true, false)) {
        AvroConverter<?> converter = new AvroConverter<>();
        converter.configure(config, isKey);
        parts[isKey ? 0 : 1] = converter.fromConnectData("odd-name", headers, isKey ? key : envelope, isKey ? new Struct(key).put("id", 42L) : value);
      }
      StringBuilder line = new StringBuilder("{\"way\":\"" + way + "\"");
      line.append(",\"key\":\"").append(Base64.getEncoder().encodeToString(parts[0])).append("\",\"value\":\"")
          .append(Base64.getEncoder().encodeToString(parts[1])).append("\",\"headers\":[");
      String comma = "";
      for (Header h : headers) {
        line.append(comma).append("{\"key\":\"").append(h.key()).append("\",\"value\":\"").append(Base64.getEncoder().encodeToString(h.value())).append("\"}");
        comma = ",";
      }
      System.out.println(line.append("]}"));
    }
  }
}
