"""The command line."""

import argparse
from collections.abc import Sequence

from examples.gpu_ops.failures import Reason
from examples.gpu_ops.faults import FAULTS
from examples.gpu_ops.runner import THRESHOLDS

USUAL_FAULTS = (Reason.SHADER_COMPILE, Reason.BUFFER_ALLOCATION)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    chosen = _parser().parse_args(arguments)
    if chosen.fault_every is None:
        chosen.fault_every = 8 if chosen.once else 50
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.gpu_ops",
        description="Hash batches, Merkle trees and number-theoretic transforms on the GPU through wgpu, with the CPU"
        " as fallback and as reference; the program's metrics are served over HTTP.",
    )
    _add_work(parser)
    _add_routing(parser)
    _add_faults(parser)
    _add_serving(parser)
    return parser


def _add_work(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("work")
    group.add_argument(
        "--once", action="store_true", help="a few operations, then the metrics on stdout; serve nothing"
    )
    group.add_argument("--operations", type=_count, default=24, help="with --once: how many (default: %(default)s)")
    group.add_argument("--rate", type=_positive, default=5.0, help="operations per second (default: %(default)s)")
    group.add_argument("--duration", type=_seconds, default=0.0, help="seconds to run; 0: until Ctrl-C (default)")
    group.add_argument("--seed", type=int, default=1, help="of everything random (default: %(default)s)")
    group.add_argument(
        "--table",
        choices=("short", "full", "none"),
        default="short",
        help="CPU and GPU times at the start; full has the guide's largest sizes too and takes a minute or more",
    )


def _add_routing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("CPU or GPU")
    group.add_argument("--backend", choices=("auto", "cpu"), default="auto", help="cpu: no GPU even if there is one")
    for flag, module, unit in (
        ("--min-batch", "crypto", "messages"),
        ("--min-leaves", "merkle", "leaves"),
        ("--min-constraints", "zk", "constraints"),
    ):
        group.add_argument(
            flag,
            type=_count,
            default=THRESHOLDS[module],
            help=f"{module}: fewer {unit} go to the CPU (default: %(default)s)",
        )
    group.add_argument(
        "--check-every",
        type=_count,
        default=5,
        help="compare each n-th GPU result of a module with the CPU's; 0: none (default: %(default)s)",
    )
    group.add_argument("--gpu-timeout", type=_positive, default=10.0, help="seconds to wait for a result (default: 10)")


def _add_faults(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("errors on purpose")
    group.add_argument(
        "--fault-every", type=_count, help="each n-th operation meets one; 0: none (default: 50, with --once 8)"
    )
    group.add_argument(
        "--faults",
        nargs="+",
        type=Reason,
        choices=tuple(FAULTS),
        default=USUAL_FAULTS,
        metavar="FAULT",
        help=f"which, in turn, of {', '.join(FAULTS)} (default: {' '.join(USUAL_FAULTS)})",
    )


def _add_serving(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("metrics")
    group.add_argument("--port", type=int, default=9090, help="0 picks a free one (default: %(default)s)")
    group.add_argument("--listen-address", default="127.0.0.1", help="(default: %(default)s)")


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds, 0 or more")
    return value


def _positive(text: str) -> float:
    value = _seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value
