"""The files that pages load: our own, and plotly.js from the installed package. Their addresses change with them."""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


class StaticFile:
    """One file; read and compressed when it is first asked for."""

    def __init__(self, source: Traversable, stamp: str = "") -> None:
        self._source = source
        self._stamp = stamp
        self.media_type = _TYPES[source.name.rpartition(".")[2]]

    @cached_property
    def stamp(self) -> str:
        """What tells this version from others."""
        return self._stamp or hashlib.blake2b(self._source.read_bytes(), digest_size=8).hexdigest()

    @cached_property
    def zipped(self) -> bytes:
        return gzip.compress(self._source.read_bytes(), compresslevel=6, mtime=0)

    def read(self) -> bytes:
        return self._source.read_bytes()


@cache
def static_files() -> Mapping[str, StaticFile]:
    own = [
        each for each in files("gpusight.web").joinpath("static").iterdir() if each.name.rpartition(".")[2] in _TYPES
    ]
    plotly = files("plotly").joinpath("package_data", "plotly.min.js")
    return {
        **{each.name: StaticFile(each) for each in own},
        "plotly.min.js": StaticFile(plotly, f"plotly-{version('plotly')}"),
    }


def asset(name: str) -> str:
    """The address of a file, which may be kept for ever."""
    return f"/static/{name}?v={static_files()[name].stamp}"
