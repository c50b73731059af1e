"""Every role that exists, as data: the command line, the docs and whatever runs several roles loop over this table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from gpusight.knobs import SETTINGS, Setting
from gpusight.runtime.extras import require
from gpusight.settings import Settings

Run = Callable[[Settings], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One process that gpusight can be.

    `build` is `module:function`, imported only when the role starts, so that `gpusight --version` stays fast.
    `targets` are the paths on its listen address that are worth scraping, `page` is its page on the web UI.
    """

    name: str
    help: str
    build: str
    extra: str
    listen: str
    targets: tuple[str, ...] = ("/metrics",)
    page: str = ""
    includes: tuple[str, ...] = ()
    """Roles that it runs, and whose settings it takes and hands on."""
    openmetrics: bool = True
    """Off where the page has names that OpenMetrics would change and that people's rules rely on."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(setting for setting in SETTINGS if setting.applies_to(self.names))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.includes)

    @property
    def defaults(self) -> Mapping[str, str]:
        """Defaults that differ from role to role, as `resolve` takes them."""
        return {"web.listen-address": self.listen, "web.openmetrics": str(self.openmetrics).lower()}

    def load(self) -> Run:
        """The function that runs the role until it is told to stop and returns the exit code."""
        require(f"the role {self.name}", self.extra)
        module, _, function = self.build.partition(":")
        run: Run = getattr(import_module(module), function)
        return run


ROLES: tuple[Role, ...] = (
    Role(
        name="analyze",
        help="Judge who really uses the GPUs they hold, and serve the results",
        build="gpusight.runtime.analyze:run",
        extra="analyze",
        listen=":8080",
        page="/",
        openmetrics=False,
    ),
    Role(
        name="node",
        help="Expose this machine's GPUs, and what containers and processes use of them",
        build="gpusight.runtime.node:run",
        extra="node",
        listen=":9394",
        openmetrics=False,
    ),
    Role(
        name="up",
        help="Run everything on this machine, with a page at http://localhost:8080",
        build="gpusight.runtime.up:run",
        extra="analyze",
        listen="127.0.0.1:8080",
        page="/",
        includes=("node", "analyze"),
    ),
    Role(
        name="ops",
        help="Serve the merged operation metrics of a program's worker processes",
        build="gpusight.runtime.ops:run",
        extra="node",
        listen=":9090",
        openmetrics=False,
    ),
)


def role_named(name: str) -> Role:
    return next(role for role in ROLES if role.name == name)
