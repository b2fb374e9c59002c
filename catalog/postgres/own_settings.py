"""What the gateway's own sessions at the catalog are set to, whatever is set for the database or the role.

The owner of the database may set what he likes for it: none of that stops or misleads the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# The role that gateways work as (catalog/sql/roles.sql): the one that they log in as, or one that a superuser becomes.
GATEWAY_ROLE: Final = "sluice_gateway"
# The role that those log in as who read the lake by its format, without a gateway.
READER_ROLE: Final = "sluice_reader"
# No object of a client's goes by the name of one of PostgreSQL's, and nothing ends what takes its time.
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
    }
)
OWN_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({**SAFE_SETTINGS, "role": GATEWAY_ROLE})
