"""Finds the code that CALL and DO execute: its text, its parameters, and whether it may end transactions."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import unsupported
from gateway.backend.arrays import text_array
from gateway.backend.own_statement import Statement
from gateway.session.offload import offloaded
from planner.plpgsql.nodes import Body, Kind, Variable
from planner.plpgsql.opening import ENDING_WORDS, Opened, called
from planner.plpgsql.parser import UnreadableError, read_body
from planner.plpgsql.step import Column, Scope, literal
from planner.syntax.lexer import Kind as TokenKind
from planner.syntax.lexer import quoted, tokens

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# A procedure with SET or SECURITY DEFINER cannot end transactions.
_ENDS: Final = (
    "p.prokind OPERATOR(pg_catalog.=) 'p' AND NOT p.prosecdef AND p.proconfig IS NULL"
    " AND l.lanname OPERATOR(pg_catalog.=) 'plpgsql'"
)
_LANGUAGE: Final = "JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang"
_TYPE: Final = "pg_catalog.format('%I.%I', n.nspname, t.typname)"
_PROCEDURE: Final = f"""
SELECT {_ENDS} AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE'),
    pg_catalog.format('%s', p.oid::pg_catalog.regprocedure), p.proname, p.prosrc,
    pg_catalog.to_json(p.proargnames), pg_catalog.to_json(p.proargmodes), (
        SELECT pg_catalog.json_agg(CASE WHEN t.typtype OPERATOR(pg_catalog.<>) 'p' THEN {_TYPE} END ORDER BY u.n)
        FROM pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::pg_catalog.oid[])) WITH ORDINALITY AS u (o, n)
        JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) u.o
        JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace), (
        SELECT pg_catalog.json_agg(pg_catalog.pg_get_function_arg_default(p.oid, i) ORDER BY i)
        FROM pg_catalog.generate_series(1, 100) AS s (i)
        WHERE i OPERATOR(pg_catalog.<=) pg_catalog.cardinality(
            coalesce(p.proallargtypes, p.proargtypes::pg_catalog.oid[])))
FROM pg_catalog.pg_proc p {_LANGUAGE}
WHERE p.oid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
"""
_MAY_END: Final = f"""
SELECT DISTINCT p.proname FROM pg_catalog.pg_proc p {_LANGUAGE}
WHERE p.proname OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.name[]) AND {_ENDS}
    AND p.oid OPERATOR(pg_catalog.>=) $3::pg_catalog.int8 AND p.prosrc OPERATOR(pg_catalog.~*) $2
"""
_OUTPUTS: Final = frozenset("ob")
# Characters of code whose control flow is read.
_SIZE_MAX: Final = 262_144
# The function whose result is that of CALL, not of a step.
_STARTED: Final = "statement_timestamp"
_BEGAN: Final = Statement("SELECT pg_catalog.extract('epoch', pg_catalog.transaction_timestamp())::pg_catalog.text")
# How PostgreSQL names the code of DO.
_BLOCK: Final = "inline_code_block"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a procedure. `type` is None if it follows the argument's; `default` is an expression."""

    name: str
    mode: str
    type: str | None
    default: str | None

    @property
    def is_output(self) -> bool:
        return self.mode in _OUTPUTS


@dataclass(frozen=True, slots=True)
class Code:
    """Code to be carried out in steps. `signature` names it in contexts of errors, `label` qualifies its parameters."""

    signature: str
    label: str
    body: Body
    opened: Opened

    @property
    def ends(self) -> bool:
        """Whether it ends transactions, or tries to."""
        return self.opened.any or bool(self.opened.forbidden or self.opened.calls_within_changes)


@dataclass(slots=True)
class Given:
    """An argument: a constant as written, or a value of a type."""

    name: str | None
    constant: str | None = None
    value: Column | None = None
    target: str = ""  # the variable that takes an output
    is_variadic: bool = False

    @property
    def prefix(self) -> str:
        """What stands before it in CALL."""
        return f"{quoted(self.name)} => " if self.name else "VARIADIC " if self.is_variadic else ""

    def expression(self, type_: str | None) -> str:
        if self.constant is not None:
            return f"CAST({self.constant} AS {type_})" if type_ is not None else self.constant
        assert self.value is not None
        return f"{literal(self.value.text)}::{self.value.type}"


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure. `code` is None if PostgreSQL has to carry it out, or to refuse it, in one piece."""

    parameters: tuple[Parameter, ...]
    code: Code | None

    def matched(self, given: Sequence[Given]) -> list[tuple[Parameter, Given | None]]:
        """Each parameter with what CALL gives it."""
        by_name = {each.name: each for each in given if each.name is not None}
        positional = [each for each in given if each.name is None]
        return [
            (each, positional[number] if number < len(positional) else by_name.get(each.name))
            for number, each in enumerate(self.parameters)
        ]


async def began(session: SessionContext, words: Container[str]) -> str:
    """The time at which the client's statement began, as SQL takes it, if code of these words may ask for it."""
    if _STARTED not in words:
        return ""
    [answer] = await session.backend.run(_BEGAN)
    return f"pg_catalog.to_timestamp({(answer.rows[0][0] or b'0').decode()})"


