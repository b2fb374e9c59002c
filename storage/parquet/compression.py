"""How the lake's Parquet files are compressed."""

from __future__ import annotations

from typing import Any, Final

_COMPRESSED: Final = {"compression": "zstd", "compression_level": 1}
_PLAIN: Final = {"compression": "none"}
# Compression of fewer bytes takes longer than it saves.
_BYTES_MIN: Final = 4096


def compression(size_bytes: int) -> dict[str, Any]:
    """Return the options of pyarrow's writer for a file whose first rows take so many bytes in memory."""
    return _COMPRESSED if size_bytes >= _BYTES_MIN else _PLAIN
