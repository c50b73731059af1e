"""Commands that do one thing and end: what they take is declared here, what they do is imported when they run."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gpusight.errors import UsageError
from gpusight.runtime.extras import require


class Argument(NamedTuple):
    """As argparse takes it."""

    flags: tuple[str, ...]
    options: Mapping[str, Any]


def _argument(*flags: str, **options: Any) -> Argument:
    return Argument(flags, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`run` is `module:function` within runtime; it gets the arguments as keywords and returns the exit code.

    Without an `extra` it needs nothing but the standard library.
    """

    name: str
    """Of one word or two: `replay`, `journal backup`."""
    help: str
    run: str
    extra: str
    arguments: tuple[Argument, ...] = ()

    def __call__(self, options: Mapping[str, Any]) -> int:
        if self.extra:
            require(f"gpusight {self.name}", self.extra)
        module, _, function = self.run.partition(":")
        done: int = getattr(import_module(f"gpusight.runtime.{module}"), function)(**options)
        return done


_JOURNAL = _argument(
    "--journal",
    metavar="PATH|URL",
    help="journal file or postgres:// address; by default the one that the settings name",
)

TOOLS: tuple[Tool, ...] = (
    Tool(
        name="journal backup",
        help="Copy the journal into a file, while it is in use",
        run="commands:journal_backup",
        extra="analyze",
        arguments=(
            _argument("destination", metavar="FILE", help="SQLite file to write"),
            _JOURNAL,
            _argument("--force", action="store_true", help="replace the file if it is there"),
        ),
    ),
    Tool(
        name="journal check",
        help="Check the journal and say what is in it",
        run="commands:journal_check",
        extra="analyze",
        arguments=(_JOURNAL,),
    ),
    Tool(
        name="journal restore",
        help="Copy a backup into a journal that is empty or not there yet",
        run="commands:journal_restore",
        extra="analyze",
        arguments=(_argument("source", metavar="FILE", help="backup to read"), _JOURNAL),
    ),
    Tool(
        name="replay",
        help="Back-test idle policies on recorded history: GPU-hours given back, and regret",
        run="commands:replay",
        extra="analyze",
        arguments=(
            _argument(
                "trace",
                metavar="TRACE",
                help="CSV file, JSON of a range query, prometheus:QUERY, or generated:SEED",
            ),
            _argument(
                "--policy",
                dest="policies",
                action="append",
                default=[],
                metavar="POLICY",
                help="such as idle:120m,grace=30m, or a built-in name; may be repeated (default: all built-in)",
            ),
            _argument(
                "--format", dest="form", choices=("table", "json", "csv"), default="table", help="default: table"
            ),
            _argument("--figure", type=Path, metavar="FILE", help="HTML file with a figure to write"),
            _argument("--save-trace", type=Path, metavar="FILE", help="CSV file to write the recording to"),
            _argument("--unit", choices=("percent", "ratio"), default="percent", help="of util (default percent)"),
            _argument("--from", dest="start", metavar="TIME", help="begin of the range: RFC 3339, or ago, such as 7d"),
            _argument("--to", dest="end", metavar="TIME", help="end of the range (default now)"),
            _argument("--step", metavar="DURATION", help="step of the range"),
            _argument("--active-above", type=float, default=1.0, metavar="PERCENT", help="what counts as activity"),
            _argument("--regret-limit", type=float, default=0.05, metavar="SHARE", help="what regret is acceptable"),
            _argument("--prom.url", dest="prom_url", metavar="URL", help="Prometheus to ask (environment PROM_URL)"),
        ),
    ),
    Tool(
        name="rules render",
        help="Print Prometheus rules",
        run="commands:rules_render",
        extra="analyze",
        arguments=(
            _argument("--window", default="10m", help="window of a round, as time-window-min says (default 10m)"),
            _argument("--step", default="30s", help="step of a round (default 30s)"),
            _argument("--condition", default='{pod!=""}', help='query condition of a round (default {pod!=""})'),
            _argument("--active-above", default="0.5", help="percent above which a sample is activity (default 0.5)"),
            _argument("--interval", default="1m", help="how often Prometheus evaluates them (default 1m)"),
        ),
    ),
    Tool(
        name="doctor",
        help="Check this installation: what is wrong, and what to do about it",
        run="doctor:run",
        extra="",
        arguments=(
            _argument(
                "--role",
                dest="roles",
                action="append",
                default=[],
                metavar="ROLE",
                help="only what this role needs; may be repeated",
            ),
            _argument(
                "--only",
                action="append",
                default=[],
                metavar="ID",
                help="only this check, or all whose id begins so; may be repeated",
            ),
            _argument("--json", dest="as_json", action="store_true", help="every check as JSON"),
            _argument("--lang", choices=("en", "zh"), help="language of the sentences (default: that of $LANG)"),
            _argument(
                "--deadline",
                type=float,
                default=20.0,
                metavar="SECONDS",
                help="for all checks together (default 20)",
            ),
            _argument("--config.file", dest="config_file", metavar="FILE", help="YAML file with settings"),
            _argument("--prom.url", dest="prom_url", metavar="URL", help="Prometheus to ask (environment PROM_URL)"),
            _argument("--bundle", type=Path, metavar="FILE", help="support archive to write, without secrets"),
            _argument("--log", type=Path, metavar="FILE", help="log whose end goes into the archive"),
        ),
    ),
    Tool(
        name="top",
        help="Watch a node's or a fleet's GPUs in the terminal",
        run="top:main",
        extra="tui",
        arguments=(
            _argument("--url", help="analyzer to ask, such as http://localhost:8080"),
            _argument("--node", metavar="URL", help="node agent to ask; by default what answers on this machine"),
            _argument("--token-file", type=Path, metavar="FILE", help="file with the analyzer's token"),
            _argument("--ca-file", type=Path, metavar="FILE", help="certificates of the authorities to trust"),
            _argument("--interval", default="2s", metavar="DURATION", help="how often to ask (default 2s)"),
            _argument("--once", action="store_true", help="print the table as plain text and end"),
            _argument("--json", action="store_true", help="print JSON and end"),
            _argument("--flat", action="store_true", help="a list instead of a tree"),
            _argument("--reasons", action="store_true", help="reasons below the rows"),
            _argument("--filter", dest="find", default="", metavar="TEXT", help="words that a row must have"),
            _argument("--lang", choices=("en", "zh"), help="default: as LC_ALL, LC_MESSAGES or LANG says"),
        ),
    ),
    Tool(
        name="token new",
        help="Make a token for the analyzer's API, and the entry for its token file",
        run="commands:token_new",
        extra="analyze",
        arguments=(
            _argument("token_name", metavar="NAME", help="who holds it"),
            _argument("--role", choices=("read", "admin"), default="read", help="default: read"),
            _argument("--namespace", action="append", default=[], help="only this namespace; may be repeated"),
        ),
    ),
)