async def procedure(session: SessionContext, oid: int, began: str) -> Procedure:
    """The procedure of that OID, as the client may see and execute it. `began` stands for `statement_timestamp()`."""
    [found] = await session.backend.run(Statement(_PROCEDURE, (str(oid),)))
    ends, *described = (str(each or b"null", "utf-8") for each in found.rows[0])
    signature, name, source = described[:3]
    names, modes, types, defaults = (json.loads(each) or [] for each in described[3:])
    parameters = tuple(
        Parameter(
            names[n] if n < len(names) and names[n] else f"${n + 1}",
            modes[n] if modes else "i",
            type_,
            defaults[n] if n < len(defaults) else None,
        )
        for n, type_ in enumerate(types)
    )
    given = [f"{quoted(name)}.{quoted(each.name)}" for each in parameters]
    code = await _code(session, (signature, name), source, began, given) if ends == "t" else None
    return Procedure(parameters, code)


async def code_block(session: SessionContext, text: str, began: str) -> Code | None:
    """The code of DO, whose body is `text`; None if PostgreSQL has to carry it out in one piece."""
    return await _code(session, (_BLOCK, _BLOCK), text, began)


async def statement_code(session: SessionContext, sql: str, began: str, given: Sequence[str]) -> Code | None:
    """The client's own statement as code without a signature; `given` are the values of its parameters."""
    return await _code(session, ("", _BLOCK), f"BEGIN {sql}\n; END", began, given)


async def block_text(session: SessionContext, sql: str) -> str | None:
    """The body in the text of a DO statement; None for another language than PL/pgSQL."""
    body = await offloaded(session, len(sql), _body_of, sql, _standard(session))
    if body is None:
        return None
    [read] = await session.backend.run(Statement(f"SELECT {body}"))
    return str(read.rows[0][0] or b"", "utf-8")


def _body_of(sql: str, standard: bool) -> str | None:
    """The string in a DO statement that is its code, as written."""
    found = list(tokens(sql, standard_strings=standard))
    names = [
        after.text.strip("'").lower()
        for each, after in pairwise(found)
        if each.kind is TokenKind.WORD and each.text == "language"
    ]
    strings = [
        after
        for each, after in pairwise(found)
        if after.kind is TokenKind.STRING and (each.kind is not TokenKind.WORD or each.text != "language")
    ]
    if len(strings) != 1 or any(each != "plpgsql" for each in names):
        return None
    return sql[strings[0].start : strings[0].end]


def _standard(session: SessionContext) -> bool:
    return session.backend.parameters.get("standard_conforming_strings", "on") == "on"


async def _code(
    session: SessionContext,
    names: tuple[str, str],
    source: str,
    began: str,
    given: Sequence[str] = (),
) -> Code | None:
    """`names` are the code's signature and label, `given` stands for `$n`."""
    if len(source) > _SIZE_MAX:
        raise unsupported(f"COMMIT or ROLLBACK in code of more than {_SIZE_MAX} characters")
    standard = _standard(session)
    text = await offloaded(session, len(source), _replaced, source, given, began, standard)
    try:
        body = await offloaded(session, len(text), read_body, text, standard_strings=standard)
    except UnreadableError:
        return None
    procedures = await _ending(session, called(body))
    opened = await offloaded(session, len(text), Opened, body, procedures)
    return Code(*names, body, opened)


async def _ending(session: SessionContext, names: Iterable[str]) -> set[str]:
    """Those of the procedures' names that may stand for one that ends transactions."""
    listed = list(names)
    if not listed:
        return set()
    words = f"[[:<:]]({'|'.join(sorted(ENDING_WORDS))})[[:>:]]"
    [found] = await session.backend.run(Statement(_MAY_END, (text_array(listed), words, str(FIRST_USER_OID))))
    return {str(name or b"", "utf-8") for (name,) in found.rows}


def _replaced(source: str, given: Sequence[str], began: str, standard: bool) -> str:
    """The text with what is `given` in place of `$n`, and with `began` in place of `statement_timestamp()`."""
    if not (given and "$" in source) and _STARTED not in source.lower():
        return source
    found = list(tokens(source, standard_strings=standard))
    parts, place = list[str](), 0
    for number, token in enumerate(found):
        if token.kind is TokenKind.PARAMETER and 0 < int(token.text[1:]) <= len(given):
            start, end, new = token.start, token.end, given[int(token.text[1:]) - 1]
        elif token.text == _STARTED and [each.text for each in found[number + 1 : number + 3]] == ["(", ")"]:
            qualified = [each.text for each in found[max(0, number - 2) : number]] == ["pg_catalog", "."]
            start, end, new = found[number - 2 * qualified].start, found[number + 2].end, began
        else:
            continue
        parts += [source[place:start], new]
        place = end
    return "".join(parts) + source[place:]


def parameter_scope(called: Procedure, label: str, given: Sequence[Given]) -> Scope:
    """The parameters with what CALL gives them."""
    variables, followed = list[Variable](), "pg_catalog.text"
    for parameter, argument in called.matched(given):
        if parameter.type is None and argument is not None and argument.value is not None:
            followed = argument.value.type
    for number, (parameter, argument) in enumerate(called.matched(given)):
        type_, expression = parameter.type or followed, parameter.default
        if parameter.mode == "v" and argument is not None and not argument.is_variadic and argument.name is None:
            expression = f"ARRAY[{', '.join(each.expression(None) for each in given[number:])}]"
        elif argument is not None:
            expression = argument.expression(type_)
        declared = f"{quoted(parameter.name)} {type_}"
        is_given = expression is not None and parameter.mode != "o"
        variables.append(Variable(parameter.name, Kind.VALUE, declared, f":= {expression}" if is_given else ""))
    return Scope(label, variables)
