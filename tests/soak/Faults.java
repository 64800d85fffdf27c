package lake.faults;

import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLNonTransientConnectionException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.apache.iceberg.exceptions.CommitStateUnknownException;

/**
 * Counts calls of the file system below a folder and of a catalog's database, and lets chosen ones fail.
 * Compiled by Janino, which Spark has: no generics, no lambdas.
 */
public final class Faults {
  private static String home = null;
  private static FileSystem before = null;
  private static String kind = "";
  private static int first = 0;
  private static int last = 0;
  private static String how = "";
  private static HashMap calls = new HashMap();
  private static ArrayList raised = new ArrayList();

  private Faults() {}

  /** Count anew, and let the calls of a kind from the first to the last fail. */
  public static synchronized void arm(String ofKind, int from, int to, String inWhichWay) {
    kind = ofKind;
    first = from;
    last = to;
    how = inWhichWay;
    calls = new HashMap();
    raised = new ArrayList();
  }

  /** Let nothing fail any more, and return "kind count" of each kind and "raised what" of each fault, by line. */
  public static synchronized String disarm() {
    StringBuilder text = new StringBuilder();
    Object[] names = calls.keySet().toArray();
    for (int i = 0; i < names.length; i++) {
      text.append(names[i]).append(' ').append(calls.get(names[i])).append('\n');
    }
    for (int i = 0; i < raised.size(); i++) {
      text.append("raised ").append(raised.get(i)).append('\n');
    }
    arm("", 0, 0, "");
    return text.toString();
  }

  static synchronized boolean fails(String ofKind, String what) {
    Object before = calls.get(ofKind);
    int number = before == null ? 1 : ((Integer) before).intValue() + 1;
    calls.put(ofKind, Integer.valueOf(number));
    // A catalog that went away answers no questions either.
    boolean isMeant = kind.equals(ofKind);
    boolean isAway = how.endsWith("away") && raised.size() > 0 && ofKind.equals("ask");
    if ((isMeant && number >= first && number <= last) || isAway) {
      raised.add(what);
      return true;
    }
    return false;
  }

  static boolean counts(Path path) {
    return home != null && path.toUri().getPath().startsWith(home);
  }

  static String way() {
    return how;
  }

  static IOException failure(String what, Path path) {
    return new IOException(what + " of " + path + " failed: Input/output error");
  }

  /** Put the file system and the driver of databases in place; only the folder is counted. */
  public static void install(Configuration configuration, String folder) throws Exception {
    if (before == null) {
      DriverManager.registerDriver(new FaultyDriver());
    }
    before = FileSystem.get(URI.create("file:///"), configuration);
    FaultyFiles files = new FaultyFiles(((LocalFileSystem) before).getRaw());
    files.setConf(configuration);
    files.setWriteChecksum(false);
    put(files, configuration);
    home = folder;
  }

  /** Put the file system back that was there before. */
  public static void leave(Configuration configuration) throws Exception {
    home = null;
    disarm();
    put(before, configuration);
  }

  private static void put(FileSystem files, Configuration configuration) throws Exception {
    Class[] types = new Class[] {URI.class, Configuration.class, FileSystem.class};
    Method put = FileSystem.class.getDeclaredMethod("addFileSystemForTesting", types);
    put.setAccessible(true);
    put.invoke(null, new Object[] {URI.create("file:///"), configuration, files});
  }
}

class FaultyFiles extends LocalFileSystem {
  FaultyFiles(FileSystem raw) {
    super(raw);
  }

