"""The archive of Spark's classes: a JVM that maps it is ready in half the processor time (Java's class data sharing).

`storage.spark.make_class_archive` makes it. A JVM to which it does not fit, or that finds none, loads the classes from
Spark's jars as ever.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark


def archive_path() -> Path | None:
    """Where the archive for this Java and this Spark is, or would be; None where Java does not say what it is."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "/nowhere")
    try:
        release = (java.resolve().parent.parent / "release").read_bytes()
    except OSError:
        return None
    version = hashlib.sha256(pyspark.__version__.encode() + release).hexdigest()[:16]
    return Path(pyspark.__file__).parent / f"classes-{version}.jsa"
