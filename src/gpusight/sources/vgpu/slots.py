"""Which words of a process slot are wanted: a `struct` per layout and set of devices takes these and skips the rest."""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from gpusight.model.vgpu import Layout
from gpusight.sources.vgpu.layouts import (
    BUFFER,
    CONTEXT,
    DECODER,
    ENCODER,
    LAYOUTS,
    MODULE,
    OFFSET,
    SM,
    TOTAL,
    WORD,
    SlotLayout,
)

Row = tuple[int, ...]
"""The wanted words of one slot, in the order of their places: pid and host pid first."""

_MEMORY = (TOTAL, CONTEXT, MODULE, BUFFER, OFFSET)
_UTILIZATION = (SM, ENCODER, DECODER)
DEVICE_WORDS = (*_MEMORY, "monitor_used", *_UTILIZATION)
"""Of each device, in the order in which RegionDevice has them."""


class SlotReading(NamedTuple):
    """How the slots of a layout are read."""

    words: struct.Struct
    status: int
    """Where in a row it stands."""
    of_device: tuple[Callable[[Row], Row], ...]
    """By device: its words of a row, without the last three where the layout has no utilization."""
    width: int
    """How many words a device has in a row."""
    totals: tuple[int, ...]
    """By device: where in a row the total of its memory stands."""

    def is_alive(self, row: Row) -> bool:
        return row[self.status] != 0 and row[0] > 0


@lru_cache(maxsize=256)
def slot_reading(name: Layout, devices: tuple[int, ...]) -> SlotReading:
    """For the devices with these indexes."""
    slot = LAYOUTS[name].slot
    words = [list(_offsets(slot, device)) for device in devices]
    pairs = [(0, "i"), (4, "i"), (slot.status, "i"), *((offset, "Q") for own in words for offset in own)]
    pairs.sort()
    places = {offset: place for place, (offset, _) in enumerate(pairs)}
    return SlotReading(
        struct.Struct(_format(pairs, slot.size)),
        places[slot.status],
        tuple(itemgetter(*[places[offset] for offset in own]) for own in words),
        len(_MEMORY) + 1 + (0 if slot.util is None else len(_UTILIZATION)),
        tuple(places[own[0]] for own in words),
    )


def _offsets(slot: SlotLayout, device: int) -> Iterator[int]:
    yield from (slot.used + slot.used_stride * device + WORD * word for word in _MEMORY)
    yield slot.monitor_used + WORD * device
    if slot.util is not None:
        yield from (slot.util + slot.util_stride * device + WORD * word for word in _UTILIZATION)


def _format(pairs: Sequence[tuple[int, str]], size: int) -> str:
    parts, at = ["<"], 0
    for offset, code in pairs:
        parts.append(f"{offset - at}x{code}")
        at = offset + struct.calcsize(f"<{code}")
    return "".join([*parts, f"{size - at}x"])
