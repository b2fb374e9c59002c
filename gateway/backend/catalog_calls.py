"""Every call of a catalog function that obeys the gateway alone: one function for each, which makes the statement.

The functions are in `catalog/sql`; `docs/security.md` says what each may do. `lasting` ones do something that lasts
until the transaction ends. Arrays in binary form are those of `gateway.values.binary.bigint_array` and `binary_array`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from catalog.version_changes import KeptVersions
from gateway.backend.arrays import nullable_bigints, number_array
from gateway.backend.own_message import of_shadow, own
from gateway.backend.own_statement import Statement
from planner.syntax.table_options import TableLayout

_OID: Final = "$1::bigint::pg_catalog.oid"

# ── the transaction: staging.sql, publish.sql, enlistment.sql, versions.sql ────────────────────────────────

_STAGE: Final = own("SELECT mark_before, mark_after FROM pg_sluice.stage($1::pg_catalog.jsonb)")
_PREPARE_COMMIT: Final = own("SELECT pg_sluice.prepare_commit($1::pg_catalog.jsonb)")
_READY: Final = own("SELECT pg_sluice.ready_to_commit($1::pg_catalog.jsonb, $2::pg_catalog.jsonb)")
_LOCK_CHECKED: Final = own("SELECT pg_sluice.lock_checked($1::pg_catalog.jsonb)")
_HOLD_SCHEMA: Final = own("SELECT table_id, schema_version FROM pg_sluice.hold_schema($1::pg_catalog.oid[])")
_HOLD_STEPS: Final = own("SELECT pg_sluice.hold_steps_since($1::pg_catalog.jsonb, $2::pg_catalog.oid[])")
_CHANGED: Final = own(
    "SELECT relid, changed_snapshot, expired, since"
    " FROM pg_sluice.changed($1::pg_catalog.oid[], $2::bigint[], $3::bigint[])"
)
_UNCOMMITTED: Final = own(
    "SELECT relid, description, mark, change FROM pg_sluice.uncommitted($1::pg_catalog.oid[], $2::bigint[])"
)


def stage(change: str) -> Statement:
    """Stage a `RowChange`, in JSON, at the session's transaction."""
    return Statement(_STAGE, (change,), lasting=True)


def prepare_commit(reads: Any) -> Statement:
    """Ask, just before COMMIT, that what the transaction has read has not changed; 40001 where it has."""
    return Statement(_PREPARE_COMMIT, (json.dumps(reads),))


def ready_to_commit(versions: Mapping[str, int], looked: Any) -> Statement:
    """All that comes before COMMIT, for one in the same round trip; SLU02 where there is something to decide."""
    return Statement(_READY, (json.dumps(versions), json.dumps(looked)))


def lock_checked(looked: Any) -> Statement:
    """Lock the tables of which keys were looked up; the answer says which others have changed since."""
    return Statement(_LOCK_CHECKED, (json.dumps(looked),))


# Formats of three parameters, of which the first is text.
_LAST_BINARY: Final = (0, 1, 1)


def hold_schema(oids: Iterable[int]) -> Statement:
    """Keep the schemas of these tables as they are until the savepoint around it is undone."""
    return Statement(_HOLD_SCHEMA, (number_array(oids),))


def hold_steps_since(versions: Mapping[str, int], checked: Iterable[int]) -> Statement:
    """The schema steps of tables since their versions, which no other transaction adds to before COMMIT."""
    return Statement(_HOLD_STEPS, (json.dumps(versions), number_array(checked)))


def changed(kept: KeptVersions) -> Statement:
    """What became of tables since these versions, as a `ChangedRow` for each."""
    known = map(nullable_bigints, (kept.snapshots, kept.schemas))
    return Statement(_CHANGED, (number_array(kept.versions), *known), (), _LAST_BINARY)


def uncommitted(oids: Iterable[int], marks: Iterable[int]) -> Statement:
    """What the session's own transaction has made of these tables, without the rows of those with these marks."""
    return Statement(_UNCOMMITTED, (number_array(oids), number_array(marks)))


# ── locks: keys.sql, row_locks.sql, table_locks.sql ────────────────────────────────────────────────────────

