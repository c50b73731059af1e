"""What can end the program with a sentence instead of a traceback, and the exit code of each.

    GpusightError          1  failed at run time
    |-- StartError         1  could not start: an address in use, a directory that is not there
    |-- UsageError         2  a command line that makes no sense
    |   `-- SettingsError  2  a setting with a wrong, missing or unknown value
    `-- MissingExtra       3  a part that this installation does not have, with the line that installs it

The message is one sentence for a person: what was attempted, on what, and what to do. Only `gpusight.cli` prints it and
exits.
"""

from collections.abc import Mapping
from typing import ClassVar

EXIT_CODES: Mapping[int, str] = {
    0: "ok",
    1: "failed at run time, or could not start",
    2: "wrong usage or a wrong setting (also: no command given)",
    3: "an optional part is not installed; the message holds the pip line",
    130: "interrupted (Ctrl-C)",
}


class GpusightError(Exception):
    """Anything that a user can understand from one sentence."""

    exit_code: ClassVar[int] = 1


class StartError(GpusightError):
    """The role is configured correctly and still cannot start."""


class UsageError(GpusightError):
    """The command line itself is wrong."""

    exit_code = 2


class SettingsError(UsageError):
    """One setting is wrong, wherever its value came from."""


class MissingExtra(GpusightError):  # noqa: N818 - it names what is missing, as `pip install 'gpusight[extra]'` does
    """`what` needs packages of the optional dependency group `extra`."""

    exit_code = 3

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs optional packages: pip install 'gpusight[{extra}]', in a clone '.[{extra}]'")
        self.extra = extra


def printable(text: str) -> str:
    r"""The text on one line: line ends, control and other invisible characters become escapes such as `\n`."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
