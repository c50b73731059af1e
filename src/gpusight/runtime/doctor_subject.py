"""From settings, however wrong some of them are, to what the doctor examines."""

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from gpusight.doctor.subject import Ai, Listen, NamedFile, SettingsReport, Subject
from gpusight.errors import GpusightError
from gpusight.exposition.listen import parse_address
from gpusight.knobs import SETTINGS
from gpusight.model.time import Clock
from gpusight.runtime.analyze_config import criteria_of, journal_location, span_of, state_home
from gpusight.runtime.extras import EXTRAS, missing
from gpusight.runtime.roles import ROLES, Role
from gpusight.settings import Settings, resolve
from gpusight.sources.nvml.supervisor import child_command

_CONFIG = "config.file"
_SECRET_FILES = (
    "auth.token-file",
    "k8s.kubeconfig",
    "prom.bearer-token-file",
    "prom.key-file",
    "prom.password-file",
    "web.config.file",
)
_OTHER_FILES = ("prices.file", "prom.ca-file", "prom.cert-file", "tenants.file")

Flags = Mapping[str, str]


class Known(NamedTuple):
    """The settings of every role, and all that is wrong with them."""

    by_role: Mapping[str, Settings]
    problems: tuple[str, ...]
    file_problem: str

    def get(self, name: str) -> Any:
        """From the first role that has it."""
        return next(each.value for settings in self.by_role.values() for each in settings if each.setting.name == name)

    def origin(self, name: str) -> str:
        return next(each.origin for settings in self.by_role.values() for each in settings if each.setting.name == name)


def known_settings(flags: Flags, environ: Mapping[str, str]) -> Known:
    problems: dict[str, None] = {}
    file_problems: dict[str, None] = {}
    by_role = {}
    for role in ROLES:
        usable_flags = _usable(flags, lambda given: _resolved(role, given, {}), problems, file_problems)  # noqa: B023
        usable = _usable(environ, lambda given: _resolved(role, {}, given), problems, file_problems)  # noqa: B023
        try:
            by_role[role.name] = _resolved(role, usable_flags, usable)
        except GpusightError as error:
            problems[str(error)] = None
            by_role[role.name] = _resolved(role, {}, {})
    return Known(by_role, tuple(problems), next(iter(file_problems), ""))


def _resolved(role: Role, flags: Flags, environ: Mapping[str, str]) -> Settings:
    return resolve(flags, environ, (role.name,), role.defaults, complete=False)


def _usable(
    given: Mapping[str, str],
    attempt: Callable[[Mapping[str, str]], object],
    problems: dict[str, None],
    file_problems: dict[str, None],
) -> dict[str, str]:
    """What makes sense, each taken alone; for the rest there is a sentence."""
    usable = {}
    for name, value in given.items():
        if not _is_ours(name):
            continue
        try:
            attempt({name: value})
        except GpusightError as error:
            (file_problems if name in (_CONFIG, "GPUSIGHT_CONFIG_FILE") else problems)[str(error)] = None
        else:
            usable[name] = value
    return usable


_NAMES = frozenset(name for setting in SETTINGS for name in (setting.name, *setting.env_names))


def _is_ours(name: str) -> bool:
    return name in _NAMES


def _unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    strangers = sorted(name for name in environ if name.startswith("GPUSIGHT_") and name not in _NAMES)
    return tuple(f"{name}{_hint(name)}" for name in strangers)


def _hint(name: str) -> str:
    near = get_close_matches(name, _NAMES, n=1)
    return f" ({near[0]}?)" if near else ""


def make_subject(known: Known, environ: Mapping[str, str], clock: Clock, asked: Sequence[str] = ()) -> Subject:
    get = known.get
    analyze = known.by_role["analyze"]
    directory = get("data.dir") or state_home(environ) / "gpusight"
    roles = _with_parts(asked or known.by_role)
    return Subject(
        clock=clock,
        roles=roles,
        asked=_with_parts(asked),
        settings=_report(known, environ),
        files=tuple(_files(known, clock)),
        missing=missing,
        extras={extra: _needed_by(extra, known, frozenset(asked)) for extra in EXTRAS},
        nvml_command=child_command(get("simulate"), get("node.name")) if get("simulate") else None,
        node_name=get("node.name") or platform.node(),
        vgpu_dir=get("vgpu.dir"),
        procfs=get("path.procfs"),
        pod_logs=get("path.pod-logs"),
        kubelet_socket=get("kubelet.socket"),
        kubernetes=lambda: _access(get("k8s.kubeconfig"), environ, clock),
        kubernetes_needed_by=_kubernetes_needed_by(known),
        store=get("store"),
        prometheus=lambda: _prometheus(analyze),
        prometheus_is_given=known.origin("prom.url") != "default",
        weights={
            "utilization": get("gpu-util-weight"),
            "memory_copy": get("mem-copy-weight"),
            "memory_used": get("mem-used-weight"),
            "power": get("power-weight"),
        },
        stale_after=get("stale-after"),
        recorded_names=lambda: _recorded_names(analyze),
        scrape_targets=get("scrape.target"),
        ai=Ai(get("ai.enabled"), get("ai.api-url") or "", bool(get("ai.api-key"))),
        listen=tuple(_listen(known)),
        data_dir=Path(directory),
        store_max_bytes=get("store.max-size") << 20,
        store_file=Path(directory) / "samples.duckdb",
        journal=journal_location(analyze, Path(directory)),
    )


