"""Django's own tests: the applications that use a database."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from tests.suites.suite import Run, Suite, libpq_settings

_DATABASE: Final = """
    aggregation aggregation_regress annotations backends basic bulk_create composite_pk constraints
    contenttypes_tests custom_columns custom_lookups custom_managers custom_pk datatypes dates datetimes
    db_functions db_typecasts db_utils defer defer_regress delete delete_regress distinct_on_fields empty
    expressions expressions_case expressions_window extra_regress field_defaults filtered_relation fixtures
    fixtures_regress force_insert_update foreign_object from_db_value generic_relations generic_relations_regress
    get_earliest_or_latest get_object_or_404 get_or_create indexes inspectdb introspection known_related_objects
    lookup m2m_and_m2o m2m_intermediary m2m_multiple m2m_recursive m2m_regress m2m_through m2m_through_regress
    m2o_recursive many_to_many many_to_one many_to_one_null max_lengths migrations model_fields model_inheritance
    model_inheritance_regress model_regress mutually_referential nested_foreign_keys null_fk null_fk_ordering
    null_queries one_to_one or_lookups order_with_respect_to ordering prefetch_related queries raw_query
    reverse_lookup schema select_for_update select_related select_related_onetoone select_related_regress
    serializers string_lookup timezones transaction_hooks transactions unmanaged_models update update_only_fields
    xor_lookups
"""
DJANGO_DATABASE: Final = tuple(_DATABASE.split())


def django_settings(url: str) -> Mapping[str, str]:
    """As `django_settings.py` reads them."""
    return {**libpq_settings(url), "DJANGO_SETTINGS_MODULE": "tests.suites.django_settings"}


def django_command(suite: Suite, run: Run) -> list[str]:
    """Django's runtests.py."""
    command = [sys.executable, str(run.folder / "tests" / "runtests.py"), "--keepdb", "--parallel=1", "--noinput"]
    if run.only:
        command += ["-k", run.only]
    return [*command, *suite.tests]
