"""Scripts of several roles, on plain PostgreSQL and through the gateway: rows, errors and notices of every statement.

A line of a script is `role> statement`; the gateway must refuse `role! statement` (0A000), whatever PostgreSQL says.
Each role keeps one session for the whole script, in the script's schema. `admin` is the role of clients that may create
others, `super` the catalog's superuser, past the gateway, and `role2` a second session of the role's. The input of COPY
FROM STDIN stands behind ` <- `. Names of roles begin with the script's, so that scripts do not meet: `%alice` is
`<script>_alice`, and `%%` the script, which is also the name of its schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

import psycopg

from tests.servers import GatewayProcess, Server

_LINE: Final = re.compile(r"^(\w+)([>!]) ", re.MULTILINE)
_ROLE: Final = re.compile(r"%(\w+)")
_DATA: Final = " <- "
_SUPER: Final = "super"
_ADMIN: Final = "admin"
# What a session of another's cannot be asked for, for it waits.
_SECONDS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement of a script: whose session, and what; whether the gateway is to refuse it."""

    session: str
    sql: str
    data: str | None
    refused: bool

    def __str__(self) -> str:
        return f"{self.session}> {self.sql}"


@dataclass(slots=True)
class Side:
    """One of the two servers, and where its superuser goes."""

    server: Server
    super_url: str
    sessions: dict[str, psycopg.Connection] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def open(self, stack: ExitStack, session: str, script: str) -> psycopg.Connection:
        """The session of that name."""
        if session not in self.sessions:
            role = session.rstrip("0123456789")
            known = {_ADMIN: self.server.url, _SUPER: self.super_url}
            url = known.get(role) or replace(self.server, user=f"{script}_{role}").url
            options = f"-csearch_path={script} -clock_timeout={_SECONDS_MAX}s"
            connection = stack.enter_context(psycopg.connect(url, autocommit=True, options=options))
            connection.add_notice_handler(
                lambda notice: self.notices.append(f"{notice.severity}: {notice.message_primary}")
            )
            self.sessions[session] = connection
        return self.sessions[session]


def read_script(script: str, text: str) -> list[Asked]:
    """The statements of a script."""
    parts = _LINE.split(text)[1:]
    asked = []
    for session, mark, statement in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        sql, found, data = _named(script, statement).rstrip().partition(_DATA)
        asked.append(Asked(session, sql, data.encode().decode("unicode_escape") if found else None, mark == "!"))
    return asked


def _named(script: str, text: str) -> str:
    return _ROLE.sub(rf"{script}_\1", text.replace("%%", script))


def _answer(connection: psycopg.Connection, asked: Asked) -> str:
    """Tag and rows, sorted where the statement does not sort them; or the error."""
    try:
        cursor = connection.cursor()
        if asked.data is not None:
            with cursor.copy(asked.sql.encode()) as copy:
                copy.write(asked.data)
            return str(cursor.statusmessage)
        if re.match(r"COPY .* TO STDOUT", asked.sql, re.DOTALL):
            with cursor.copy(asked.sql.encode()) as copy:
                copied = b"".join(copy)
            return str(sorted(copied.splitlines()))
        cursor.execute(asked.sql.encode())
        answers = []
        while True:
            rows = "" if cursor.description is None else str(_sorted(cursor.fetchall(), asked.sql))
            answers.append(f"{cursor.statusmessage} {rows}".strip())
            if not cursor.nextset():
                return "; ".join(answers)
    except psycopg.Error as error:
        said = error.diag
        return f"{error.sqlstate}: {said.message_primary} / {said.message_detail} / {said.message_hint}"


def _sorted(rows: list[tuple[object, ...]], sql: str) -> list[tuple[object, ...]]:
    return rows if "ORDER BY" in sql else sorted(rows, key=repr)


def _carry_out(side: Side, script: str, text: str) -> Iterator[tuple[Asked, str]]:
    asked_for = read_script(script, text)
    own = {asked.session.rstrip("0123456789") for asked in asked_for} - {_ADMIN, _SUPER}
    roles = [f"{script}_{name}" for name in sorted(own | set(_ROLE.findall(text.replace("%%", ""))))]
    named = ", ".join(roles)
    with psycopg.connect(side.super_url, autocommit=True) as superuser:
        superuser.execute("; ".join(f"CREATE ROLE {role} LOGIN" for role in roles).encode())
        superuser.execute(f"GRANT {named} TO sluice WITH ADMIN TRUE".encode())
    with psycopg.connect(side.server.url, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {script}; GRANT USAGE, CREATE ON SCHEMA {script} TO {named}".encode())
    with ExitStack() as stack:
        try:
            for asked in asked_for:
                side.notices.clear()
                answer = _answer(side.open(stack, asked.session, script), asked)
                yield asked, " | ".join([answer, *sorted(side.notices)])  # in which order rows are read is no matter
        finally:
            stack.close()
            side.sessions.clear()
            with psycopg.connect(side.server.url, autocommit=True) as admin:
                admin.execute(f"SET client_min_messages = warning; DROP SCHEMA {script} CASCADE".encode())
                admin.execute(f"DROP OWNED BY {named} CASCADE".encode())
            with psycopg.connect(side.super_url, autocommit=True) as superuser:
                superuser.execute(f"DROP ROLE {named}".encode())


def differences(oracle: Server, gateway: Server, process: GatewayProcess, script: str, text: str) -> list[str]:
    """Statements that the gateway answers in another way than PostgreSQL."""
    theirs = list(_carry_out(Side(oracle, oracle.superuser.url), script, text))
    ours = list(_carry_out(Side(gateway, process.catalog_url), script, text))
    assert theirs
    found = []
    for (asked, expected), (_, answer) in zip(theirs, ours, strict=True):
        if asked.refused and not answer.startswith("0A000"):
            found.append(f"{asked}\n  is not refused: {answer}")
        elif not asked.refused and expected != answer:
            found.append(f"{asked}\n  PostgreSQL: {expected}\n  gateway:    {answer}")
    return found
