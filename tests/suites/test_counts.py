"""The counts of two runs, from their reports."""

from __future__ import annotations

from tests.suites.__main__ import different, summary
from tests.suites.running import outcomes
from tests.suites.suite import Suite

REPORT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="fails"><failure message="no"/></testcase>
<testcase classname="a" name="fails_at_its_end"/>
<testcase classname="a" name="fails_at_its_end"><error message="no"/></testcase>
<testcase classname="a" name="skips"><skipped/></testcase>
<testcase classname="a" name="left_out_1"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_the_worse_of_two_outcomes_counts_and_deselected_tests_do_not() -> None:
    suite = Suite("a", (), (), deselected={"a::left_out": "needs a superuser"})
    assert outcomes(REPORT, suite) == {
        "a::passes": "passed",
        "a::fails": "failed",
        "a::fails_at_its_end": "failed",
        "a::skips": "skipped",
    }


def test_a_test_that_is_missing_or_skipped_on_sluice_is_told() -> None:
    postgres = {"a": "passed", "b": "passed", "c": "passed", "d": "passed", "e": "failed"}
    gateway = {"a": "passed", "b": "failed", "c": "skipped", "e": "failed"}
    assert different(postgres, gateway) == ["b", "c", "d"]
    assert summary({"postgres": postgres, "gateway": gateway}).endswith(
        "Of 4 that pass on PostgreSQL, 1 do on Sluice: 25.00 %"
    )
