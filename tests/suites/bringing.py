"""A suite's files: the source distribution of the installed version, by pip, kept in the user's cache folder.

Where no distribution has the tests, a checkout of the project's repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.suites.suite import Suite


def cache_folder() -> Path:
    """Where distributions stay between runs; never the checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice-suites"


def bring(name: str, suite: Suite, source: Path | None) -> tuple[Path, str]:
    """The folder with the suite's files, and the version of the package that they test."""
    if suite.repository:
        if source is None:
            raise SystemExit(f"no distribution has these tests: give a checkout of {suite.repository} by --source")
        of = suite.version(source) if suite.version else version(suite.package)
        return _work_folder(name, suite, source.resolve()), of
    installed = version(suite.package)
    folder = cache_folder() / f"{suite.package}-{installed}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _unpack(_download(f"{suite.package}=={installed}", Path(made)), suite, Path(made) / "suite")
            (Path(made) / "suite").rename(folder)
    return folder, installed


def _work_folder(name: str, suite: Suite, source: Path) -> Path:
    if suite.make_folder is None:
        return source
    folder = cache_folder() / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            suite.make_folder(source, Path(made) / "suite")
            (Path(made) / "suite").rename(folder)
    return folder


def bring_libraries(name: str, suite: Suite) -> Path | None:
    """What the suite's tests import beside what is installed: a folder beside its files, not in the environment."""
    if not suite.libraries:
        return None
    folder = cache_folder() / f"{name}-libraries"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            pip = [sys.executable, "-m", "pip", "--quiet", "install", "--target", f"{made}/libraries"]
            subprocess.run([*pip, *suite.libraries], check=True)
            (Path(made) / "libraries").rename(folder)
    return folder


def _download(requirement: str, folder: Path) -> Path:
    package = requirement.partition("==")[0]
    pip = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-binary", package, "--dest", str(folder), requirement], check=True)
    (archive,) = folder.glob("*.tar.gz")
    return archive


def _unpack(archive: Path, suite: Suite, folder: Path) -> None:
    whole = folder.with_name("whole")
    with tarfile.open(archive) as packed:
        packed.extractall(whole, filter="data")
    (top,) = whole.iterdir()
    folder.mkdir()
    for name in suite.folders:
        shutil.move(top / name, folder / name)
