"""What the tools of `gpusight.runtime.tools` do: read settings, call the part that knows, print."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpusight.errors import GpusightError, UsageError
from gpusight.model.history import JournalError
from gpusight.model.time import SystemClock
from gpusight.runtime.analyze_config import data_dir, journal_location
from gpusight.runtime.journal import backup, examine, restore
from gpusight.runtime.roles import role_named
from gpusight.settings import Settings, parse_duration, resolve


def journal_backup(destination: str, journal: str | None, force: bool) -> int:
    try:
        print(backup(_journal(journal), destination, force=force))
    except JournalError as error:
        raise GpusightError(str(error)) from error
    return 0


def journal_check(journal: str | None) -> int:
    """Exit code 1 when something is wrong."""
    try:
        problems, facts = examine(_journal(journal))
    except JournalError as error:
        raise GpusightError(str(error)) from error
    for fact in facts:
        print(fact)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if problems else 0


def journal_restore(source: str, journal: str | None) -> int:
    try:
        print(restore(source, _journal(journal)))
    except JournalError as error:
        raise GpusightError(str(error)) from error
    return 0


def replay(trace: str, policies: Sequence[str], prom_url: str | None, **options: Any) -> int:
    from gpusight.runtime.analyze_store import prometheus_config  # noqa: PLC0415 - only who replays waits for it
    from gpusight.runtime.replay import main  # noqa: PLC0415 - likewise
    from gpusight.runtime.replay_prometheus import PrometheusRange  # noqa: PLC0415 - likewise

    server = prometheus_config(analyze_settings({"prom.url": prom_url} if prom_url else {})).http
    with PrometheusRange(server, SystemClock()) as prom:
        return main(trace, policies, prom=prom, **options)


def _journal(given: str | None) -> str | Path:
    if given is not None:
        return given
    settings = analyze_settings()
    return journal_location(settings, data_dir(settings, os.environ))


def analyze_settings(flags: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """As the environment and the configuration file that it names give them, if no flag does."""
    role = role_named("analyze")
    return resolve(flags, os.environ, (role.name,), role.defaults)


def token_new(token_name: str, role: str, namespace: Sequence[str]) -> int:
    """The token goes to whoever will hold it, its hash into the file."""
    from gpusight.web.tokens import hash_token, new_token  # noqa: PLC0415 - drags the web layer in

    token = new_token()
    entry: dict[str, Any] = {"name": token_name, "sha256": hash_token(token), "role": role}
    if namespace:
        entry["namespaces"] = list(namespace)
    print(f"token, shown only now: {token}")
    print("entry for the token file (setting auth.token-file):")
    print(f"- {json.dumps(entry, ensure_ascii=False)}")
    return 0


def rules_render(window: str, step: str, condition: str, active_above: str, interval: str) -> int:
    """Recording rules on stdout."""
    from gpusight.rules.recording import render_recording  # noqa: PLC0415 - only who renders waits for it

    try:
        print(
            render_recording(
                _seconds(step),
                _seconds(window),
                condition,
                active_above=float(active_above) / 100,
                interval=_seconds(interval),
            ),
            end="",
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    return 0


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        raise UsageError(f'"{text}" is not a duration such as 30s, 10m or 1h') from None
