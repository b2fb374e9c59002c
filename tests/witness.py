"""DuckDB, the independent witness: it reads the lake by the output of `sluice attach`, and knows nothing of Sluice."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import duckdb

from tests.forks import ask_sluice


def extension(name: str) -> Path:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"


class Witness:
    """A DuckDB attached by the statement that `sluice attach` prints."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        printed = ask_sluice("attach", "--data-dir", str(data_dir), *arguments)
        assert printed.returncode == 0, printed.stderr
        assert printed.stdout.startswith("ATTACH ")
        assert printed.stdout.strip().count("\n") == 0, "one statement on one line"
        self._connection = duckdb.connect()
        for name in ("postgres_scanner", "ducklake"):
            self._connection.execute(f"LOAD '{extension(name)}'")
        before = self._databases()
        self._connection.execute(printed.stdout)
        (self.lake,) = {name for name in self._databases() - before if not name.startswith("__")}

    def _databases(self) -> set[str]:
        return {name for (name,) in self._connection.execute("SELECT database_name FROM duckdb_databases()").fetchall()}

    def snapshot(self) -> int:
        """The newest snapshot."""
        (newest,) = self.rows(f"SELECT max(snapshot_id) FROM {self.lake}.snapshots()")
        return int(newest[0])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def table(self, name: str, snapshot: int, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.rows(f"SELECT {columns} FROM {self.lake}.{name} AT (VERSION => {snapshot}) ORDER BY 1, 2")

    def close(self) -> None:
        self._connection.close()
