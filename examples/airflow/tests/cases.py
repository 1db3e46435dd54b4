"""DAGs for the test, beside that of the example: days that come later, never, or are refused."""

import datetime

from gscd_airflow import GscdCheckOperator, GscdLoadOperator, GscdSealedSensor
from user_dim import DAG, gscd, slices, table


def dag_of(name: str) -> DAG:
    return DAG(dag_id=name, schedule=None, start_date=datetime.datetime(2022, 7, 1, tzinfo=datetime.timezone.utc))


with dag_of("deferred") as deferred:
    GscdSealedSensor(task_id="wait", gscd=gscd, table=table, deferrable=True, poke_interval=1, timeout=120)
with dag_of("unsealed") as unsealed:
    GscdSealedSensor(task_id="wait", gscd=gscd, table=table, mode="poke", poke_interval=1, timeout=2)
with dag_of("before") as before:
    GscdSealedSensor(task_id="wait", gscd=gscd, table=table, mode="poke")
with dag_of("refused") as refused:
    GscdLoadOperator(task_id="load", gscd=gscd, table=table, files=f"{slices}/empty.csv")
with dag_of("flag") as flag:  # a name that would be a flag, or a command of a shell
    GscdLoadOperator(task_id="load", gscd=gscd, table=table, files="--accept-deletes=3; touch x")
with dag_of("unknown") as unknown:
    GscdCheckOperator(task_id="check", gscd=gscd, table=table + "/nothing")
