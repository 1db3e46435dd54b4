"""Runs the DAG of the example and those of cases.py with the Airflow that runs this file, and prints what came of them.

Needs AIRFLOW_HOME with a database in which the DAGs are serialized, GSCD_EXAMPLE_PROGRAM,
_TABLE and _SLICES, and the folders of the package and of the DAGs in PYTHONPATH. The last
line is JSON.
"""

import datetime
import inspect
import json
import subprocess
import threading
import time

import airflow

if airflow.__version__.startswith("2."):
    import airflow.providers.fab.auth_manager.models  # noqa: F401  tables that those of Airflow refer to

import cases
import user_dim


def run(dag, day: int) -> dict:
    """Runs a DAG for a day; the state of the run and of its tasks."""
    names = inspect.signature(dag.test).parameters
    when = datetime.datetime(2022, 7, day, tzinfo=datetime.timezone.utc)
    began = time.monotonic()
    dag_run = dag.test(**{"logical_date" if "logical_date" in names else "execution_date": when})
    tasks = {ti.task_id: str(getattr(ti.state, "value", ti.state)) for ti in dag_run.get_task_instances()}
    return {"state": str(getattr(dag_run.state, "value", dag_run.state)), "tasks": tasks, "seconds": round(time.monotonic() - began, 1)}


def later(seconds: float, *args: str) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: subprocess.run([user_dim.gscd, *args], check=True, capture_output=True))
    timer.start()
    return timer


def main() -> None:
    out = {"airflow": airflow.__version__}
    out["first"] = run(user_dim.dag, 16)
    out["second"] = run(user_dim.dag, 17)
    # The day of the 18th is loaded while the triggerer waits for it.
    loading = later(6, "load", "--snapshot=2022-07-18", f"--table={user_dim.table}", f"{user_dim.slices}/2022-07-17.csv")
    out["deferred"] = run(cases.deferred, 18)
    loading.join()
    for name, day in {"unsealed": 25, "before": 2, "refused": 19, "flag": 19, "unknown": 19}.items():
        out[name] = run(getattr(cases, name), day)
    print("\n" + json.dumps(out))


if __name__ == "__main__":
    main()
