"""Operators that load a slice as a day, and that check what the days depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gscd_airflow.compat import AirflowFailException, BaseOperator
from gscd_airflow.program import DONE, NO, Program, table_args


class _GscdOperator(BaseOperator):
    """What the operators share: the table, the program, its environment."""

    template_fields: Sequence[str] = ("table", "config", "env")

    def __init__(
        self,
        *,
        table: str | None = None,
        config: str | None = None,
        gscd: str = "gscd",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.table, self.config, self.gscd, self.env = table, config, gscd, dict(env or {})
        self._program: Program | None = None

    def run_gscd(self, args: Sequence[str]):
        self._program = Program(self.log, self.gscd, self.env)
        return self._program.run(args)

    def on_kill(self) -> None:
        if self._program is not None:
            self._program.stop()


class GscdLoadOperator(_GscdOperator):
    """Makes a slice the state of a day, and seals it. Running it again with the same slice changes nothing.

    :param files: the slice: files, a folder, or an address that ``gscd load`` takes
    :param snapshot: the label of the day, ``{{ ds }}`` by default: the data interval's first day
    :param mode: ``full`` (rows that the slice lacks are deleted) or ``upsert``
    :param replace: take the slice in the place of an earlier one of the last day
    :param max_delete_fraction: how much a full slice may take away: ``20%``
    :param accept_deletes: let exactly this number of rows be deleted
    :param key: for a new table without configuration: its key columns
    :param timezone: for a new table without configuration: the zone of its days
    :param extra_args: more flags of ``gscd load``, each as it is: ``["--columns=id=long"]``

    Gives the report of gscd as XCom: label, version, sealed, new, changed, deleted, unchanged.
    """

    template_fields: Sequence[str] = ("files", "snapshot", "extra_args", "accept_deletes", "replace", *_GscdOperator.template_fields)

    def __init__(
        self,
        *,
        files: str | Sequence[str],
        snapshot: str = "{{ ds }}",
        mode: str = "full",
        replace: bool | str = False,
        max_delete_fraction: str | None = None,
        accept_deletes: int | str | None = None,
        key: Sequence[str] | None = None,
        timezone: str | None = None,
        extra_args: Sequence[str] = (),
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.files = [files] if isinstance(files, str) else list(files)
        self.snapshot, self.mode, self.replace = snapshot, mode, replace
        self.max_delete_fraction, self.accept_deletes = max_delete_fraction, accept_deletes
        self.key, self.timezone, self.extra_args = key, timezone, list(extra_args)

    def args(self) -> list[str]:
        if self.mode not in ("full", "upsert"):
            raise AirflowFailException(f"mode {self.mode!r}: use full or upsert")
        args = ["load", f"--snapshot={self.snapshot}", f"--{self.mode}", "--format=jsonl", *table_args(self.table, self.config)]
        if str(self.replace).lower() in ("true", "1", "yes"):
            args.append("--replace")
        if self.max_delete_fraction is not None:
            args.append(f"--max-delete-fraction={self.max_delete_fraction}")
        if self.accept_deletes not in (None, "", "None"):
            args.append(f"--accept-deletes={self.accept_deletes}")
        if self.key:
            args.append("--key=" + ",".join(self.key))
        if self.timezone:
            args.append(f"--timezone={self.timezone}")
        return [*args, *self.extra_args, "--", *self.files]

    def execute(self, context: Any) -> dict[str, Any]:
        answer = self.run_gscd(self.args())
        if answer.code != DONE:
            raise answer.failure("load")
        return json.loads(answer.stdout.splitlines()[-1])


class GscdCheckOperator(_GscdOperator):
    """Looks whether all that the days depend on is there: ``gscd check``. Fails, without another try, where a fault is left.

    :param deep: read every row too
    :param repair: put right what can be put right
    """

    def __init__(self, *, deep: bool = False, repair: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.deep, self.repair = deep, repair

    def args(self) -> list[str]:
        args = ["check", "--format=jsonl", *table_args(self.table, self.config)]
        return args + ["--deep"] * self.deep + ["--repair"] * self.repair

    def execute(self, context: Any) -> list[dict[str, Any]]:
        answer = self.run_gscd(self.args())
        faults = [json.loads(line) for line in answer.stdout.splitlines() if line.strip()]
        if answer.code == NO:
            told = "; ".join(f"{f['label'] or f['file'] or f['check']}: {f['message']}" for f in faults[:10])
            raise AirflowFailException(f"gscd check found {len(faults)} faults: {told}")
        if answer.code != DONE:
            raise answer.failure("check")
        return faults
