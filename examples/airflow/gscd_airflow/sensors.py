"""A sensor that waits until a day is sealed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from gscd_airflow.compat import BaseSensorOperator
from gscd_airflow.program import DONE, NO, Answer, Program, table_args
from gscd_airflow.triggers import GscdSealedTrigger


def sealed_args(snapshot: str, table: str | None, config: str | None) -> list[str]:
    """Exits 0 for a sealed day and 3 for one that is not, or not any more; reads one row at most."""
    return ["query", f"--as-of={snapshot}", "--sealed", "--limit=1", "--format=jsonl", "--log-level=error", *table_args(table, config)]


class GscdSealedSensor(BaseSensorOperator):
    """Waits for the seal of a day.

    It takes no slot between two looks: the mode is ``reschedule``. With ``deferrable`` the
    triggerer waits. A day before the table's first one, or a label that is none of its
    calendar, never comes: the task fails.

    :param snapshot: the label of the day, ``{{ ds }}`` by default
    """

    template_fields: Sequence[str] = ("snapshot", "table", "config", "env")

    def __init__(
        self,
        *,
        snapshot: str = "{{ ds }}",
        table: str | None = None,
        config: str | None = None,
        gscd: str = "gscd",
        env: Mapping[str, str] | None = None,
        deferrable: bool = False,
        mode: str = "reschedule",
        **kwargs: Any,
    ):
        super().__init__(mode=mode, **kwargs)
        self.snapshot, self.table, self.config, self.gscd, self.env = snapshot, table, config, gscd, dict(env or {})
        self.deferrable = deferrable

    def poke(self, context: Any) -> bool:
        answer = Program(self.log, self.gscd, self.env).run(sealed_args(self.snapshot, self.table, self.config))
        if answer.code not in (DONE, NO):
            raise answer.failure("query --sealed")
        return answer.code == DONE

    def execute(self, context: Any) -> Any:
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self.defer(
                timeout=datetime.timedelta(seconds=self.timeout),
                trigger=GscdSealedTrigger(
                    args=sealed_args(self.snapshot, self.table, self.config), gscd=self.gscd, env=self.env, interval=float(self.poke_interval)
                ),
                method_name="sealed",
            )
        return None

    def sealed(self, context: Any, event: dict[str, Any] | None = None) -> None:
        """Comes back from the trigger."""
        answer = Answer(event["code"], "", event["stderr"])
        if answer.code != DONE:
            raise answer.failure("query --sealed")
