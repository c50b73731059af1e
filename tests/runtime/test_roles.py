"""The role table: every row names things that exist."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from gpusight.errors import MissingExtra
from gpusight.runtime import extras
from gpusight.runtime.roles import ROLES, Role
from gpusight.settings import resolve

each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def test_the_roles_that_exist() -> None:
    assert [(role.name, role.extra, role.listen) for role in ROLES] == [
        ("analyze", "analyze", ":8080"),
        ("node", "node", ":9394"),
        ("up", "analyze", "127.0.0.1:8080"),
        ("ops", "node", ":9090"),
    ]


@each_role
def test_a_role_can_be_loaded(role: Role) -> None:
    assert callable(role.load())


@each_role
def test_a_role_has_an_extra_and_a_listen_address(role: Role) -> None:
    assert role.extra in extras.EXTRAS
    found = resolve({}, {}, role.names, role.defaults, complete=False)
    assert found.get("web.listen-address") == (role.listen,)
    assert [each.setting for each in found] == list(role.settings)


@each_role
def test_a_role_without_its_packages_is_not_even_imported(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)

    with pytest.raises(MissingExtra, match=f"^the role {role.name} needs optional packages"):
        role.load()


def test_the_table_imports_no_role() -> None:
    """`gpusight --version` would wait for it."""
    check = "import sys, gpusight.cli; print([m for m in ('asyncio', 'yaml', 'h11', 'ssl') if m in sys.modules])"
    done = subprocess.run((sys.executable, "-c", check), capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout == "[]\n"
    assert find_spec("h11") is not None
