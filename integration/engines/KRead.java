import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.TableManager;
import io.delta.kernel.data.ArrayValue;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.MapValue;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.*;
import io.delta.kernel.utils.CloseableIterator;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;

/** Delta Kernel's side of the protocol that rows.py describes, without conditions. */
public class KRead {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    Engine engine = DefaultEngine.create(new Configuration());
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode request = JSON.readTree(line);
      ObjectNode reply = JSON.createObjectNode();
      try {
        read(engine, request.get("path").asText(), request.get("version").asLong(), reply);
      } catch (Throwable t) { // the test decides what an engine may refuse
        reply.removeAll();
        reply.put("error", t + (t.getCause() == null ? "" : ": " + t.getCause()));
      }
      out.println(JSON.writeValueAsString(reply));
    }
  }

  private static void read(Engine engine, String path, long version, ObjectNode reply) throws Exception {
    Snapshot snapshot = TableManager.loadSnapshot(path).atVersion(version).build(engine);
    StructType schema = snapshot.getSchema();
    ArrayNode columns = reply.putArray("columns");
    for (StructField f : schema.fields()) {
      columns.addArray().add(f.getName()).add(typeName(f.getDataType()));
    }
    ArrayNode rows = reply.putArray("rows");
    Scan scan = snapshot.getScanBuilder().build();
    Row state = scan.getScanState(engine);
    StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> files = batches.next().getRows()) {
          while (files.hasNext()) {
            readFile(engine, state, physical, files.next(), rows);
          }
        }
      }
    }
  }

  private static void readFile(Engine engine, Row state, StructType physical, Row file, ArrayNode rows) throws Exception {
    CloseableIterator<ColumnarBatch> data = engine.getParquetHandler()
        .readParquetFiles(
            Utils.singletonCloseableIterator(InternalScanFileUtils.getAddFileStatus(file)), physical, Optional.empty())
        .map(r -> r.getData());
    try (CloseableIterator<FilteredColumnarBatch> batches = Scan.transformPhysicalData(engine, state, file, data)) {
      while (batches.hasNext()) {
        FilteredColumnarBatch batch = batches.next();
        ColumnarBatch all = batch.getData();
        Optional<ColumnVector> selected = batch.getSelectionVector();
        for (int r = 0; r < all.getSize(); r++) {
          if (selected.isPresent() && (selected.get().isNullAt(r) || !selected.get().getBoolean(r))) {
            continue;
          }
          ArrayNode row = rows.addArray();
          for (int c = 0; c < all.getSchema().length(); c++) {
            row.add(cell(all.getColumnVector(c), r));
          }
        }
      }
    }
  }

  private static String cell(ColumnVector v, int row) {
    if (v.isNullAt(row)) {
      return null;
    }
    DataType t = v.getDataType();
    if (t instanceof BooleanType) return String.valueOf(v.getBoolean(row));
    if (t instanceof ByteType) return String.valueOf(v.getByte(row));
    if (t instanceof ShortType) return String.valueOf(v.getShort(row));
    if (t instanceof IntegerType || t instanceof DateType) return String.valueOf(v.getInt(row));
    if (t instanceof LongType || t instanceof TimestampType || t instanceof TimestampNTZType) return String.valueOf(v.getLong(row));
    if (t instanceof FloatType) return String.format("%08x", Float.floatToIntBits(v.getFloat(row)));
    if (t instanceof DoubleType) return String.format("%016x", Double.doubleToLongBits(v.getDouble(row)));
    if (t instanceof DecimalType) return v.getDecimal(row).toPlainString();
    if (t instanceof StringType) return v.getString(row);
    if (t instanceof BinaryType) return HexFormat.of().formatHex(v.getBinary(row));
    if (t instanceof StructType || t instanceof ArrayType || t instanceof MapType) return parts(v, row).toString();
    throw new IllegalArgumentException("type " + t);
  }

  private static ArrayNode parts(ColumnVector v, int row) {
    ArrayNode list = JSON.createArrayNode();
    if (v.getDataType() instanceof StructType) {
      for (int i = 0; i < ((StructType) v.getDataType()).length(); i++) {
        list.add(cell(v.getChild(i), row));
      }
    } else if (v.getDataType() instanceof ArrayType) {
      ArrayValue a = v.getArray(row);
      for (int i = 0; i < a.getSize(); i++) {
        list.add(cell(a.getElements(), i));
      }
    } else {
      MapValue m = v.getMap(row);
      TreeMap<String, String> pairs = new TreeMap<>();
      for (int i = 0; i < m.getSize(); i++) {
        pairs.put(cell(m.getKeys(), i), cell(m.getValues(), i));
      }
      pairs.forEach((key, value) -> list.add(key).add(value));
    }
    return list;
  }

  private static String typeName(DataType t) {
    if (t instanceof DecimalType) {
      return "decimal(" + ((DecimalType) t).getPrecision() + "," + ((DecimalType) t).getScale() + ")";
    }
    if (t instanceof StringType) return "string"; // else with its collation
    if (t instanceof ArrayType) return "array<" + typeName(((ArrayType) t).getElementType()) + ">";
    if (t instanceof MapType) return "map<" + typeName(((MapType) t).getKeyType()) + "," + typeName(((MapType) t).getValueType()) + ">";
    if (t instanceof StructType) {
      return ((StructType) t).fields().stream().map(f -> f.getName() + ":" + typeName(f.getDataType())).collect(Collectors.joining(",", "struct<", ">"));
    }
    return t.toString();
  }
}
