"""A view of some objects of the API server, kept in step by one list and then a watch.

The view changes only by what the server says: a list replaces it in one step, with deletions for what is gone, and an
event changes one object. While the server is away or talks nonsense the view stays, gets older, and says so. Whatever
the stream says that cannot be right (an unknown kind of event, a step back in time) leads to a new list, never to a
guess. Each object is decoded alone: a bad one is missing from the view and counted, nothing more.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from gpusight.model.time import Clock
from gpusight.sources.kubernetes.client import ApiClient, ApiError, ApiFailure, Exchange

T = TypeVar("T")
Decode = Callable[[msgspec.Raw], T | None]
"""One object's JSON to what is kept of it; None for one that does not matter. May raise anything."""

_log = logging.getLogger("gpusight.kubernetes")

_FAILURES_BEFORE_LIST = 3
"""So many watches in a row that fail, and the version they ask for is no longer trusted."""
_AT_ONCE = 1.0
_GRACE = 30.0


class Key(NamedTuple):
    """An object's place; `namespace` is empty for nodes and the like."""

    namespace: str
    name: str


class Change(NamedTuple, Generic[T]):
    """`old` is None for a new object, `new` for one that is gone."""

    key: Key
    old: T | None
    new: T | None


@dataclass(frozen=True, slots=True)
class What:
    """The objects to follow, such as those at `/api/v1/pods`."""

    path: str
    field_selector: str = ""
    label_selector: str = ""
    other_paths: tuple[str, ...] = ()
    """Where servers that do not know `path` may have the same objects, in older or newer versions of the API."""
    may_start_stale: bool = False
    """Whether the first list may come from the server's cache: cheap for it, and right for an agent on every node."""

    def query(self, **more: str) -> dict[str, str]:
        given = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector, **more}
        return {key: value for key, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds and counts."""

    page: int = 500
    most_objects: int = 500_000
    list_within: float = 60.0
    idle: float = 90.0
    """A watch this silent is dead: the server sends a bookmark each minute."""
    watch: tuple[float, float] = (240.0, 300.0)
    """The server ends a watch after a time between these, so that a fleet does not come back all at once."""
    backoff: tuple[float, float] = (0.8, 30.0)


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """The objects at one instant, and how far they can be trusted."""

    objects: Mapping[Key, T]
    is_synced: bool
    """Whether there ever was a complete list."""
    age: float | None
    """Seconds since the server last said anything. Up to 75 or so when all is quiet."""
    problem: ApiFailure | Literal[""]
    detail: str
    undecodable: int
    lists: int
    watches: int
    failures: Mapping[ApiFailure, int]
    """So far, by reason."""


class _ObjectMeta(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct):
    metadata: _ObjectMeta


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""
    details: _Details | None = None


class _Entry(NamedTuple, Generic[T]):
    uid: str
    version: int | None
    value: T | None
    is_bad: bool


_object = msgspec.json.Decoder(_Object)
_list = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_Event)
_status = msgspec.json.Decoder(_Status)


class _OutOfStep(Exception):  # noqa: N818
    """The stream cannot be right; only a new list helps."""


class Reflector(Generic[T]):
    """Follows `what` in a thread of its own from start() to stop(). `on_change` is called in that thread."""

    def __init__(
        self,
        client: ApiClient,
        what: What,
        decode: Decode[T],
        clock: Clock,
        *,
        on_change: Callable[[Sequence[Change[T]]], object] | None = None,
        timing: Timing = Timing(),  # noqa: B008  (frozen)
        random: Random | None = None,
    ) -> None:
        self._client = client
        self._what = what
        self._decode = decode
        self._clock = clock
        self._on_change = on_change
        self._timing = timing
        self._random = random or Random()  # noqa: S311  (jitter)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reflector {what.path}", daemon=True)
        # Below: the thread's own.
        self._entries: dict[Key, _Entry[T]] = {}
        self._version: str = ""
        """Up to which the view is in step; empty before the first list and when a new one is due."""
        self._failures = 0
        self._paths = deque((what.path, *what.other_paths))
        # Below: shared, under the lock.
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._objects: dict[Key, T] = {}
        self._copy: Mapping[Key, T] | None = None
        self._heard_at: float | None = None
        self._problem: ApiError | None = None
        self._undecodable = 0
        self._lists = 0
        self._watches = 0
        self._failed_so_far: Counter[ApiFailure] = Counter()

    def start(self) -> None:
        self._thread.start()

    def stop(self, within: float = 5.0) -> None:
        """End the thread; a request under way is broken off."""
        self._stopping.set()
        with self._lock:
            if self._exchange:
                self._exchange.abort()
        if self._thread.is_alive():
            self._thread.join(within)

    def view(self) -> View[T]:
        with self._lock:
            if self._copy is None:
                self._copy = dict(self._objects)
            return View(
                self._copy,
                is_synced=self._lists > 0,
                age=None if self._heard_at is None else self._clock.monotonic() - self._heard_at,
                problem=self._problem.reason if self._problem else "",
                detail=str(self._problem or ""),
                undecodable=self._undecodable,
                lists=self._lists,
                watches=self._watches,
                failures=dict(self._failed_so_far),
            )

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except ApiError as error:
                self._failed(error, is_list_due=error.reason in {"expired", "not_found"})
            except _OutOfStep as error:
                self._failed(ApiError("bad_answer", str(error)), is_list_due=True)
            except Exception as error:
                _log.exception("the watch of %s goes on after a mistake of ours", self._what.path)
                self._failed(ApiError("bad_answer", repr(error)), is_list_due=True)

    def _failed(self, error: ApiError, *, is_list_due: bool) -> None:
        if self._stopping.is_set():
            return
        self._failures += 1
        with self._lock:
            self._failed_so_far[error.reason] += 1
        if error.reason == "not_found":
            self._paths.rotate(-1)
        if is_list_due or self._failures % _FAILURES_BEFORE_LIST == 0:
            self._version = ""
        self._set_problem(error)
        self._stopping.wait(max(self._backoff(), error.retry_after))

    def _backoff(self) -> float:
        first, last = self._timing.backoff
        high = min(last, first * 2.0 ** min(self._failures, 30))
        return self._random.uniform(max(first, high / 2), high)

    def _set_problem(self, problem: ApiError | None) -> None:
        with self._lock:
            before, self._problem = self._problem, problem
        if problem and (before is None or before.reason != problem.reason):
            _log.warning("the watch of %s is interrupted: %s", self._what.path, problem)
        elif before and not problem:
            _log.info("the watch of %s works again", self._what.path)

    @contextmanager
    def _request(self, query: Mapping[str, str], idle: float, within: float) -> Iterator[Exchange]:
        exchange = self._client.exchange(self._paths[0], query, idle=idle, within=within)
        with self._lock:
            self._exchange = exchange
        try:
            if self._stopping.is_set():
                raise ApiError("stopped", "the watch is being stopped")
            with exchange:
                yield exchange
        finally:
            with self._lock:
                self._exchange = None

    # --- the list ----------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        entries: dict[Key, _Entry[T]] = {}
        tokens = {""}
        page = self._page("")
        self._add(entries, page)
        while token := page.metadata.next_page:
            if token in tokens or len(entries) > self._timing.most_objects:
                raise ApiError("bad_answer", "the list has no end")
            tokens.add(token)
            page = self._page(token)
            self._add(entries, page)
        if not page.metadata.version:
            raise ApiError("bad_answer", "the list has no version")
        self._replace(entries, page.metadata.version)

    def _page(self, token: str) -> _List:
        query = self._what.query(limit=str(self._timing.page))
        if token:
            query["continue"] = token
        elif self._what.may_start_stale and not self._lists:
            query["resourceVersion"] = "0"
        within = self._timing.list_within
        with self._request(query, within, within) as exchange:
            body = exchange.body()
        try:
            return _list.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError("bad_answer", f"the list cannot be read: {error}") from error

    def _add(self, entries: dict[Key, _Entry[T]], page: _List) -> None:
        for number, raw in enumerate(page.items or ()):
            meta = _meta(raw)
            if meta is None:  # a place that no real object can have, so that it is counted
                entries[Key("/", f"{len(entries)}.{number}")] = _Entry("", None, None, is_bad=True)
            else:
                entries[Key(meta.namespace, meta.name)] = self._entry(meta, raw)

    def _entry(self, meta: _ObjectMeta, raw: msgspec.Raw) -> _Entry[T]:
        version = _number(meta.version)
        try:
            return _Entry(meta.uid, version, self._decode(raw), is_bad=False)
        except Exception:
            _log.debug("%s %s/%s cannot be decoded", self._what.path, meta.namespace, meta.name, exc_info=True)
            return _Entry(meta.uid, version, None, is_bad=True)

    def _replace(self, entries: dict[Key, _Entry[T]], version: str) -> None:
        objects = {key: entry.value for key, entry in entries.items() if entry.value is not None}
        changes = list(_differences(self._entries, entries))
        self._entries, self._version = entries, version
        with self._lock:
            self._objects, self._copy = objects, None
            self._undecodable = sum(entry.is_bad for entry in entries.values())
            self._heard_at = self._clock.monotonic()
            self._lists += 1
        self._set_problem(None)
        self._tell(changes)

    # --- the watch ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        seconds = self._random.uniform(*self._timing.watch)
        query = self._what.query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(max(1, round(seconds))),
        )
        started = self._clock.monotonic()
        is_silent = True
        with self._request(query, self._timing.idle, seconds + _GRACE) as exchange:
            with self._lock:
                self._watches += 1
            for line in exchange.lines():
                self._take(line)
                is_silent = False
                self._heard()
        if is_silent and self._clock.monotonic() - started < _AT_ONCE:
            raise ApiError("disconnected", "the watch ended as soon as it began")
        self._failures = 0

    def _heard(self) -> None:
        self._failures = 0
        with self._lock:
            self._heard_at = self._clock.monotonic()
        if self._problem:
            self._set_problem(None)

    def _take(self, line: bytes) -> None:
        try:
            event = _event.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _OutOfStep(f"an event cannot be read: {error}") from error
        if event.type == "ERROR":
            raise _as_error(event.object)
        meta = _meta(event.object) if event.type != "BOOKMARK" else _bookmark(event.object)
        if meta is None:
            raise _OutOfStep(f"an event of type {event.type[:40]!r} is about nothing that we know")
        if event.type in {"ADDED", "MODIFIED", "DELETED"}:
            self._apply(event, meta)
        elif event.type != "BOOKMARK":
            raise _OutOfStep(f"an event of the unknown type {event.type[:40]!r}")
        self._version = _later(meta.version, self._version)

    def _apply(self, event: _Event, meta: _ObjectMeta) -> None:
        """Events come in order. One out of order that would change something means that we missed something."""
        key = Key(meta.namespace, meta.name)
        held = self._entries.get(key)
        is_gone = event.type == "DELETED"
        if _is_known(held, meta, is_gone=is_gone):
            return
        if _is_before(meta.version, self._version):
            raise _OutOfStep("the stream went back in time")
        self._put(key, held, None if is_gone else self._entry(meta, event.object))

    def _put(self, key: Key, held: _Entry[T] | None, entry: _Entry[T] | None) -> None:
        old, new = (each.value if each else None for each in (held, entry))
        if entry:
            self._entries[key] = entry
        else:
            self._entries.pop(key, None)
        with self._lock:
            self._copy = None
            self._undecodable += bool(entry and entry.is_bad) - bool(held and held.is_bad)
            if new is None:
                self._objects.pop(key, None)
            else:
                self._objects[key] = new
        if old is not None or new is not None:
            self._tell([Change(key, old, new)])

    def _tell(self, changes: Sequence[Change[T]]) -> None:
        if not changes or self._on_change is None:
            return
        try:
            self._on_change(changes)
        except Exception:
            _log.exception("what follows %s failed on a change", self._what.path)


def _differences(before: Mapping[Key, _Entry[T]], after: Mapping[Key, _Entry[T]]) -> Iterator[Change[T]]:
    """What a new list changes; an object made anew under its old name is one change."""
    for key, entry in after.items():
        held = before.get(key)
        old = held.value if held else None
        is_same = held is not None and (held.uid, held.version, held.is_bad) == (entry.uid, entry.version, entry.is_bad)
        if not is_same and (old is not None or entry.value is not None):
            yield Change(key, old, entry.value)
    for key, entry in before.items():
        if key not in after and entry.value is not None:
            yield Change(key, entry.value, None)


def _is_known(held: _Entry[T] | None, meta: _ObjectMeta, *, is_gone: bool) -> bool:
    """Whether an event says nothing new: a deletion of what is not there, or a state not newer than the one held."""
    if held is None:
        return is_gone
    version = _number(meta.version)
    if is_gone or version is None or held.version is None:
        return False
    return held.uid == meta.uid and version <= held.version


def _meta(raw: msgspec.Raw) -> _ObjectMeta | None:
    try:
        return _object.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class _Bookmark(msgspec.Struct):
    metadata: _ListMeta


_bookmarks = msgspec.json.Decoder(_Bookmark)


def _bookmark(raw: msgspec.Raw) -> _ObjectMeta | None:
    """A bookmark is about no object and has a version only."""
    try:
        version = _bookmarks.decode(raw).metadata.version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return _ObjectMeta("", version=version) if version else None


def _as_error(raw: msgspec.Raw) -> ApiError:
    try:
        status = _status.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status()
    message = f"the watch ended with {status.code}: {status.message[:300]}"
    wait = status.details.retry_after if status.details else None
    return ApiError("expired" if status.code == 410 else "server_error", message, wait)


def _number(version: str) -> int | None:
    """Versions are numbers on every server there is, though it took until 1.35 for the API to promise it."""
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else None


def _is_before(version: str, other: str) -> bool:
    this, that = _number(version), _number(other)
    return this is not None and that is not None and this < that


def _later(version: str, other: str) -> str:
    return other if _is_before(version, other) or not version else version
