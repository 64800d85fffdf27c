package lake.soak;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.FileWriter;
import org.apache.iceberg.io.OutputFileFactory;

/**
 * Commits upserts of keys as a checkpoint of Flink does: rows, a delete by key of each, and a delete by position of
 * those that the same checkpoint has written already. Compiled by Janino, which Spark has: no generics, no lambdas.
 */
public final class FlinkCheckpoint {
  private FlinkCheckpoint() {}

  /** Commit upserts of a table of columns "id" and "n" without partitions; a key whose row goes has isGone. */
  public static void commit(Table table, long[] ids, long[] values, boolean[] isGone, long checkpoint)
      throws IOException {
    Schema keys = table.schema().select(Collections.singletonList("id"));
    int[] fields = new int[] {table.schema().findField("id").fieldId()};
    GenericFileWriterFactory writers =
        new GenericFileWriterFactory.Builder(table)
            .dataFileFormat(FileFormat.PARQUET)
            .dataSchema(table.schema())
            .deleteFileFormat(FileFormat.PARQUET)
            .equalityFieldIds(fields)
            .equalityDeleteRowSchema(keys)
            .build();
    OutputFileFactory files = OutputFileFactory.builderFor(table, 1, checkpoint).format(FileFormat.PARQUET).build();
    EncryptedOutputFile file = files.newOutputFile();
    DataWriter rows = writers.newDataWriter(file, table.spec(), null);
    EqualityDeleteWriter byKey = writers.newEqualityDeleteWriter(files.newOutputFile(), table.spec(), null);
    String path = file.encryptingOutputFile().location();
    HashMap positions = new HashMap();
    ArrayList replaced = new ArrayList();
    long position = 0;
    for (int i = 0; i < ids.length; i++) {
      Long id = Long.valueOf(ids[i]);
      Object earlier = positions.remove(id);
      if (earlier != null) {
        replaced.add(earlier);
      } else {
        GenericRecord key = GenericRecord.create(keys);
        key.setField("id", id);
        byKey.write(key);
      }
      if (!isGone[i]) {
        GenericRecord row = GenericRecord.create(table.schema());
        row.setField("id", id);
        row.setField("n", Long.valueOf(values[i]));
        rows.write(row);
        positions.put(id, Long.valueOf(position));
        position++;
      }
    }
    rows.close();
    byKey.close();
    RowDelta delta = table.newRowDelta();
    if (position > 0) {
      delta.addRows(rows.toDataFile());
    }
    delta.addDeletes(byKey.toDeleteFile());
    if (!replaced.isEmpty()) {
      Collections.sort(replaced);
      PositionDeleteWriter byPosition = writers.newPositionDeleteWriter(files.newOutputFile(), table.spec(), null);
      PositionDelete delete = PositionDelete.create();
      for (int i = 0; i < replaced.size(); i++) {
        ((FileWriter) byPosition).write(delete.set(path, ((Long) replaced.get(i)).longValue()));
      }
      byPosition.close();
      delta.addDeletes(byPosition.toDeleteFile());
    }
    delta.set("flink.job-id", "5f1dd5b8e9a94a0d9c7e6f0a1b2c3d4e");
    delta.set("flink.operator-id", "90bea66de1c231edf33913ecd54406c1");
    delta.set("flink.max-committed-checkpoint-id", String.valueOf(checkpoint));
    delta.commit();
  }
}
