"""Roll one table back to a tag by hand: press Trigger, name table, tag and head, read the report in the task's XCom.

The head is the snapshot that you looked at. If somebody has committed since, the table stays as it is: no commit is
taken away unseen.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_lake_provider.operators.allowed_tables import form_pattern
from airflow_lake_provider.operators.rollback import LakeRollbackOperator

# Patterns of whole names; * stands for anything.
TABLES = ["shop.*", "mart.*"]
# The form refuses other names before there is a run.
TABLE = form_pattern(TABLES)

with DAG(
    dag_id="roll_back_one_table",
    schedule=None,
    params={
        "table": Param("shop.prices", type="string", pattern=TABLE, title="Table", description=", ".join(TABLES)),
        "tag": Param("prices_20260101", type="string", pattern=r"^[A-Za-z][\w.-]*$", title="Back to the tag"),
        "head": Param("0", type="string", pattern=r"^[0-9]{1,19}$", title="Snapshot at which main is now"),
    },
    tags=["lake", "maintenance"],
    doc_md=__doc__,
):
    LakeRollbackOperator(
        task_id="rollback",
        table="{{ params.table }}",
        allowed_tables=TABLES,
        tag="{{ params.tag }}",
        expected_snapshot_id="{{ params.head }}",
    )
