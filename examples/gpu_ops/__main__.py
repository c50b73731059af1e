"""Run with `python -m examples.gpu_ops` from the repository root."""

import os
import signal
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial

from examples.gpu_ops import options
from examples.gpu_ops.program import Program
from gpusight.instrument import MetricsConfig, serve


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = options.parse(arguments)
    # EGL, while wgpu looks for adapters, complains about this on machines without a desktop.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    return _once(chosen) if chosen.once else _live(chosen)


def _once(chosen: Namespace) -> int:
    """What people read goes to stderr, so that stdout can go into a parser."""
    program = Program(chosen, MetricsConfig(export_interval=0), partial(print, file=sys.stderr, flush=True))
    program.show_table(threading.Event())
    started = time.monotonic()
    program.run_some()
    program.say(program.summary(time.monotonic() - started))
    print(program.metrics.export_prometheus(), end="", flush=True)
    program.close()
    return program.exit_code


def _live(chosen: Namespace) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    program = Program(chosen, MetricsConfig(export_interval=1.0), partial(print, flush=True))
    server = serve(program.metrics, port=chosen.port, host=chosen.listen_address)
    try:
        if server.error:
            print(f"{server.error} (--port chooses another port)", file=sys.stderr)
            return 1
        program.say(f"Metrics: {server.url}")
        return _work(program, stop)
    finally:
        server.close()
        program.close()


def _work(program: Program, stop: threading.Event) -> int:
    program.show_table(stop)
    started = time.monotonic()
    program.run_paced(stop)
    program.say(program.summary(time.monotonic() - started))
    return program.exit_code


if __name__ == "__main__":
    sys.exit(main())
