"""The settings of the gateway's own sessions at the catalog, which override those of the database and the role.

The owner of the database may set anything for it; that neither stops nor misleads the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# The role of the gateways (catalog/sql/roles.sql): the login role, or one that a superuser becomes.
GATEWAY_ROLE: Final = "sluice_gateway"
# The role of logins that read the lake by its format, without a gateway.
READER_ROLE: Final = "sluice_reader"
# No object of a client shadows a name of PostgreSQL's, and no timeout ends the gateway's statements. Each is a setting
# that the owner of the database may choose for it, and that stops a session, gives a statement another meaning or a
# value another text, or chooses where tables are made. What makes statements slow only is the owner's to choose.
SAFE_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "application_name": "sluice gateway",
        "search_path": "pg_catalog, pg_temp",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "default_transaction_deferrable": "off",
        "statement_timeout": "0",
        "lock_timeout": "0",
        "transaction_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        "idle_session_timeout": "0",
        "jit": "off",
        "role": "none",
        "row_security": "on",
        "restrict_nonsystem_relation_kind": "",
        "local_preload_libraries": "",
        "exit_on_error": "off",
        "client_min_messages": "notice",
        "tcp_user_timeout": "0",
        "default_tablespace": "",
        "temp_tablespaces": "",
        "default_table_access_method": "heap",
        "default_toast_compression": "pglz",
        "array_nulls": "on",
        "quote_all_identifiers": "off",
        "standard_conforming_strings": "on",
        "transform_null_equals": "off",
        "bytea_output": "hex",
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "postgres",
        "TimeZone": "UTC",
        "extra_float_digits": "1",
        "lc_monetary": "C",
        "lc_numeric": "C",
        "lc_time": "C",
        "debug_parallel_query": "off",
        "vacuum_cost_delay": "0",
    }
)
OWN_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({**SAFE_SETTINGS, "role": GATEWAY_ROLE})
