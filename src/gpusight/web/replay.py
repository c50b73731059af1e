"""What the API asks of whoever runs back-tests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from gpusight.analysis.replay_report import ReplayReport


class ReplayRequest(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}
):
    """A back-test: of the given recording, or of what the store knows of a span of time."""

    policies: Annotated[tuple[str, ...], Meta(max_length=20)] = ()
    """As `gpusight replay --policy` takes them; none means the built-in ones."""
    csv: Annotated[str, Meta(max_length=1 << 20)] | None = None
    """timestamp,subject,util[,memory,power]"""
    start: datetime | None = None
    end: datetime | None = None


class ReplayRunner(Protocol):
    """Runs back-tests. Blocks. Raises ValueError with a sentence for the client, and StoreError."""

    def __call__(self, request: ReplayRequest, namespaces: Sequence[str] | None) -> ReplayReport: ...
