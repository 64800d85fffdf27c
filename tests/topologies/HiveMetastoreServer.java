import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/**
 * The Hive metastore among Spark's own jars, on Derby in a folder, and on loopback: its own main class would listen to
 * every address.
 */
public final class HiveMetastoreServer {
  public static void main(String[] arguments) throws Exception {
    PrintStream answer = System.out;
    System.setOut(System.err);
    int port = Integer.parseInt(arguments[0]);
    Path folder = Path.of(arguments[1]);
    System.setProperty("derby.stream.error.file", folder.resolve("derby.log").toString());

    HiveConf configuration = new HiveConf(HiveMetaStore.class);
    configuration.set("javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + folder.resolve("db") + ";create=true");
    configuration.set("javax.jdo.option.ConnectionDriverName", "org.apache.derby.jdbc.EmbeddedDriver");
    configuration.set("datanucleus.schema.autoCreateAll", "true");
    configuration.set("datanucleus.connectionPoolingType", "HikariCP");
    configuration.set("hive.metastore.schema.verification", "false");
    configuration.set("hive.metastore.warehouse.dir", folder.resolve("warehouse").toUri().toString());

    TSetIpAddressProcessor<?> processor =
        new TSetIpAddressProcessor<>(HiveMetaStore.newRetryingHMSHandler("metastore", configuration, false));
    // Tables of locks, which are not made by themselves.
    TxnDbUtil.setConfValues(configuration);
    TxnDbUtil.prepDb(configuration);
    TServerSocket socket = new TServerSocket(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    answer.println("ready");
    new TThreadPoolServer(
            new TThreadPoolServer.Args(socket)
                .processor(processor)
                .transportFactory(new TTransportFactory())
                .protocolFactory(new TBinaryProtocol.Factory()))
        .serve();
  }
}
