"""A slice a night becomes a day of the table: load it, wait for its seal, check.

The folder of the slices and the table come from the environment of the workers:
GSCD_EXAMPLE_SLICES (a file YYYY-MM-DD.csv for each day) and GSCD_EXAMPLE_TABLE.
"""

import datetime
import os

try:
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG

from gscd_airflow import GscdCheckOperator, GscdLoadOperator, GscdSealedSensor

table = os.environ.get("GSCD_EXAMPLE_TABLE", "/data/lake/user_dim")
slices = os.environ.get("GSCD_EXAMPLE_SLICES", "/data/slices")
gscd = os.environ.get("GSCD_EXAMPLE_PROGRAM", "gscd")

with DAG(
    dag_id="gscd_user_dim",
    schedule="@daily",
    start_date=datetime.datetime(2022, 7, 16, tzinfo=datetime.timezone.utc),
    catchup=True,
    max_active_runs=1,  # days follow one another
    default_args={"retries": 2, "retry_delay": datetime.timedelta(minutes=5), "depends_on_past": True},
    tags=["gscd"],
) as dag:
    load = GscdLoadOperator(
        task_id="load",
        gscd=gscd,
        table=table,
        files=slices + "/{{ ds }}.csv",
        snapshot="{{ ds }}",
        key=["id"],
        timezone="Asia/Shanghai",
        extra_args=["--columns=id=long", "--max-delete-fraction=50%"],
    )
    # In another DAG this is all that is needed: it waits for whoever loads or ingests the table.
    wait = GscdSealedSensor(task_id="wait", gscd=gscd, table=table, snapshot="{{ ds }}", poke_interval=60, timeout=6 * 3600)
    check = GscdCheckOperator(task_id="check", gscd=gscd, table=table)
    load >> wait >> check
