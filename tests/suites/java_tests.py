"""pgjdbc's tests: compiled from a checkout against the driver's published jar, and run by JUnit's launcher."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.suites.suite import Run, Suite

_REPORTS: Final = Path(__file__).parent / "java" / "Reports.java"
_JARS: Final = (
    "org.hamcrest:hamcrest:2.2",
    "org.junit.jupiter:junit-jupiter-api:5.14.4",
    "org.junit.jupiter:junit-jupiter-params:5.14.4",
    "org.junit.jupiter:junit-jupiter-engine:5.14.4",
    "org.junit.platform:junit-platform-commons:1.14.4",
    "org.junit.platform:junit-platform-engine:1.14.4",
    "org.junit.platform:junit-platform-launcher:1.14.4",
    "org.opentest4j:opentest4j:1.3.0",
    "org.apiguardian:apiguardian-api:1.1.2",
)
_NEEDS_MORE: Final = re.compile(r"webcompere|org\.osgi")  # system-stubs and OSGi: six files
_NULLABLE: Final = """package org.checkerframework.checker.nullness.qual;
import java.lang.annotation.*;
@Target({ElementType.TYPE_USE, ElementType.TYPE_PARAMETER}) public @interface Nullable {}
"""
_PROPERTIES: Final = """test.url.PGHOST={host}
test.url.PGPORT={port}
server={host}
port={port}
secondaryServer1={host}
secondaryPort1=1
secondaryServer2={host}
secondaryPort2=1
test.url.PGDBNAME={database}
database={database}
user={user}
username={user}
password={user}
privilegedUser={user}
privilegedPassword={user}
preparethreshold=5
"""


def pgjdbc_version(source: Path) -> str:
    """Of the checkout, as its build has it."""
    (found,) = re.findall(r"^pgjdbc\.version=(\S+)$", (source / "gradle.properties").read_text(), re.MULTILINE)
    return str(found)


def pgjdbc_folder(source: Path, folder: Path) -> None:
    """`classes`, `jars`, `resources`; `work` is where the tests run, with build.properties beside it."""
    for name in ("classes", "jars", "work"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(source / "pgjdbc/src/test/resources", folder / "resources")
    for root in ("pgjdbc/src/test/java", "testkit/src/main/java"):
        shutil.copytree(source / root, folder / "sources", dirs_exist_ok=True)
    shutil.copy(source / "ssltest.properties", folder)
    annotation = folder / "sources/org/checkerframework/checker/nullness/qual/Nullable.java"
    annotation.parent.mkdir(parents=True)
    annotation.write_text(_NULLABLE)
    for coordinates in (*_JARS, f"org.postgresql:postgresql:{pgjdbc_version(source)}"):
        shutil.copy(_jar(coordinates), folder / "jars")
    files = [path for path in (folder / "sources").rglob("*.java") if not _NEEDS_MORE.search(path.read_text())]
    (folder / "files").write_text("\n".join(str(path) for path in (_REPORTS, *files)))
    javac = ["javac", "-nowarn", "-proc:none", "-cp", f"{folder}/jars/*", "-d", str(folder / "classes")]
    subprocess.run([*javac, f"@{folder / 'files'}"], check=True)


def _jar(coordinates: str) -> Path:
    group, artifact, version = coordinates.split(":")
    folder = Path.home() / ".m2/repository" / group.replace(".", "/") / artifact / version
    path = folder / f"{artifact}-{version}.jar"
    if not path.exists():
        subprocess.run(
            ["mvn", "--quiet", "dependency:get", f"-Dartifact={coordinates}", "-Dtransitive=false"], check=True
        )
    return path


def pgjdbc_command(suite: Suite, run: Run) -> list[str]:
    """`--only` is a part of the classes' names."""
    parts = urlsplit(run.url)
    properties = _PROPERTIES.format(
        host=parts.hostname, port=parts.port, user=parts.username, database=parts.path.strip("/")
    )
    (run.folder / "build.properties").write_text(properties)
    pattern = f".*{re.escape(run.only)}.*" if run.only else ".*Test"
    java = ["java", "-Xmx1g", "-Duser.timezone=UTC", "-Dbuild.properties.relative.path=../"]
    java += ["-cp", "../classes:../resources:../jars/*", "Reports", "../classes", str(run.report), pattern]
    return ["sh", "-c", 'cd work && exec "$0" "$@"', *java, *suite.tests]