_CLAIM_KEYS: Final = own(f"SELECT pg_sluice.claim_keys({_OID}, $2::pg_catalog.bytea[])")
_LOCK_ROWS: Final = own(f"SELECT pg_sluice.lock_rows({_OID}, $2::bigint[], $3::bigint[], $4, $5)")
_LOCK_ALL_ROWS: Final = own(f"SELECT pg_sluice.lock_all_rows({_OID}, $2)")
_LOCK_REFERENCED: Final = own(
    f"SELECT pg_sluice.lock_referenced({_OID}, $2::bigint[], $3::bigint[],"
    " $4::bigint::pg_catalog.oid, $5::pg_catalog.bytea[], $6::bigint)"
)
_LOCK_KEYS: Final = own(f"SELECT pg_sluice.lock_keys({_OID}, $2::bigint::pg_catalog.oid, $3::pg_catalog.bytea[])")
_PUT_OWN_ROW_LOCKS: Final = own("SELECT pg_sluice.put_own_row_locks($1::bigint[], $2::bigint[])")
_MOVE_ROW_LOCKS: Final = own("SELECT pg_sluice.move_row_locks($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])")
_MOVED_ROWS: Final = own("SELECT pg_sluice.moved_rows($1::bigint[], $2::bigint[])")
_LOCK_TABLES: Final = own("SELECT pg_sluice.lock_tables($1::pg_catalog.oid[], $2, $3)")
_LOCK_RELATIONS: Final = own("SELECT pg_sluice.lock_relations($1::pg_catalog.oid[], $2, $3)")


def claim_keys(constraint: int, keys: bytes) -> Statement:
    """Claim keys of a constraint until the transaction ends; waits for another that has claimed one."""
    return Statement(_CLAIM_KEYS, (str(constraint), keys), parameter_formats=(0, 1), lasting=True)


def lock_rows(relid: int, places: tuple[bytes, bytes], strength: str, waiting: str) -> Statement:
    """Lock rows, by file numbers and positions; the answer has the ordinals of the locked ones."""
    parameters = (str(relid), *places, strength, waiting)
    return Statement(_LOCK_ROWS, parameters, parameter_formats=(0, 1, 1, 0, 0), result_format=1, lasting=True)


def lock_all_rows(relid: int, waiting: str) -> Statement:
    """Lock the rows of a table as a whole; whether that was so."""
    return Statement(_LOCK_ALL_ROWS, (str(relid), waiting), lasting=True)


def lock_referenced(relid: int, places: tuple[bytes, bytes], constraint: int, keys: bytes, snapshot: int) -> Statement:
    """Keep rows that a foreign key refers to; whether the table has changed since the snapshot."""
    parameters = (str(relid), *places, str(constraint), keys, str(snapshot))
    return Statement(_LOCK_REFERENCED, parameters, parameter_formats=(0, 1, 1, 0, 1, 0), lasting=True)


def lock_keys(relid: int, constraint: int, keys: bytes) -> Statement:
    """Wait for transactions that refer to these keys of a table, and hold further ones off."""
    return Statement(_LOCK_KEYS, (str(relid), str(constraint), keys), parameter_formats=(0, 0, 1), lasting=True)


def put_own_row_locks(places: tuple[bytes, bytes]) -> Statement:
    """Put rows of the transaction's own files where they can be locked."""
    return Statement(_PUT_OWN_ROW_LOCKS, places, parameter_formats=(1, 1), lasting=True)


def move_row_locks(places: tuple[bytes, bytes], new_places: tuple[bytes, bytes]) -> Statement:
    """Rows are at new places; locks on them go along."""
    return Statement(_MOVE_ROW_LOCKS, (*places, *new_places), parameter_formats=(1, 1, 1, 1), lasting=True)


def moved_rows(places: tuple[bytes, bytes]) -> Statement:
    """Where rows are by now: two arrays in one, in binary form."""
    return Statement(_MOVED_ROWS, places, parameter_formats=(1, 1), result_format=1)


def lock_tables(oids: Iterable[int], mode: str, *, nowait: bool) -> Statement:
    """Lock lake tables in a mode of PostgreSQL's."""
    return Statement(_LOCK_TABLES, (number_array(oids), mode, str(nowait)), lasting=True)


def lock_relations(oids: Iterable[int], mode: str, *, nowait: bool, lasting: bool) -> Statement:
    """Lock tables in a mode that no shadow's lock gives."""
    return Statement(_LOCK_RELATIONS, (number_array(oids), mode, str(nowait)), lasting=lasting)


