"""A suite's files: the source distribution of the installed version, by pip, kept in the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.suites.catalogue import Suite


def cache_folder() -> Path:
    """Where distributions stay between runs; never the checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice-suites"


def bring(suite: Suite) -> tuple[Path, str]:
    """The folder with the suite's files, and the version that it is of."""
    installed = version(suite.package)
    folder = cache_folder() / f"{suite.package}-{installed}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _unpack(_download(f"{suite.package}=={installed}", Path(made)), suite, Path(made) / "suite")
            (Path(made) / "suite").rename(folder)
    return folder, installed


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
