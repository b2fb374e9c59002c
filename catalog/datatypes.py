"""PostgreSQL's types and the lake form of each: one row per type.

A *lake form* is the form of a column in DuckLake, in Parquet and in Spark. It keeps all of the PostgreSQL value and its
order. Sources: `pg_type.dat` for OIDs, DuckLake specification 1.0, "Data Types", for the names of column types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from catalog.errors import unsupported


@dataclass(frozen=True, slots=True)
class DataType:
    """A scalar PostgreSQL type. `length` is pg_type.typlen (-1 for variable)."""

    oid: int
    name: str
    sql_name: str
    array_oid: int
    length: int
    ducklake: str
    spark: str


@dataclass(frozen=True, slots=True)
class LakeForm:
    """The stored form of a column: DuckLake's type name, Spark's type, and the nested fields.

    `children` holds (name, form) of a list's `element` or a struct's fields; empty for scalars.
    """

    ducklake: str
    spark: str
    children: tuple[tuple[str, LakeForm], ...] = ()

    @property
    def field_count(self) -> int:
        """The number of DuckLake columns (field IDs) that the form takes, itself included."""
        return 1 + sum(child.field_count for _, child in self.children)


BOOL: Final = 16
BYTEA: Final = 17
# Of the session's values alone (current_user …), which Spark has as texts: columns of this type are carried.
NAME: Final = 19
INT8: Final = 20
INT2: Final = 21
INT4: Final = 23
TEXT: Final = 25
OID: Final = 26
TID: Final = 27
JSON: Final = 114
FLOAT4: Final = 700
FLOAT8: Final = 701
UNKNOWN: Final = 705
BPCHAR: Final = 1042
VARCHAR: Final = 1043
DATE: Final = 1082
TIME: Final = 1083
TIMESTAMP: Final = 1114
TIMESTAMPTZ: Final = 1184
INTERVAL: Final = 1186
NUMERIC: Final = 1700
RECORD: Final = 2249
UUID: Final = 2950
ANYENUM: Final = 3500
JSONB: Final = 3802
# "any" stands for every carried type: files hold PostgreSQL's text of the value, and PostgreSQL alone computes with it.
CARRIED: Final = 2276
# A carried type whose equal values have equal texts has this typmod.
EQUAL_TEXTS: Final = 1
# A carried type whose equal values have equal texts, but for zeros at the end of numbers, has this typmod.
EQUAL_NUMBERS: Final = 2
# A carried type has this typmod if its input checks domains inside, which runs code of their owners.
CHECKED_TEXTS: Final = -2

# OIDs from here on belong to objects that users have created (access/transam.h: FirstNormalObjectId).
FIRST_USER_OID: Final = 16384

# The form of numeric depends on its typmod (see `lake_form`); that of interval is a struct. Here are the names alone.
DATATYPES: Final = (
    DataType(BOOL, "bool", "boolean", 1000, 1, "boolean", "BOOLEAN"),
    DataType(BYTEA, "bytea", "bytea", 1001, -1, "blob", "BINARY"),
    DataType(INT8, "int8", "bigint", 1016, 8, "int64", "BIGINT"),
    DataType(INT2, "int2", "smallint", 1005, 2, "int16", "SMALLINT"),
    DataType(INT4, "int4", "integer", 1007, 4, "int32", "INT"),
    DataType(TEXT, "text", "text", 1009, -1, "varchar", "STRING"),
    DataType(JSON, "json", "json", 199, -1, "json", "STRING"),
    DataType(FLOAT4, "float4", "real", 1021, 4, "float32", "FLOAT"),
    DataType(FLOAT8, "float8", "double precision", 1022, 8, "float64", "DOUBLE"),
    DataType(BPCHAR, "bpchar", "character", 1014, -1, "varchar", "STRING"),
    DataType(VARCHAR, "varchar", "character varying", 1015, -1, "varchar", "STRING"),
    DataType(DATE, "date", "date", 1182, 4, "date", "DATE"),
    DataType(TIME, "time", "time without time zone", 1183, 8, "time", "TIME(6)"),
    DataType(TIMESTAMP, "timestamp", "timestamp without time zone", 1115, 8, "timestamp", "TIMESTAMP_NTZ"),
    DataType(TIMESTAMPTZ, "timestamptz", "timestamp with time zone", 1185, 8, "timestamptz", "TIMESTAMP_LTZ"),
    DataType(INTERVAL, "interval", "interval", 1187, 16, "struct", "STRUCT"),
    DataType(NUMERIC, "numeric", "numeric", 1231, -1, "varchar", "STRING"),
    DataType(UUID, "uuid", "uuid", 2951, 16, "uuid", "STRING"),
    DataType(JSONB, "jsonb", "jsonb", 3807, -1, "json", "STRING"),
)
# The stand-in for every enumeration: their values are the texts of their labels. The lake has no arrays of them.
ENUMERATION: Final = DataType(ANYENUM, "anyenum", "anyenum", 0, 4, "varchar", "STRING")

# The stand-in for all other types, those of extensions and users included (pg_sluice.kept_type). No column has its
# array type, anyarray: an array of such a type is carried as a whole.
CARRIED_TYPE: Final = DataType(CARRIED, "any", "any", 2277, -1, "varchar", "STRING")
# Carried types whose values are equal exactly if their texts are. These, those of `EQUAL_BY_NUMBERS`, and arrays of
# either, may be columns of keys. Of other types, PostgreSQL alone can tell. Of the types in the first two lines, and of
# numeric, the lake carries only arrays, those declared with several dimensions.
EQUAL_BY_TEXT: Final = (
    "boolean", "bytea", "smallint", "integer", "bigint", "date", "time", "timestamp", "timestamptz", "uuid",
    "text", "varchar",
    '"char"', "name", "oid", "xid", "cid", "xid8", "pg_lsn", "money", "bit", "varbit", "timetz", "inet", "cidr",
    "macaddr", "macaddr8", "tsvector", "int4range", "int8range", "daterange", "tsrange", "tstzrange", "int4multirange",
    "int8multirange", "datemultirange", "tsmultirange", "tstzmultirange", "regclass", "regcollation", "regconfig",
    "regdictionary", "regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype",
)  # fmt: skip
# Those whose texts differ besides by the scales of numbers: `[1.0,2)` equals `[1.00,2)`.
EQUAL_BY_NUMBERS: Final = ("numeric", "numrange", "nummultirange")

BY_OID: Final = {row.oid: row for row in DATATYPES}
BY_ARRAY_OID: Final = {row.array_oid: row for row in DATATYPES}
assert len(BY_OID) == len(BY_ARRAY_OID) == len(DATATYPES), "a type is listed twice"

# Decimals of Spark and DuckDB hold at most this many digits.
DECIMAL_DIGITS_MAX: Final = 38

INTERVAL_FORM: Final = LakeForm(
    "struct",
    "STRUCT<months: INT, days: INT, microseconds: BIGINT>",
    (
        ("months", LakeForm("int32", "INT")),
        ("days", LakeForm("int32", "INT")),
        ("microseconds", LakeForm("int64", "BIGINT")),
    ),
)


def numeric_precision_scale(typmod: int) -> tuple[int, int] | None:
    """Return (precision, scale) that a numeric's typmod declares; None for plain `numeric`.

    The scale is an 11-bit two's complement number (`numeric_typmod_scale` in PostgreSQL's numeric.c).
    """
    if typmod < 4:
        return None
    packed = typmod - 4
    return (packed >> 16) & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024


_FORMS_KEPT_MAX: Final = 4096


@lru_cache(_FORMS_KEPT_MAX)
def lake_form(type_oid: int, typmod: int) -> LakeForm:
    """Return the lake form of a column of this type. Raises 0A000 for a type that lake tables cannot hold.

    numeric(p, s) with p ≤ 38 and 0 ≤ s ≤ p is a decimal. Every other numeric is stored as PostgreSQL's text, which
    alone carries any number of digits, the display scale of each value, NaN and the infinities.
    """
    element = BY_ARRAY_OID.get(type_oid)
    if element is not None:
        inner = lake_form(element.oid, typmod)
        return LakeForm("list", f"ARRAY<{inner.spark}>", (("element", inner),))
    if type_oid == INTERVAL:
        return INTERVAL_FORM
    if type_oid == NUMERIC:
        declared = numeric_precision_scale(typmod)
        if declared is not None:
            precision, scale = declared
            if precision <= DECIMAL_DIGITS_MAX and 0 <= scale <= precision:
                return LakeForm(f"decimal({precision},{scale})", f"DECIMAL({precision},{scale})")
        return LakeForm("varchar", "STRING")
    row = ENUMERATION if is_enumeration(type_oid) else BY_OID.get(type_oid)
    if type_oid == CARRIED:
        row = CARRIED_TYPE
    if type_oid == TID:  # of temporary tables' columns alone: those of lake tables are carried
        return LakeForm("int64", "BIGINT")
    if row is None:
        raise unsupported(f"a column of the type with OID {type_oid}")
    return LakeForm(row.ducklake, row.spark)


def element_type(array_oid: int) -> DataType | None:
    """Return the element type if `array_oid` is the OID of an array type that the lake knows."""
    return BY_ARRAY_OID.get(array_oid)


def known_type(type_oid: int) -> int:
    """Return the type by which a column's texts are written: CARRIED for a carried type."""
    return type_oid if type_oid in BY_OID or type_oid in BY_ARRAY_OID else CARRIED


def is_enumeration(type_oid: int) -> bool:
    """Whether the type of a lake column or of a computed value is an enumeration.

    The lake has no other types of users (pg_sluice.column_type); in place of a domain it has the domain's base type.
    """
    return type_oid >= FIRST_USER_OID


def kind_of(type_oid: int) -> int:
    """Return the type under which tables of types list it: anyenum for an enumeration, any other type itself."""
    return ANYENUM if is_enumeration(type_oid) else type_oid
