"""What the composition root is to `uvicorn gpusight.web.app:app`, for tests of plain uvicorn."""

from fastapi import FastAPI

from gpusight.errors import StartError
from gpusight.web.app import EnvironmentApp
from gpusight.web.guard import GuardLimits
from tests.web.clients import an_app

app = EnvironmentApp("tests.web.plain_root", GuardLimits(head=1.0))
failing = EnvironmentApp("tests.web.plain_root_failing")


class Built:
    def __init__(self) -> None:
        self.app: FastAPI = an_app()

    async def start(self) -> None:
        print("started", flush=True)

    def stop(self) -> None:
        print("stopped", flush=True)


def build_from_environment() -> Built:
    return Built()


def refuse() -> Built:
    raise StartError("the token file is not there")
