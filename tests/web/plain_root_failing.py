"""A composition root that cannot start."""

from tests.web.plain_root import refuse as build_from_environment

__all__ = ["build_from_environment"]
