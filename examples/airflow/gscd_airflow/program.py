"""How gscd is called: a list of arguments, no shell, and what its exit codes mean."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gscd_airflow.compat import AirflowException, AirflowFailException

# The exit codes that gscd documents.
DONE, FAILED, USAGE, NO = 0, 1, 2, 3

# How much of standard error a message shows, in characters: the end says why.
SHOWN = 2000


@dataclass(frozen=True)
class Answer:
    """What a run of gscd left."""

    code: int
    stdout: str
    stderr: str

    def failure(self, what: str) -> Exception:
        """The exception for a run that failed. Wrong usage and refusals don't get better by trying again."""
        message = f"gscd {what}: exit {self.code}: {self.stderr.strip()[-SHOWN:]}"
        return AirflowFailException(message) if self.code in (USAGE, NO) else AirflowException(message)


class Program:
    """One call of gscd at a time. What it says on standard error goes to the log of the task."""

    def __init__(self, log, path: str = "gscd", env: Mapping[str, str] | None = None):
        self.log, self.path, self.env = log, path, env
        self.process: subprocess.Popen[str] | None = None

    def run(self, args: Sequence[str]) -> Answer:
        self.log.info("run %s", [self.path, *args])
        self.process = subprocess.Popen(
            [self.path, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(self.env or {})},
        )
        said: list[str] = []

        def listen() -> None:
            for line in self.process.stderr:
                said.append(line)
                self.log.info("%s", line.rstrip("\n"))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        stdout = self.process.stdout.read()
        code = self.process.wait()
        listener.join()
        return Answer(code, stdout, "".join(said))

    def stop(self) -> None:
        """Ends the run at a commit boundary, as Ctrl-C does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def table_args(table: str | None, config: str | None) -> list[str]:
    """The flags that say which table. Values go as --flag=value, so that none can be read as a flag."""
    args = []
    if config:
        args.append(f"--config={config}")
    if table:
        args.append(f"--table={table}")
    return args
