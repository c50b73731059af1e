"""The command `gpusight`: reads the command line, starts a role, and turns errors into a sentence and an exit code."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from gpusight import __version__
from gpusight.errors import EXIT_CODES, GpusightError, UsageError, printable
from gpusight.knobs import SETTINGS, Setting
from gpusight.runtime import logs
from gpusight.runtime.roles import ROLES, Role
from gpusight.runtime.tools import add_tools, run_tool
from gpusight.settings import Resolved, Settings, resolve

Environ = Mapping[str, str]


def main(argv: Sequence[str] | None = None, environ: Environ = os.environ) -> int:
    """Run a command and return its exit code. The only place where an error becomes a sentence on stderr."""
    try:
        return _run(sys.argv[1:] if argv is None else argv, environ)
    except GpusightError as error:
        print(f"gpusight: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except _ReaderGone:
        return 1
    except KeyboardInterrupt:
        return 130


def _run(argv: Sequence[str], environ: Environ) -> int:
    parser = _parser()
    try:
        options = vars(parser.parse_args(argv))
    except SystemExit:  # how argparse ends after --help and --version; its errors raise UsageError
        return 0
    command = options.pop("command")
    if command is None:
        parser.print_help()
        return UsageError.exit_code
    if command == "settings":
        return _show_settings(options.pop("role"), options.pop("format"), options, environ)
    if command not in _ROLES:
        return run_tool(command, options)
    return _run_role(_ROLES[command], options, environ)


_ROLES: Mapping[str, Role] = {role.name: role for role in ROLES}


def _run_role(role: Role, flags: Mapping[str, Any], environ: Environ) -> int:
    run = role.load()
    settings = resolve(flags, environ, role.names, role.defaults)
    logs.configure(settings.get("log.level"), settings.get("log.format"))
    return run(settings)


def _show_settings(role: str | None, form: str, flags: Mapping[str, Any], environ: Environ) -> int:
    known = sorted({name for setting in SETTINGS for name in setting.roles} | _ROLES.keys())
    if role is not None and role not in known:
        raise UsageError(f'unknown role "{role}": known are {", ".join(known)}')
    roles = known if role is None else [role]
    defaults = _ROLES[role].defaults if role is not None and role in _ROLES else {}
    settings = resolve(flags, environ, roles, defaults, complete=False)
    _write(f"{_as_json(settings) if form == 'json' else _as_table(settings)}\n")
    return 0


def _as_json(settings: Settings) -> str:
    rows = {each.setting.name: {"value": each.shown, "origin": each.origin} for each in settings}
    return json.dumps(rows, indent=2)


def _as_table(settings: Settings) -> str:
    rows = [("NAME", "VALUE", "ORIGIN")]
    rows += [(each.setting.name, _cell(each), printable(each.origin)) for each in settings]
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{names}}  {value:{values}}  {origin}" for name, value, origin in rows)


def _cell(resolved: Resolved) -> str:
    """A value as it would be written on the command line; `-` for none."""
    if resolved.shown is None or resolved.shown == []:
        return "-"
    if resolved.setting.type == "duration":
        return f"{resolved.shown:g}s"
    shown = resolved.shown if isinstance(resolved.shown, list) else [resolved.shown]
    return printable(",".join(str(item).lower() if isinstance(item, bool) else str(item) for item in shown))


class _Parser(argparse.ArgumentParser):
    """An argument parser that leaves printing and exiting to `main`."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002 - all that is left is for stdout
        _write(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gpusight", description="One observability stack for shared GPUs.", **_LAYOUT)
    parser.epilog = "exit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())
    parser.add_argument("--version", action="version", version=f"gpusight {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for role in ROLES:
        command = commands.add_parser(role.name, help=role.help, description=f"{role.help}.", **_LAYOUT)
        _add_flags(command, role.settings, role.defaults)
    add_tools(commands, _LAYOUT)
    shown = commands.add_parser("settings", help=_SETTINGS_HELP, description=f"{_SETTINGS_HELP}.", **_LAYOUT)
    shown.add_argument("--role", metavar="ROLE", help="only what this role reads; required settings must be given")
    shown.add_argument("--format", choices=("table", "json"), default="table", help="default: table")
    _add_flags(shown, (setting for setting in SETTINGS if setting.applies_to(tuple(_ROLES))), {})
    return parser


_SETTINGS_HELP = "Print every setting with its value and where that comes from"
_LAYOUT: Mapping[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}


def _add_flags(parser: argparse.ArgumentParser, settings: Iterable[Setting], defaults: Mapping[str, str]) -> None:
    """A flag for each setting but the secret ones: everybody on a machine can read the command line of a process."""
    group = parser.add_argument_group("settings")
    for setting in settings:
        if not setting.secret:
            group.add_argument(setting.flag, dest=setting.name, help=_flag_help(setting, defaults), **_action(setting))


def _action(setting: Setting) -> Mapping[str, Any]:
    if setting.type == "bool" or setting.implied:
        implied = setting.implied or "true"
        return {"nargs": "?", "const": implied, "metavar": setting.type.upper(), "default": argparse.SUPPRESS}
    return {
        "action": "append" if setting.repeatable else "store",
        "metavar": "|".join(setting.choices) or setting.type.upper(),
        "default": argparse.SUPPRESS,
    }


def _flag_help(setting: Setting, defaults: Mapping[str, str]) -> str:
    default = "required" if setting.required else f"default {defaults.get(setting.name, setting.default) or 'none'}"
    return f"{setting.help} ({default}; environment {', '.join(setting.env_names)})".replace("%", "%%")


class _ReaderGone(Exception):  # noqa: N818 - no error of ours
    """Whoever read our output has seen enough (`gpusight settings | head -1`): nothing to say, nobody to say it to."""


def _write(text: str) -> None:
    """Print and flush, so that a full disk is an error now and not a traceback at exit."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        _drop_output()
        raise _ReaderGone from None
    except OSError as error:
        _drop_output()
        raise GpusightError(f"the output cannot be written: {error.strerror}") from error


def _drop_output() -> None:
    """Point stdout nowhere: Python flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
