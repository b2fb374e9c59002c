"""In no encoding of clients do other bytes become what the gateway's own messages and names are known by.

The gateway searches a client's bytes for these before PostgreSQL converts them.
"""

from __future__ import annotations

import psycopg
import pytest

from gateway.backend.own_message import MARK
from tests.servers import Server

pytestmark = pytest.mark.soak

_ENCODINGS = (
    "EUC_JP", "EUC_CN", "EUC_KR", "EUC_TW", "EUC_JIS_2004", "SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB",
    "SHIFT_JIS_2004", "LATIN1", "LATIN2", "LATIN3", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9",
    "LATIN10", "WIN1250", "WIN1251", "WIN1252", "WIN1253", "WIN1254", "WIN1255", "WIN1256", "WIN1257", "WIN1258",
    "WIN866", "WIN874", "KOI8R", "KOI8U", "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8",
)  # fmt: skip
_SHIFTS = "\x8e\x8f".encode("latin-1")  # before characters of three bytes in EUC
# Characters that are ASCII but stand for another or for several bytes.
_FUNCTION = r"""
CREATE FUNCTION pg_temp.disguised(encoding text, shift bytea) RETURNS TABLE (bytes bytea, became text)
LANGUAGE plpgsql AS $$
DECLARE
    pair bytea;
BEGIN
    FOR high IN 0..255 LOOP
        FOR low IN 0..255 LOOP
            CONTINUE WHEN high = 0 AND low = 0;
            pair := CASE WHEN high > 0 THEN set_byte('\x00', 0, high) ELSE '' END
                || CASE WHEN low > 0 THEN set_byte('\x00', 0, low) ELSE '' END;
            BEGIN
                bytes := shift || pair;
                became := convert_from(bytes, encoding);
                CONTINUE WHEN length(became) <> 1 OR ascii(became) > 127;
                CONTINUE WHEN bytes = convert_to(became, 'UTF8');
                RETURN NEXT;
            EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
END $$
"""


def test_no_other_bytes_become_the_mark(oracle: Server) -> None:
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        connection.execute(_FUNCTION)
        found = {
            (encoding, became)
            for encoding in _ENCODINGS
            for shift in (b"", *(bytes([shift]) for shift in _SHIFTS if encoding.startswith("EUC")))
            for _, became in connection.execute("SELECT * FROM pg_temp.disguised(%s, %s)", [encoding, shift])
        }
    assert found == {("SHIFT_JIS_2004", "\\"), ("SHIFT_JIS_2004", "~")}
    assert not {became for _, became in found} & {*MARK, *"pg_sluice_"}
