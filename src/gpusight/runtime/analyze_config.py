"""From settings to what the parts of the analyzer take."""

from collections.abc import Mapping
from pathlib import Path

from gpusight.analysis.criteria import Criteria, CriteriaError, Weights
from gpusight.errors import SettingsError, StartError
from gpusight.journal.open import FILE_NAME
from gpusight.model.series import Span
from gpusight.settings import Settings


def criteria_of(settings: Settings) -> Criteria:
    get = settings.get
    try:
        return Criteria(
            weights=Weights(
                gpu_util=get("gpu-util-weight"),
                mem_copy=get("mem-copy-weight"),
                mem_used=get("mem-used-weight"),
                power=get("power-weight"),
            ),
            idle_below=get("idle-threshold"),
            low_below=get("threshold"),
            high_above=get("high-threshold"),
            interval=get("interval"),
            active_above=get("active-above") / 100,
            coverage=get("coverage"),
            stale_after=get("stale-after"),
            grace=get("grace"),
            idle_rounds=get("idle-rounds"),
        )
    except CriteriaError as error:
        raise SettingsError(str(error)) from error


def span_of(settings: Settings, now: float) -> Span:
    length, step = settings.get("time-window-min") * 60.0, settings.get("step")
    if step > length:
        raise SettingsError(f"setting step: {step:g}s is longer than the window of {length:g}s (time-window-min)")
    return Span(now, length, step)


def data_dir(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Where the journal and the embedded store are; made if it is not there."""
    given = settings.get("data.dir")
    path = given if given is not None else state_home(environ) / "gpusight"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        hint = "" if given is not None else " (setting data.dir names another one)"
        raise StartError(f"the data directory {path} cannot be made: {error.strerror}{hint}") from error
    return Path(path)


def state_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_STATE_HOME", "")
    return Path(home) if home.startswith("/") else Path.home() / ".local" / "state"


def journal_location(settings: Settings, directory: Path) -> str | Path:
    url: str | None = settings.get("database.url")
    return url if url is not None else directory / FILE_NAME
