"""What the written pages show: fenced blocks, and the commands in them with the output below."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block and the line on which its text starts."""

    language: str
    line: int
    text: str


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text("utf-8")
    found = [Block(match[2], text.count("\n", 0, match.start(3)), match[3]) for match in FENCE.finditer(text)]
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands (after `$ `, lines that end in a backslash joined) with the output lines shown below them."""
    for block in blocks(page, "console", "sh"):
        shown: list[tuple[str, list[str]]] = []
        for line in block.text.replace("\\\n", " ").splitlines():
            prompt, _, command = line.strip().partition("$ ")
            if not prompt and command:
                shown.append((command, []))
            elif shown:
                shown[-1][1].append(line)
        yield from shown
