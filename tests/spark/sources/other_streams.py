"""Tasks that load change streams of other tools than Debezium, as the page on them shows them."""

from __future__ import annotations

# [START dms]
from airflow_lake_provider import Files, KafkaTopic, Query
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

load = LakeUpsertOperator(
    task_id="load",
    table="shop.orders",
    source=Files("s3a://dms/shop/orders/LOAD*.parquet", name="load"),
    keys=["id"],
)
changes = LakeUpsertOperator(
    task_id="changes",
    table="shop.orders",
    source=Files("s3a://dms/shop/orders/20*.parquet", name="changes"),
    keys=["id"],
    delete_when="Op = 'D'",
    schema_contract={"exclude_columns": ["Op"]},
)
# [END dms]

# [START maxwell]
maxwell = LakeUpsertOperator(
    task_id="orders",
    table="shop.orders",
    source=Query(
        """
        WITH events AS (
            SELECT *,
                CAST(regexp_extract(position, '([0-9]+):', 1) AS BIGINT) AS log_file,
                CAST(regexp_extract(position, '([0-9]+)$', 1) AS BIGINT) AS log_offset,
                coalesce(xoffset, 9223372036854775807) AS place
            FROM source
            WHERE database = 'shop' AND `table` = 'orders'
              AND type IN ('insert', 'update', 'delete', 'bootstrap-insert')
        )
        SELECT data.*, IF(type = 'delete', 'delete', 'upsert') AS _change_type,
            log_file, log_offset, place, 1 AS step
        FROM events
        UNION ALL
        SELECT old.id, NULL, NULL, 'delete', log_file, log_offset, place, 0
        FROM events WHERE type = 'update' AND old.id IS NOT NULL
        """,
        over=Files(
            "s3a://in/maxwell/*.json",
            schema="""
                database STRING, `table` STRING, type STRING, position STRING, xoffset BIGINT,
                data STRUCT<id: BIGINT, state: STRING, total: DECIMAL(12,2)>, old STRUCT<id: BIGINT>
            """,
        ),
    ),
    keys=["id"],
    order_by=["log_file", "log_offset", "place", "step"],
    schema_contract={"exclude_columns": ["log_file", "log_offset", "place", "step"]},
)
# [END maxwell]

# [START canal]
canal = LakeUpsertOperator(
    task_id="orders",
    table="shop.orders",
    source=Query(
        """
        WITH events AS (
            SELECT e.place, e.row, get(s.old, e.place) AS old, s.type, s.kafka_offset
            FROM source s LATERAL VIEW posexplode(s.data) e AS place, row
            WHERE s.database = 'shop' AND s.`table` = 'orders' AND s.type IN ('INSERT', 'UPDATE', 'DELETE')
        )
        SELECT CAST(row.id AS BIGINT) AS id, row.state, CAST(row.total AS DECIMAL(12,2)) AS total,
            IF(type = 'DELETE', 'delete', 'upsert') AS _change_type, kafka_offset, place, 1 AS step
        FROM events
        UNION ALL
        SELECT CAST(old.id AS BIGINT), NULL, NULL, 'delete', kafka_offset, place, 0
        FROM events WHERE type = 'UPDATE' AND old.id IS NOT NULL
        """,
        over=KafkaTopic(
            "kafka_shop",
            "orders",
            schema="""
                database STRING, `table` STRING, type STRING,
                data ARRAY<STRUCT<id: STRING, state: STRING, total: STRING>>, old ARRAY<STRUCT<id: STRING>>
            """,
            metadata_columns=["offset"],
        ),
    ),
    keys=["id"],
    order_by=["kafka_offset", "place", "step"],
    schema_contract={"exclude_columns": ["kafka_offset", "place", "step"]},
)
# [END canal]

# [START change_feed]
CHANGE_FEED = """
    SELECT id, state, total, IF(_change_type = 'delete', 'delete', 'upsert') AS _change_type,
        _commit_version, IF(_change_type = 'delete', 0, 1) AS step
    FROM source WHERE _change_type <> 'update_preimage'
"""
# [END change_feed]

# [START golden_gate]
GOLDEN_GATE = """
    SELECT coalesce(after.id, before.id) AS id, after.state, after.total, pos,
        IF(op_type = 'D', 'delete', 'upsert') AS _change_type
    FROM source WHERE `table` = 'SHOP.ORDERS'
"""
# [END golden_gate]

# [START wal2json]
WAL2JSON = """
    WITH changes AS (
        SELECT *, map_from_entries(transform(coalesce(columns, identity), c -> (c.name, c.value))) AS c,
            conv(split(lsn, '/')[0], 16, 10) * 4294967296 + conv(split(lsn, '/')[1], 16, 10) AS log_place
        FROM source WHERE schema = 'public' AND `table` = 'orders'
    ),
    rows AS (
        SELECT action, c, log_place, 1 AS step FROM changes
        UNION ALL
        SELECT 'D', map_from_entries(transform(identity, i -> (i.name, i.value))), log_place, 0
        FROM changes WHERE action = 'U'
    )
    SELECT CAST(c['id'] AS BIGINT) AS id, c['state'] AS state, CAST(c['total'] AS DECIMAL(12,2)) AS total,
        IF(action = 'D', 'delete', 'upsert') AS _change_type, CAST(log_place AS BIGINT) AS log_place, step
    FROM rows WHERE action IN ('I', 'U', 'D')
"""
# [END wal2json]
