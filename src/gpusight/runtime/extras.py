"""Which optional packages belong to which extra of `pip install 'gpusight[...]'`, and whether they are here."""

from collections.abc import Mapping
from importlib.util import find_spec

from gpusight.errors import MissingExtra

EXTRAS: Mapping[str, Mapping[str, str]] = {
    "node": {"h11": "h11", "h2": "h2", "pyyaml": "yaml", "bcrypt": "bcrypt", "nvidia-ml-py": "pynvml"},
    "k8s": {"msgspec": "msgspec", "pyyaml": "yaml"},
    "analyze": {
        "duckdb": "duckdb",
        "msgspec": "msgspec",
        "pyyaml": "yaml",
        "rich": "rich",
        "fastapi": "fastapi",
        "uvicorn": "uvicorn",
        "h11": "h11",
        "bcrypt": "bcrypt",
        "jinja2": "jinja2",
        "plotly": "plotly",
    },
    "tui": {"msgspec": "msgspec", "textual": "textual"},
    "postgres": {"psycopg": "psycopg"},
}
"""Extra -> distribution as pyproject.toml names it -> the module that it brings."""


def missing(extra: str) -> tuple[str, ...]:
    """The distributions of an extra that cannot be imported here; nothing is imported to find out."""
    return tuple(name for name, module in EXTRAS[extra].items() if find_spec(module) is None)


def require(what: str, extra: str) -> None:
    if missing(extra):
        raise MissingExtra(what, extra)