  public FSDataInputStream open(Path path, int size) throws IOException {
    if (Faults.counts(path) && Faults.fails("open", path.toString())) {
      throw Faults.failure("opening", path);
    }
    return super.open(path, size);
  }

  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int size, short replication, long block, Progressable progress)
      throws IOException {
    if (!Faults.counts(path)) {
      return super.create(path, permission, overwrite, size, replication, block, progress);
    }
    if (Faults.fails("create", path.toString())) {
      throw Faults.failure("creating", path);
    }
    FSDataOutputStream out = super.create(path, permission, overwrite, size, replication, block, progress);
    return new FaultyStream(out, path);
  }

  public boolean delete(Path path, boolean recursive) throws IOException {
    if (Faults.counts(path) && Faults.fails("delete", path.toString())) {
      throw Faults.failure("deleting", path);
    }
    return super.delete(path, recursive);
  }
}

class FaultyStream extends FSDataOutputStream {
  private final Path path;
  private boolean isClosed = false;

  FaultyStream(FSDataOutputStream out, Path path) throws IOException {
    super(out, null);
    this.path = path;
  }

  public void write(byte[] bytes, int offset, int length) throws IOException {
    if (Faults.fails("write", path.toString())) {
      throw Faults.failure("writing", path);
    }
    super.write(bytes, offset, length);
  }

  public void close() throws IOException {
    boolean isFirst = !isClosed;
    isClosed = true;
    super.close();
    // What was written is there: it was the answer that said otherwise.
    if (isFirst && Faults.fails("close", path.toString())) {
      throw Faults.failure("closing", path);
    }
  }
}

/** Serves jdbc:lakefault:X as jdbc:X. */
class FaultyDriver implements Driver {
  static final String PREFIX = "jdbc:lakefault:";

  public Connection connect(String url, Properties properties) throws SQLException {
    if (!acceptsURL(url)) {
      return null;
    }
    Connection real = DriverManager.getConnection("jdbc:" + url.substring(PREFIX.length()), properties);
    return (Connection) proxy(Connection.class, new FaultyConnection(real));
  }

  static Object proxy(Class type, InvocationHandler handler) {
    return Proxy.newProxyInstance(FaultyDriver.class.getClassLoader(), new Class[] {type}, handler);
  }

  public boolean acceptsURL(String url) {
    return url.startsWith(PREFIX);
  }

  public DriverPropertyInfo[] getPropertyInfo(String url, Properties properties) {
    return new DriverPropertyInfo[0];
  }

  public int getMajorVersion() {
    return 1;
  }

  public int getMinorVersion() {
    return 0;
  }

  public boolean jdbcCompliant() {
    return false;
  }

  public java.util.logging.Logger getParentLogger() {
    return java.util.logging.Logger.getLogger("lake.faults");
  }
}

class Passing implements InvocationHandler {
  protected final Object real;

  Passing(Object real) {
    this.real = real;
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(real, arguments);
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }
}

class FaultyConnection extends Passing {
  FaultyConnection(Connection real) {
    super(real);
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    Object result = super.invoke(proxy, method, arguments);
    if (method.getName().equals("prepareStatement") && ((String) arguments[0]).indexOf("iceberg_tables") >= 0) {
      return FaultyDriver.proxy(PreparedStatement.class, new FaultyStatement(result));
    }
    return result;
  }
}

class FaultyStatement extends Passing {
  FaultyStatement(Object real) {
    super(real);
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    String name = method.getName();
    if (name.equals("executeQuery") && Faults.fails("ask", "a question")) {
      throw lost();
    }
    if (!name.equals("executeUpdate") || !Faults.fails("commit", "the answer to a commit")) {
      return super.invoke(proxy, method, arguments);
    }
    if (Faults.way().startsWith("after")) {
      super.invoke(proxy, method, arguments);
    }
    throw lost();
  }

  private static Exception lost() {
    if (Faults.way().endsWith("unknown")) {
      return new CommitStateUnknownException(new IOException("the connection to the catalog was lost"));
    }
    if (Faults.way().endsWith("again")) {
      // Iceberg's pool of connections sends it again.
      return new SQLNonTransientConnectionException("the connection to the catalog was lost", "08006");
    }
    return new SQLException("the connection to the catalog was lost", "08006");
  }
}
