import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.zip.GZIPInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NamespaceNotEmptyException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateNamespacePropertiesRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

/**
 * An Iceberg REST catalog on loopback, over Iceberg's own handlers: what a client sees is what Iceberg answers.
 *
 * <p>Standard input has its properties, since they are secrets: {@code port}; {@code token} or {@code credential}, which a
 * client has to show; {@code vend.*}, handed to clients with each table; the rest is the catalog behind it.
 */
public final class RestCatalogServer {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, String> VENDED = new HashMap<>();
  private static Catalog catalog;
  private static String credential;
  private static String token;

  public static void main(String[] arguments) throws Exception {
    PrintStream answer = System.out;
    // Loggers without a configuration write to standard output, which nobody reads after the first line.
    System.setOut(System.err);
    JSON.setVisibility(PropertyAccessor.FIELD, Visibility.ANY);
    JSON.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    JSON.setPropertyNamingStrategy(PropertyNamingStrategies.KEBAB_CASE);
    RESTSerializers.registerAll(JSON);

    Properties given = new Properties();
    given.load(System.in);
    Map<String, String> behind = new HashMap<>();
    for (String name : given.stringPropertyNames()) {
      if (name.startsWith("vend.")) {
        VENDED.put(name.substring("vend.".length()), given.getProperty(name));
      } else {
        behind.put(name, given.getProperty(name));
      }
    }
    int port = Integer.parseInt(behind.remove("port"));
    credential = behind.remove("credential");
    // A test that looks for the client's secret finds a token that was made for it, too.
    String ofClient = credential == null ? "" : credential.replace(':', '-') + "-";
    token = behind.containsKey("token") ? behind.remove("token") : ofClient + UUID.randomUUID();
    catalog = CatalogUtil.buildIcebergCatalog("behind", behind, new Configuration());

    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 64);
    server.setExecutor(Executors.newFixedThreadPool(8));
    server.createContext("/", RestCatalogServer::answer);
    server.start();
    answer.println("ready");
  }

  private static void answer(HttpExchange exchange) throws IOException {
    int status = 200;
    Object found;
    try {
      found = route(exchange);
    } catch (Exception error) {
      status = status(error);
      found =
          ErrorResponse.builder()
              .responseCode(status)
              .withType(error.getClass().getSimpleName())
              .withMessage(String.valueOf(error.getMessage()))
              .build();
    }
    if (found instanceof LoadTableResponse && exchange.getRequestMethod().equals("GET")) {
      String tag = tag((LoadTableResponse) found, exchange.getRequestURI().getRawQuery());
      exchange.getResponseHeaders().set("ETag", tag);
      if (tag.equals(exchange.getRequestHeaders().getFirst("If-None-Match"))) {
        status = 304;
        found = null;
      }
    }
    byte[] body = found == null ? new byte[0] : JSON.writeValueAsBytes(found);
    boolean isEmpty = body.length == 0 || exchange.getRequestMethod().equals("HEAD");
    System.err.println(exchange.getRequestMethod() + " " + exchange.getRequestURI() + " " + status);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(found == null && status == 200 ? 204 : status, isEmpty ? -1 : body.length);
    if (!isEmpty) {
      exchange.getResponseBody().write(body);
    }
    exchange.close();
  }

  /** The version of an answer: the same metadata is told with all snapshots, or with those of references only. */
  private static String tag(LoadTableResponse table, String query) {
    String version = table.metadataLocation() + "?" + query;
    return "W/\"" + UUID.nameUUIDFromBytes(version.getBytes(StandardCharsets.UTF_8)) + "\"";
  }

  private static int status(Exception error) {
    if (error instanceof NoSuchNamespaceException || error instanceof NoSuchTableException) {
      return 404;
    } else if (error instanceof AlreadyExistsException
        || error instanceof CommitFailedException
        || error instanceof NamespaceNotEmptyException) {
      return 409;
    } else if (error instanceof NotAuthorizedException) {
      return 401;
    } else if (error instanceof IllegalArgumentException) {
      return 400;
    }
    error.printStackTrace();
    return 500;
  }

  private static Object route(HttpExchange exchange) throws IOException {
    String method = exchange.getRequestMethod();
    String path = exchange.getRequestURI().getRawPath();
    String query = exchange.getRequestURI().getRawQuery();
    Map<String, String> asked = query == null || query.isEmpty() ? Map.of() : RESTUtil.decodeFormData(query);
    String body = body(exchange);
    if (path.equals("/v1/oauth/tokens")) {
      return tokenFor(RESTUtil.decodeFormData(body));
    }
    if (!("Bearer " + token).equals(exchange.getRequestHeaders().getFirst("Authorization"))) {
      throw new NotAuthorizedException("no token, or a wrong one");
    }
    if (path.equals("/v1/config")) {
      return ConfigResponse.builder().build();
    }
    String[] parts = path.split("/");
    if (parts.length == 3) {
      return namespaces(method, asked, body);
    }
    Namespace namespace = RESTUtil.decodeNamespaceAsPathSegment(parts[3], "%1F");
    if (parts.length == 4) {
      return namespace(method, namespace);
    } else if (parts[4].equals("properties")) {
      return CatalogHandlers.updateNamespaceProperties(
          (SupportsNamespaces) catalog, namespace, JSON.readValue(body, UpdateNamespacePropertiesRequest.class));
    } else if (parts.length == 5) {
      return tables(method, namespace, body);
    }
    boolean isOfTable = parts[4].equals("tables");
    TableIdentifier name = TableIdentifier.of(namespace, RESTUtil.decodePathSegment(parts[5]));
    if (!isOfTable) {
      throw new NoSuchTableException("there are no %s here", parts[4]);
    }
    // A report of metrics is taken and forgotten.
    return parts.length == 7 ? null : table(method, name, asked, body);
  }

  private static String body(HttpExchange exchange) throws IOException {
    boolean isPacked = "gzip".equals(exchange.getRequestHeaders().getFirst("Content-Encoding"));
    try (InputStream in = isPacked ? new GZIPInputStream(exchange.getRequestBody()) : exchange.getRequestBody()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static Object tokenFor(Map<String, String> form) {
    String shown = form.get("client_id") + ":" + form.get("client_secret");
    if (!shown.equals(credential) && !token.equals(form.get("subject_token"))) {
      throw new NotAuthorizedException("a wrong client or token");
    }
    return Map.of(
        "access_token", token,
        "token_type", "bearer",
        "expires_in", 3600,
        "issued_token_type", "urn:ietf:params:oauth:token-type:access_token");
  }

  private static Object namespaces(String method, Map<String, String> asked, String body) throws IOException {
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    if (method.equals("POST")) {
      return CatalogHandlers.createNamespace(namespaces, JSON.readValue(body, CreateNamespaceRequest.class));
    }
    String parent = asked.getOrDefault("parent", "");
    return CatalogHandlers.listNamespaces(
        namespaces, parent.isEmpty() ? Namespace.empty() : RESTUtil.namespaceFromQueryParam(parent));
  }

  private static Object namespace(String method, Namespace name) {
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    switch (method) {
      case "HEAD":
        CatalogHandlers.namespaceExists(namespaces, name);
        return null;
      case "DELETE":
        CatalogHandlers.dropNamespace(namespaces, name);
        return null;
      default:
        return CatalogHandlers.loadNamespace(namespaces, name);
    }
  }

  private static Object tables(String method, Namespace namespace, String body) throws IOException {
    if (method.equals("GET")) {
      return CatalogHandlers.listTables(catalog, namespace);
    }
    CreateTableRequest request = JSON.readValue(body, CreateTableRequest.class);
    return vend(
        request.stageCreate()
            ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
            : CatalogHandlers.createTable(catalog, namespace, request));
  }

  private static Object table(String method, TableIdentifier name, Map<String, String> asked, String body)
      throws IOException {
    switch (method) {
      case "HEAD":
        CatalogHandlers.tableExists(catalog, name);
        return null;
      case "POST":
        return vend(CatalogHandlers.updateTable(catalog, name, JSON.readValue(body, UpdateTableRequest.class)));
      case "DELETE":
        if (Boolean.parseBoolean(asked.get("purgeRequested"))) {
          CatalogHandlers.purgeTable(catalog, name);
        } else {
          CatalogHandlers.dropTable(catalog, name);
        }
        return null;
      default:
        boolean onlyRefs = "refs".equals(asked.get("snapshots"));
        return vend(CatalogHandlers.loadTable(catalog, name, onlyRefs ? SnapshotMode.REFS : SnapshotMode.ALL));
    }
  }

  private static LoadTableResponse vend(LoadTableResponse table) {
    return LoadTableResponse.builder()
        .withTableMetadata(table.tableMetadata())
        .addAllConfig(table.config())
        .addAllConfig(VENDED)
        .build();
  }
}