def add_tools(commands: Any, layout: Mapping[str, Any]) -> None:
    """A parser for each, on argparse's object for sub-commands."""
    groups: dict[str, Any] = {}
    for tool in TOOLS:
        first, _, second = tool.name.partition(" ")
        parent, name = (commands, first) if not second else (_group(commands, groups, first, layout), second)
        parser = parent.add_parser(name, help=tool.help, description=f"{tool.help}.", **layout)
        parser.set_defaults(tool=tool)
        for argument in tool.arguments:
            parser.add_argument(*argument.flags, **argument.options)


def _group(commands: Any, groups: dict[str, Any], name: str, layout: Mapping[str, Any]) -> Any:
    if name not in groups:
        members = [tool.name.partition(" ")[2] for tool in TOOLS if tool.name.startswith(f"{name} ")]
        parser: argparse.ArgumentParser = commands.add_parser(name, help=" | ".join(members), **layout)
        groups[name] = parser.add_subparsers(title="commands", metavar="COMMAND", dest="of_group")
    return groups[name]


def run_tool(command: str, options: dict[str, Any]) -> int:
    """Run what the command line named."""
    tool: Tool | None = options.pop("tool", None)
    options.pop("of_group", None)
    if tool is None:
        raise UsageError(f"gpusight {command} needs one more word (see gpusight {command} --help)")
    return tool(options)