# ── shadows: scans.sql, superuser.sql, obligations.sql ─────────────────────────────────────────────────────

_OPEN_SHADOW: Final = own(f"SELECT pg_sluice.open_shadow({_OID})")
_SET_REPLICATION_ROLE: Final = own("SELECT pg_sluice.set_replication_role($1, $2::pg_catalog.oid[])")
_SET_FILLED: Final = own("SELECT pg_sluice.set_filled($1, $2)")
_PRECEDE_LATE: Final = own("SELECT pg_sluice.precede_late()")
_SEQUENCES_USED: Final = own("SELECT pg_sluice.sequences_used($1::pg_catalog.oid[], $2::pg_catalog.name[], $3)")
_REWIND_SEQUENCES: Final = own("SELECT pg_sluice.rewind_sequences($1::pg_catalog.jsonb)")
_BEGIN_EMPTYING: Final = own(f"SELECT pg_sluice.begin_emptying({_OID})")
_END_EMPTYING: Final = own(f"SELECT pg_sluice.end_emptying({_OID})")
_NOTE_UPDATES: Final = own(f"SELECT pg_sluice.note_updates({_OID})")
_NOTED_UPDATES: Final = own("SELECT * FROM pg_sluice.noted_updates()")
_SUSPEND_EXCLUSIONS: Final = own(f"SELECT pg_sluice.suspend_exclusions({_OID})")
_SUSPEND_UNVALIDATED: Final = own(f"SELECT pg_sluice.suspend_unvalidated({_OID})")
_RESUME_UNVALIDATED: Final = own("SELECT pg_sluice.resume_unvalidated($1::pg_catalog.jsonb)")
_PUT_AS_OWNER: Final = (
    f"SELECT pg_sluice.put_as_owner({_OID}, $2::pg_catalog.text[],"
    " $3::pg_catalog.oid[], $4::integer, $5::pg_catalog.text[])"
)


def put_as_owner(relid: int) -> str:
    """The text that has a table's owner put rows into its shadow: OID, columns, types, count, all values as texts."""
    return own(_PUT_AS_OWNER, relid)


def open_shadow(relid: int) -> Statement:
    """Let the transaction put rows into a shadow."""
    return Statement(_OPEN_SHADOW, (str(relid),))


def set_replication_role(role: str | bytes | None, stilled: Iterable[int] | None = ()) -> Statement:
    """Set session_replication_role for the transaction: triggers of users do not fire in `replica`. Answers the old.
    `stilled` are the tables with triggers that fire in any role, which do not either; None for all, at TRUNCATE.
    """
    return Statement(_SET_REPLICATION_ROLE, (role, None if stilled is None else number_array(stilled)))


def set_filled(*, filled: bool, unchecked: bool = False) -> Statement:
    """Shadows have the lake's rows, or not any more; `unchecked`: the gateway checks references at the end."""
    return Statement(_SET_FILLED, ("true" if filled else "false", "true" if unchecked else "false"))


def precede_late() -> Statement:
    """Before a statement that may queue deferred triggers: queue an event of ours before theirs."""
    return Statement(_PRECEDE_LATE)


def sequences_used(tables: Iterable[int], names: str, *, others: bool) -> Statement:
    """The use of sequences of these tables and names (an array), before an execution that may be undone; that of all
    `others`, if they are few."""
    return Statement(_SEQUENCES_USED, (number_array(tables), names, "true" if others else "false"))


def rewind_sequences(used: str | bytes) -> Statement:
    """Sequences give the numbers again that were taken since that use of them."""
    return Statement(_REWIND_SEQUENCES, (used,))


def empty_shadow(relid: int, process_id: int) -> tuple[Statement, Statement, Statement]:
    """Delete all that is in a shadow, by the backend of that process."""
    deletion = of_shadow(relid, f"DELETE FROM pg_sluice.emptied_{relid}_{process_id}")
    relation = (str(relid),)
    return Statement(_BEGIN_EMPTYING, relation), Statement(deletion), Statement(_END_EMPTYING, relation)


def note_updates(relid: int) -> Statement:
    """Note from now on which row of the shadow comes in place of which."""
    return Statement(_NOTE_UPDATES, (str(relid),))