def _with_parts(roles: Iterable[str]) -> frozenset[str]:
    """`up` is several roles in one."""
    given = frozenset(roles)
    return given | {"analyze", "node"} if "up" in given else given


def _report(known: Known, environ: Mapping[str, str]) -> SettingsReport:
    analyze = known.by_role["analyze"]

    def check_criteria() -> None:
        criteria_of(analyze)
        span_of(analyze, 0.0)

    return SettingsReport(
        known=len({each.setting.name for settings in known.by_role.values() for each in settings}),
        problems=known.problems,
        file=known.get(_CONFIG) or (Path(environ.get("GPUSIGHT_CONFIG_FILE", "?")) if known.file_problem else None),
        file_problem=known.file_problem,
        unknown_variables=_unknown_variables(environ),
        check_criteria=check_criteria,
    )


def _files(known: Known, clock: Clock) -> "list[NamedFile]":
    named = [(name, known.get(name)) for name in (*_SECRET_FILES, *_OTHER_FILES)]
    return [NamedFile(name, path, name in _SECRET_FILES, _loader(name, path, clock)) for name, path in named if path]


def _loader(name: str, path: Path, clock: Clock) -> Callable[[], object] | None:
    """How the role that it belongs to reads it. Imported late: each needs packages of its own."""

    def tokens() -> object:
        from gpusight.web.tokens import read_tokens  # noqa: PLC0415

        return read_tokens(path)

    def web() -> object:
        from gpusight.exposition.webconfig import WebConfigFile  # noqa: PLC0415

        return WebConfigFile(path, clock)

    def tenants() -> object:
        from gpusight.runtime.analyze_files import read_tenants  # noqa: PLC0415

        return read_tenants(path)

    def prices() -> object:
        from gpusight.runtime.analyze_files import read_prices  # noqa: PLC0415

        return read_prices(path)

    return {"auth.token-file": tokens, "web.config.file": web, "tenants.file": tenants, "prices.file": prices}.get(name)


def _needed_by(extra: str, known: Known, asked: frozenset[str]) -> str:
    """Who cannot do without it; roles that nobody asked for can."""
    roles = [f"the role {role.name}" for role in ROLES if role.extra == extra and role.name in asked]
    if extra == "postgres" and known.get("database.url"):
        roles.append("database.url")
    if extra == "k8s":
        roles += sorted(set(_kubernetes_needed_by(known).values()))
    return ", ".join(roles)


def _kubernetes_needed_by(known: Known) -> dict[str, str]:
    needed: dict[str, str] = {}
    if known.get("k8s.watch-pods"):
        needed |= {"pods": "k8s.watch-pods", "resourceslices": "k8s.watch-pods"}
    if known.get("tenants.from-kubernetes"):
        needed["namespaces"] = "tenants.from-kubernetes"
    return needed


def _listen(known: Known) -> "list[Listen]":
    return [
        Listen(role, address, parse_address(address).port)
        for role, settings in known.by_role.items()
        for address in settings.get("web.listen-address")
    ]


def _access(kubeconfig: Path | None, environ: Mapping[str, str], clock: Clock) -> Any:
    from gpusight.sources.kubernetes.access import find_access  # noqa: PLC0415 - only if it is asked for

    return find_access(environ, clock, kubeconfig=kubeconfig)


def _prometheus(analyze: Settings) -> Any:
    from gpusight.runtime.analyze_store import prometheus_config  # noqa: PLC0415 - needs the extra analyze

    return prometheus_config(analyze)


def _recorded_names(analyze: Settings) -> frozenset[str]:
    from gpusight.rules.recording import recording_rules  # noqa: PLC0415 - needs the extra analyze

    get = analyze.get
    rules = recording_rules(
        get("step"),
        get("time-window-min") * 60.0,
        get("query-condition"),
        active_above=get("active-above") / 100,
        cluster_label=get("store.cluster-label"),
    )
    return frozenset(rule.record for rule in rules)


def own_names(environ: Mapping[str, str], known: Known) -> tuple[list[str], list[str]]:
    """Names of this host and of the user, for them to be left out of what leaves the site."""
    hosts = [platform.node(), platform.node().partition(".")[0], environ.get("HOSTNAME", ""), known.get("node.name")]
    home = environ.get("HOME", "").rstrip("/")
    users = [environ.get("USER", ""), environ.get("LOGNAME", ""), os.path.basename(home)]  # noqa: PTH119 - may be empty
    return [host for host in hosts if host], [user for user in users if user]
