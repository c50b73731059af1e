"""The command `gpusight top`: what a node agent or an analyzer knows, live, as a table or as JSON."""

import os
import sys
from pathlib import Path
from typing import Final

from gpusight.analysis.policies import parse_duration
from gpusight.errors import GpusightError, UsageError
from gpusight.model.time import Clock, SystemClock
from gpusight.store.http import HttpConfig
from gpusight.tui.arrange import Wish
from gpusight.tui.plain import as_json, as_text
from gpusight.tui.snapshot import SourceError
from gpusight.tui.source import FleetSource, NodeSource, Source
from gpusight.tui.words import Language, Words, language_of

LOCAL_NODE: Final = "http://localhost:9394"
LOCAL_ANALYZER: Final = "http://localhost:8080"
_TIMEOUT: Final = 10.0
_LARGEST_ANSWER: Final = 256 * 2**20


def main(
    *,
    url: str | None = None,
    node: str | None = None,
    token_file: Path | None = None,
    ca_file: Path | None = None,
    interval: str = "2s",
    once: bool = False,
    json: bool = False,
    flat: bool = False,
    reasons: bool = False,
    find: str = "",
    lang: Language | None = None,
    local: tuple[str, str] = (LOCAL_NODE, LOCAL_ANALYZER),
    clock: Clock | None = None,
) -> int:
    """Show a node's GPUs (`node`), a fleet's (`url`), or what answers on this machine (`local`)."""
    words = Words(lang or language_of(os.environ))
    seconds = _seconds(interval)
    wish = Wish(tree=not flat, notes=reasons, filter=find)
    ticking = clock or SystemClock()
    source = _source(url, node, token_file, ca_file, local, ticking, words)
    try:
        if once or json:
            return _print_once(source, words, wish, json=json)
        _refuse_pipes()
        return _show(source, ticking, words, seconds, wish)
    finally:
        source.close()


def _seconds(interval: str) -> float:
    try:
        seconds = parse_duration(interval)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 3600:
        raise UsageError(f"--interval is from 0.5s to 1h, such as 2s, not {interval}")
    return seconds


def _source(
    url: str | None,
    node: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    local: tuple[str, str],
    clock: Clock,
    words: Words,
) -> Source:
    if url and node:
        raise UsageError("--url is for an analyzer, --node for a node agent: give one of them")
    if token_file and not url:
        raise UsageError("--token-file is for an analyzer: give its address by --url")
    try:
        if url:
            return FleetSource(_config(url, token_file, ca_file), clock, words)
        if node:
            return NodeSource(_config(node, None, ca_file), clock, words)
        return _found(local, ca_file, clock, words)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--ca-file {ca_file} cannot be used: {error.strerror or error}") from None


def _config(url: str, token_file: Path | None, ca_file: Path | None) -> HttpConfig:
    return HttpConfig(
        url=url if "://" in url else f"http://{url}",
        timeout=_TIMEOUT,
        max_bytes=_LARGEST_ANSWER,
        headers={} if token_file else {"Accept": "*/*"},
        bearer_token_file=token_file,
        ca_file=ca_file,
    )


def _found(local: tuple[str, str], ca_file: Path | None, clock: Clock, words: Words) -> Source:
    """The node agent of this machine, or else its analyzer."""
    node, analyzer = local
    kinds: tuple[tuple[type[NodeSource | FleetSource], str], ...] = ((NodeSource, node), (FleetSource, analyzer))
    for kind, url in kinds:
        source = kind(_config(url, None, ca_file), clock, words)
        try:
            source.fetch()
        except SourceError:
            source.close()
        else:
            return source
    raise GpusightError(
        f"no node agent answers at {node} and no analyzer at {analyzer}: start one, for example"
        " `gpusight node --simulate`, or say where it is by --node or --url"
    )


def _print_once(source: Source, words: Words, wish: Wish, *, json: bool) -> int:
    try:
        snapshot = source.fetch()
    except SourceError as error:
        raise GpusightError(str(error)) from None
    text = as_json(snapshot) if json else as_text(snapshot, words, wish)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough; Python flushes once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _refuse_pipes() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("gpusight top needs a terminal; --once prints a table and --json prints JSON")


def _show(source: Source, clock: Clock, words: Words, interval: float, wish: Wish) -> int:
    from gpusight.tui.app import TopApp  # noqa: PLC0415 - a table for a pipe needs no screen

    TopApp(source, clock, words, interval, wish).run()
    return 0
