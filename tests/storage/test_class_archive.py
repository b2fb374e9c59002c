"""The archive of Spark's classes exists, and a JVM maps it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from storage.spark.class_archive import archive_path
from storage.spark.engine import SparkEngine


async def test_the_jvm_maps_the_archive(engine: SparkEngine) -> None:
    archive = archive_path()
    assert archive is not None
    assert archive.exists(), "tests/run makes it"
    await engine.start()
    mapped = await asyncio.to_thread(Path(f"/proc/{engine.process_id}/maps").read_text)
    assert str(archive) in mapped
