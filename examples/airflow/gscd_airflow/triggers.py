"""What waits in the triggerer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from gscd_airflow.compat import BaseTrigger, TriggerEvent
from gscd_airflow.program import NO, SHOWN


class GscdSealedTrigger(BaseTrigger):
    """Asks gscd again and again until the answer is another one than "not yet"."""

    def __init__(self, args: list[str], gscd: str, env: dict[str, str], interval: float):
        super().__init__()
        self.args, self.gscd, self.env, self.interval = args, gscd, env, interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("gscd_airflow.triggers.GscdSealedTrigger", {"args": self.args, "gscd": self.gscd, "env": self.env, "interval": self.interval})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            process = await asyncio.create_subprocess_exec(
                self.gscd,
                *self.args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **self.env},
            )
            _, stderr = await process.communicate()
            if process.returncode != NO:
                yield TriggerEvent({"code": process.returncode, "stderr": stderr.decode(errors="replace")[-SHOWN:]})
                return
            await asyncio.sleep(self.interval)