def noted_updates() -> Statement:
    """What was noted: the row before and after, in binary form."""
    return Statement(_NOTED_UPDATES, result_format=1, bodies_only=True)


def suspend_exclusions(relid: int) -> Statement:
    """Let EXCLUDE constraints not bind rows that come into a shadow, until the savepoint around it is undone."""
    return Statement(_SUSPEND_EXCLUSIONS, (str(relid),))


def suspend_unvalidated(relid: int) -> Statement:
    """Take away CHECKs that are not validated, for rows that exist may break them; answers what brings them back."""
    return Statement(_SUSPEND_UNVALIDATED, (str(relid),))


def resume_unvalidated(suspended: str | bytes | None) -> Statement:
    """The reverse."""
    return Statement(_RESUME_UNVALIDATED, (suspended,))


# ── changes of schemas: ddl.sql, obligations.sql, schema_changes.sql, materialized_views.sql, types.sql ────

_ORDER_CHANGES: Final = own(f"SELECT pg_sluice.order_changes({_OID})")
_ORDER_AT_ONCE: Final = own(f"SELECT pg_sluice.order_at_once({_OID})")
_CONFIRM_AT_ONCE: Final = own(f"SELECT pg_sluice.confirm_at_once({_OID})")
_ELEMENTS: Final = own("SELECT pg_sluice.elements()")
_CONCLUDE: Final = own("SELECT pg_sluice.conclude($1::bigint)")
_OBLIGATIONS: Final = own("SELECT pg_sluice.obligations()")
_COLUMN_OBLIGATIONS: Final = own(f"SELECT pg_sluice.column_obligations({_OID})")
_RECOMPUTE_COLUMNS: Final = own(f"SELECT pg_sluice.recompute_columns({_OID}, $2::pg_catalog.jsonb)")
_FORGET_DEFAULTS: Final = own(f"SELECT pg_sluice.forget_defaults({_OID}, $2::pg_catalog.jsonb)")
_VOUCH: Final = own("SELECT pg_sluice.vouch($1::bigint[])")
_VOUCH_COLUMNS: Final = own(f"SELECT pg_sluice.vouch_columns({_OID})")
_VOUCH_FOR_NO_ROWS: Final = own(f"SELECT pg_sluice.vouch_for_no_rows({_OID})")
_VOUCH_ALL: Final = own("SELECT pg_sluice.vouch_all()")
_CARRY_ARRAYS: Final = own(f"SELECT pg_sluice.carry_arrays({_OID}, $2::pg_catalog.jsonb)")
_TABLES_TO_WRITE_ANEW: Final = own("SELECT pg_sluice.tables_to_write_anew()")
_HOLD_OFF_COMPACTION: Final = own(f"SELECT pg_sluice.hold_off_compaction({_OID})")
_EXPLAINED: Final = own("SELECT pg_sluice.explained($1::bigint)")
_EXPLAINED_STEPS: Final = own("SELECT pg_sluice.explained_steps($1::pg_catalog.jsonb)")
_POPULATE: Final = own(f"SELECT pg_sluice.populate({_OID}, $2)")
_SET_SORT_KEY: Final = own(f"SELECT pg_sluice.set_sort_key({_OID}, $2::pg_catalog.jsonb)")
_SET_PARTITION_KEY: Final = own(f"SELECT pg_sluice.set_partition_key({_OID}, $2::pg_catalog.jsonb)")
_MAKE_QUERY: Final = own(
    f"SELECT query, query::pg_catalog.oid::pg_catalog.regclass, owner FROM pg_sluice.make_query({_OID})"
)
_CHECK_AS_OWNER: Final = f"SELECT pg_sluice.check_as_owner({_OID})"
_MAKE_TWIN: Final = f"SELECT pg_sluice.make_twin({_OID})"


def order_changes(relid: int) -> Statement:
    """Be the one that changes the schema of the table, once others have done so."""
    return Statement(_ORDER_CHANGES, (str(relid),))


def order_at_once(relid: int) -> Statement:
    """The same without waiting, before a statement that is committed in the same message; SLU02 if others do."""
    return Statement(_ORDER_AT_ONCE, (str(relid),))


