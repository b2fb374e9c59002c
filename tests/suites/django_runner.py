"""Django's runner of tests, with a report in JUnit's form at the path that SUITE_REPORT names."""

from __future__ import annotations

import os
import time
import traceback
import unittest
from types import TracebackType
from typing import Any, Final
from xml.etree import ElementTree

from django.test.runner import DiscoverRunner

_Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class _Report(unittest.TextTestResult):
    """Written again at most once a second, so that a run that is ended has its report as well."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cases: Final = ElementTree.Element("testsuite")
        self._written = 0.0

    def _add(self, test: unittest.TestCase, tag: str | None, text: str = "") -> None:
        kind, _, name = test.id().rpartition(".")
        case = ElementTree.SubElement(self._cases, "testcase", classname=kind, name=name)
        if tag:
            ElementTree.SubElement(case, tag).text = text.encode("ascii", "replace").decode()
        if time.monotonic() > self._written + 1:
            self.write()

    def write(self) -> None:
        """The report so far."""
        ElementTree.ElementTree(self._cases).write(os.environ["SUITE_REPORT"])
        self._written = time.monotonic()

    def stopTestRun(self) -> None:  # noqa: N802  # unittest's name
        super().stopTestRun()
        self.write()

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addSuccess(test)
        self._add(test, None)

    def addFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._add(test, "failure", _text(err))

    def addError(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        super().addError(test, err)
        self._add(test, "error", _text(err))

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: _Error | None
    ) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._add(test, "failure", _text(err))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._add(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._add(test, "skipped", "expected to fail")


def _text(error: _Error) -> str:
    return "".join(traceback.format_exception(*error))[-10_000:]


class ReportingRunner(DiscoverRunner):  # type: ignore[misc]  # Django has no types
    """As Django's, with the report."""

    def get_resultclass(self) -> type[unittest.TextTestResult]:
        return _Report
