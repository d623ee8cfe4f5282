"""Keys of the gateway: who may make them, and for which roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT

KEYS = "select name, role, salt from pgqueue.gateway_keys()"
CREATE = "select pgqueue.create_gateway_key(%s, %s)"


@pytest.fixture
def administrator(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """One of pgqueue, in a transaction that takes its roles away again."""
    with psycopg.connect(database.dsn) as connection:
        connection.execute("create role key_admin; create role key_shop; create role key_stranger")
        connection.execute("grant key_shop to key_admin; select pgqueue.grant_admin('key_admin'); set role key_admin")
        yield connection
        connection.rollback()


def refused(connection: psycopg.Connection[Any], statement: LiteralString, *arguments: str | None) -> str:
    with pytest.raises(psycopg.Error) as error, connection.transaction():
        connection.execute(statement, arguments)
    assert error.value.sqlstate == INVALID_ARGUMENT
    return str(error.value)


def test_each_key_has_a_salt_of_its_own(administrator: psycopg.Connection[Any]) -> None:
    salts = [administrator.execute(CREATE, [name, "key_shop"]).fetchall()[0][0] for name in ("shop", "Billing-2.test")]
    assert administrator.execute(KEYS).fetchall() == [
        ("Billing-2.test", "key_shop", salts[1]),
        ("shop", "key_shop", salts[0]),
    ]
    assert salts[0] != salts[1]
    assert {len(salt) for salt in salts} == {32}
    administrator.execute("select pgqueue.drop_gateway_key('shop')")
    assert [name for name, *_ in administrator.execute(KEYS)] == ["Billing-2.test"]


@pytest.mark.parametrize("name", [None, "", "a b", "-a", "a-", "a" * 129, "a/b", "a;SharedAccessKey=x"])
def test_a_key_has_a_name_that_fits_into_a_connection_string(
    administrator: psycopg.Connection[Any], name: str | None
) -> None:
    assert "name of a key" in refused(administrator, CREATE, name, "key_shop")


def test_a_name_is_taken_once(administrator: psycopg.Connection[Any]) -> None:
    administrator.execute(CREATE, ["shop", "key_shop"])
    assert "no other key has" in refused(administrator, CREATE, "shop", "key_shop")


@pytest.mark.parametrize("role", [None, "nobody", "public", "key_stranger"])
def test_a_key_is_for_a_role_that_its_maker_has(administrator: psycopg.Connection[Any], role: str | None) -> None:
    assert "role must be" in refused(administrator, CREATE, "shop", role)


def test_an_unknown_key_is_not_dropped(administrator: psycopg.Connection[Any]) -> None:
    assert "pgqueue.gateway_keys()" in refused(administrator, "select pgqueue.drop_gateway_key(%s)", "shop")


def test_an_administrator_cannot_give_the_rights_of_a_superuser(administrator: psycopg.Connection[Any]) -> None:
    ((superuser,),) = administrator.execute("select session_user").fetchall()
    assert "a role that you are a member of" in refused(administrator, CREATE, "shop", superuser)


def test_membership_without_the_set_option_does_not_suffice(administrator: psycopg.Connection[Any]) -> None:
    if administrator.info.server_version < 160000:
        pytest.skip("a membership of PostgreSQL 14 or 15 always lets its member take on the role")
    administrator.execute("reset role; grant key_stranger to key_admin with set false; set role key_admin")
    assert "role must be" in refused(administrator, CREATE, "shop", "key_stranger")