def confirm_at_once(relid: int) -> Statement:
    """After that statement: it has changed this table, and demands nothing of rows; else SLU02."""
    return Statement(_CONFIRM_AT_ONCE, (str(relid),))


def elements() -> Statement:
    """The elements that the transaction's change would add or remove in states."""
    return Statement(_ELEMENTS)


def conclude(change: int) -> Statement:
    """A change that took states is done."""
    return Statement(_CONCLUDE, (str(change),))


def obligations() -> Statement:
    """What existing rows must keep, after the transaction's changes of schemas."""
    return Statement(_OBLIGATIONS)


def column_obligations(relid: int) -> Statement:
    """Which columns lack values in existing rows, and what PostgreSQL knows of them."""
    return Statement(_COLUMN_OBLIGATIONS, (str(relid),))


def recompute_columns(relid: int, names: Iterable[str]) -> Statement:
    """These columns get other values though their type stays."""
    return Statement(_RECOMPUTE_COLUMNS, (str(relid), json.dumps(list(names))))


def forget_defaults(relid: int, names: Mapping[str, bool]) -> Statement:
    """Rows have NULL in these new columns, whose default came later; whether each came with another default."""
    return Statement(_FORGET_DEFAULTS, (str(relid), json.dumps(dict(names))))


def vouch(obligations: str) -> Statement:
    """Existing rows keep these obligations, given as an array of numbers."""
    return Statement(_VOUCH, (obligations,))


def vouch_columns(relid: int) -> Statement:
    """Existing rows have values in all columns of the table."""
    return Statement(_VOUCH_COLUMNS, (str(relid),))


def vouch_for_no_rows(relid: int) -> Statement:
    """The table has no rows that could lack values."""
    return Statement(_VOUCH_FOR_NO_ROWS, (str(relid),))


def vouch_all() -> Statement:
    """All obligations of the window that was opened anew are kept already."""
    return Statement(_VOUCH_ALL)


def carry_arrays(relid: int, names: Any) -> Statement:
    """These columns are carried as PostgreSQL's texts from now on."""
    return Statement(_CARRY_ARRAYS, (str(relid), json.dumps(names)))


def tables_to_write_anew() -> Statement:
    """The tables of whose columns the transaction's change of a type makes other texts."""
    return Statement(_TABLES_TO_WRITE_ANEW)


def hold_off_compaction(relid: int) -> Statement:
    """No compaction of the table commits before the transaction ends."""
    return Statement(_HOLD_OFF_COMPACTION, (str(relid),))


def explained(mark: int) -> Statement:
    """What EXPLAIN tells of the change that was just carried out."""
    return Statement(_EXPLAINED, (str(mark),))


def explained_steps(shapes: Any) -> Statement:
    """The schema steps between the shapes of tables and what they are now."""
    return Statement(_EXPLAINED_STEPS, (json.dumps(shapes),))


def populate(relid: int, *, populated: bool) -> Statement:
    """A materialized view has rows, or has none that may be read."""
    return Statement(_POPULATE, (str(relid), str(populated)), lasting=True)


def set_layout(relid: int, layout: TableLayout, *, lasting: bool) -> list[Statement]:
    """Set the sort key and the partition key of a table that the transaction has just changed or made, where the layout
    tells them; 42703 for an unknown column."""
    statements = []
    if layout.sort_by is not None:
        sorted_by = [[column.name, column.descending, column.nulls_first] for column in layout.sort_by]
        statements.append(Statement(_SET_SORT_KEY, (str(relid), json.dumps(sorted_by)), lasting=lasting))
    if layout.partition_by is not None:
        divided_by = [[column.name, column.transform] for column in layout.partition_by]
        statements.append(Statement(_SET_PARTITION_KEY, (str(relid), json.dumps(divided_by)), lasting=lasting))
    return statements


def make_query(relid: int) -> Statement:
    """A view of a materialized view's query; its OID, name and owner."""
    return Statement(_MAKE_QUERY, (str(relid),))


def check_as_owner(query: int) -> Statement:
    """Whether the owner may read what the query of `make_query` reads; 42501 where not."""
    return Statement(own(_CHECK_AS_OWNER, query), (str(query),))


def make_twin(relid: int) -> Statement:
    """Carry a materialized view's query out as its owner; the OID of the table that has the rows."""
    return Statement(own(_MAKE_TWIN, relid), (str(relid),))
