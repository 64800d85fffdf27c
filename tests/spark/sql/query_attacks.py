"""Texts of a query that are more or less than one query, or run a shell command.

``{canary}`` is a file that a shell command makes, ``{table}`` a table that must stay as it is.
"""

from __future__ import annotations

_MAP = "FROM VALUES (5) AS v(x) MAP x USING 'touch {canary}' AS (k BIGINT)"

# What is no query, or not one.
STATEMENTS: dict[str, str] = {
    "a table dropped": "DROP TABLE {table}",
    "a table dropped behind a comment": "/* SELECT */ DROP TABLE {table}",
    "rows inserted": "INSERT INTO {table} SELECT 1, 'a', 1",
    "rows inserted behind WITH": "WITH c AS (SELECT 1, 'a', 1) INSERT INTO {table} SELECT * FROM c",
    "rows inserted behind FROM": "FROM source INSERT INTO {table} SELECT 1, 'a', 1",
    "rows inserted twice": "FROM source INSERT INTO {table} SELECT 1, 'a', 1 INSERT INTO {table} SELECT 2, 'a', 1",
    "rows overwritten": "INSERT OVERWRITE {table} SELECT 1, 'a', 1",
    "rows deleted": "DELETE FROM {table}",
    "rows updated": "UPDATE {table} SET id = 1",
    "rows merged": "MERGE INTO {table} t USING source s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "files written": "INSERT OVERWRITE DIRECTORY '{canary}' USING parquet SELECT 1",
    "a table made": "CREATE TABLE {table}_2 USING iceberg AS SELECT 1 AS id",
    "a view made": "CREATE TEMPORARY VIEW lake_view AS SELECT 1",
    "a function made": "CREATE TEMPORARY FUNCTION lake_function AS 'java.lang.Runtime'",
    "a table altered": "ALTER TABLE {table} DROP COLUMN id",
    "a procedure called": "CALL lake_default.system.expire_snapshots('{table}')",
    "a setting": "SET spark.lake.canary = 1",
    "all settings": "SET",
    "settings put back": "RESET",
    "a variable": "DECLARE lake_other = 1",
    "a jar": "ADD JAR '{canary}'",
    "a cache": "CACHE TABLE {table}",
    "a plan": "EXPLAIN EXTENDED SELECT 1",
    "a list of tables": "SHOW TABLES",
    "a description": "DESCRIBE {table}",
    "a text run as a statement": "EXECUTE IMMEDIATE 'DROP TABLE {table}'",
    "a script": "BEGIN DROP TABLE {table}; SELECT 1; END",
    "a script with a handler": "BEGIN DECLARE x INT DEFAULT 1; SELECT x; END",
    "two statements": "SELECT 1; DROP TABLE {table}",
    "two queries": "SELECT 1; SELECT 2",
    "parentheses closed and opened": "SELECT 1) AS a, (SELECT 2",
    "a parenthesis closed before a comment": "SELECT 1) AS a --",
    "a comment without an end": "SELECT 1 /*",
    "a text without an end": "SELECT 'x",
    "no query": "SELECT * FROM (",
    "an expression": "id = 1",
    "nothing": "-- SELECT 1",
    "brackets without end": "SELECT " + "(" * 4_000 + "1" + ")" * 4_000,
}

# Queries that run a shell command.
SHELL: dict[str, str] = {
    "MAP": _MAP,
    "REDUCE": _MAP.replace("MAP", "REDUCE"),
    "TRANSFORM": "SELECT TRANSFORM(x) USING 'touch {canary}' AS (k BIGINT) FROM VALUES (5) AS v(x)",
    "a subquery": f"SELECT * FROM source WHERE id IN ({_MAP})",
    "a common table expression": f"WITH c AS ({_MAP}) SELECT * FROM c",
    "a union": f"SELECT 1 UNION ALL ({_MAP})",
    "a lateral subquery": f"SELECT * FROM source, LATERAL ({_MAP})",
    "the argument of a function": f"SELECT abs(({_MAP}))",
    "a pipe": f"FROM source |> WHERE id IN ({_MAP})",
    "letters that are others in capitals": _MAP.replace("USING", "u\u017f\u0131ng"),
    "a comment in between": _MAP.replace("USING", "USING /* /* */ ( */ -- '\n"),
    "a raw text": _MAP.replace("'touch {canary}'", "r'touch {canary}'"),
    "a text in double quotes": _MAP.replace("'touch {canary}'", '"touch {canary}"'),
    "row formats": _MAP.replace("USING", "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' USING"),
}

# Queries that only look as if.
TAKEN = [
    "SELECT id, upper(name) AS name FROM source",
    "SELECT 1;",
    "SELECT 1 -- ; DROP TABLE x",
    "WITH c AS (SELECT 1 AS id) SELECT c.* FROM c JOIN source USING (id)",
    "SELECT transform(array(1), x -> x + 1), map('using', 'a'), 'MAP x USING ''touch''' AS `using`",
    "SELECT id FROM source JOIN (SELECT 1 AS id) USING /* 'a' */ (id) WHERE name = 'b'",
    "VALUES (1)",
    "TABLE source",
    "FROM source |> WHERE id = 1",
    "(SELECT 1) UNION (SELECT 2) ORDER BY 1 LIMIT 1",
    "SELECT /*+ BROADCAST(source) */ * FROM source",
]
