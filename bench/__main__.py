"""Run the benchmarks, print a line per figure, write bench/results.json; exit 1 when a goal is missed."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping

from bench import (
    analyze_round,
    embedded,
    journal,
    node,
    page,
    record,
    render,
    replay,
    results_api,
    simulate,
    slow_clients,
    startup,
)
from bench.figures import RESULTS, Figure, write

BENCHMARKS: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "record": record.figures,
    "render": render.figures,
    "startup": startup.figures,
    "slow_clients": slow_clients.figures,
    "node": node.figures,
    "analyze": analyze_round.figures,
    "results": results_api.figures,
    "embedded": embedded.figures,
    "journal": journal.figures,
    "replay": replay.figures,
    "page": page.figures,
    "simulate": simulate.figures,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, help="run one of them")
    only = parser.parse_args().only
    done: list[Figure] = []
    for name, figures in BENCHMARKS.items():
        if only in (None, name):
            for figure in figures():
                print(figure.line(), flush=True)
                done.append(figure)
    write(done)
    missed = [figure.name for figure in done if figure.met is False]
    print(f"{len(done)} figures in {RESULTS.name}; missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
