"""Removes the files of a transaction that has lost its backend, and so cannot know whether its COMMIT succeeded.

It waits until the backend has left the catalog; then the catalog tells what was published.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from catalog.postgres.backends import BackendId
    from gateway.node.gateway_context import GatewayContext

_LOG: Final = logging.getLogger("sluice.transaction")
_ATTEMPTS: Final = 60
_AGAIN_SECONDS: Final = 1.0


async def remove_unresolved(gateway: GatewayContext, written: Collection[str], backend: BackendId) -> None:
    """Remove the transaction's written files, except those that it has published."""
    for _ in range(_ATTEMPTS):
        if await gateway.store.is_gone(backend):
            await gateway.engine.remove(set(written) - await gateway.store.published(written))
            return
        await asyncio.sleep(_AGAIN_SECONDS)
    _LOG.error("the files of a lost backend are left until the gateway's end")
