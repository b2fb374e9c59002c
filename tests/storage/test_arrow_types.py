"""Field IDs and types of every lake form."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import datatypes
from catalog.datatypes import BY_OID, lake_form
from storage.parquet.arrow_types import arrow_schema, arrow_type, has_list, leaf_types, spark_field
from storage.parquet.statistics import leaf_field_ids
from tests.storage.lake import NUMERIC_10_2, table


@pytest.mark.parametrize("oid", [oid for row in BY_OID.values() for oid in (row.oid, row.array_oid)])
def test_every_type_that_tables_hold_has_an_arrow_type(oid: int) -> None:
    assert arrow_type(lake_form(oid, -1)) is not None


def test_field_ids_follow_the_column_depth_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    of = table(a=datatypes.INT4, i=datatypes.INTERVAL, il=1187, n=NUMERIC_10_2)
    path = tmp_path_factory.mktemp("ids") / "t.parquet"
    pq.write_table(arrow_schema(of).empty_table(), path)
    read = pq.read_schema(path)
    assert [field.metadata[b"PARQUET:field_id"] for field in read] == [b"1", b"2", b"6", b"11"]
    assert leaf_field_ids(read) == (1, 3, 4, 5, 8, 9, 10, 11)
    assert [field_id for column in of.columns for field_id, _ in leaf_types(column)] == list(leaf_field_ids(read))


def test_lists_have_elements_called_element() -> None:
    assert arrow_type(lake_form(1007, -1)) == pa.list_(pa.field("element", pa.int32()))


def test_sparks_schema_carries_the_ids_of_nested_fields() -> None:
    field = spark_field("c1", table(i=datatypes.INTERVAL).columns[0])
    assert field["metadata"] == {"parquet.field.id": 1}
    assert [child["metadata"]["parquet.field.id"] for child in field["type"]["fields"]] == [2, 3, 4]
    assert spark_field("c1", table(n=NUMERIC_10_2).columns[0])["type"] == "decimal(10,2)"


def test_only_lists_have_elements() -> None:
    assert has_list(lake_form(1187, -1))
    assert not has_list(lake_form(datatypes.INTERVAL, -1))
