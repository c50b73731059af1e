"""The table of accepted names in docs/store.md, made from the sources.

python -m gpusight.store.names_docs docs/store.md
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from gpusight.store.normalize import SOURCES, UNITS, Source

START = "<!-- accepted names: made by gpusight.store.names_docs -->"
END = "<!-- end of accepted names -->"

_WORDS = {1.0: "base unit", 0.01: "percent", 2.0**20: "MiB", 1e6: "MHz", 1e-3: "thousandths"}


def with_names(guide: str) -> str:
    """The guide with its table as it should be."""
    head, _, rest = guide.partition(START)
    _, _, tail = rest.partition(END)
    return "\n".join((head + START, *_lines(), END + tail))


def _lines() -> Iterator[str]:
    quantities = dict.fromkeys(source.quantity for source in SOURCES)
    for quantity in quantities:
        yield ""
        yield f"**{quantity.replace('_', ' ')}**"
        yield ""
        yield "| family | of | values are in | how we know |"
        yield "|---|---|---|---|"
        yield from (_row(source) for source in SOURCES if source.quantity == quantity)
    yield ""
    yield f"Units that can be declared: {', '.join(f'`{unit}`' for unit in UNITS)}."
    yield ""


def _row(source: Source) -> str:
    family = f"`{source.family}`"
    if source.only:
        wanted = ", ".join(f'{name}="{value}"' for name, value in source.only.items())
        family = f"`{source.family}{{{wanted}}}`"
    unit = "**to be declared**" if source.scale is None else _WORDS[source.scale]
    return f"| {family} | {source.scope} | {unit} | {source.proof} |"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(with_names(Path(name).read_text(encoding="utf-8")), encoding="utf-8")
