"""The archive of Spark's classes: a JVM that maps it starts in half the processor time (Java's class data sharing).

`storage.spark.make_class_archive` makes it. A JVM that does not fit it, or finds none, loads the classes from Spark's
jars.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark


def archive_path() -> Path | None:
    """Return the path of the archive for this Java and this Spark, existing or not; None if Java does not report its
    version."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "/nowhere")
    try:
        release = (java.resolve().parent.parent / "release").read_bytes()
    except OSError:
        return None
    version = hashlib.sha256(pyspark.__version__.encode() + release).hexdigest()[:16]
    return Path(pyspark.__file__).parent / f"classes-{version}.jsa"
