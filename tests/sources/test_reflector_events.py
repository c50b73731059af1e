"""What each kind of event does to a view: fed by hand, without a server."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gpusight.model.time import ManualClock
from gpusight.sources.kubernetes.access import Access, Fixed
from gpusight.sources.kubernetes.client import ApiClient, ApiError
from gpusight.sources.kubernetes.reflector import Change, Key, Reflector, What, _Entry, _OutOfStep
from tests.sources.test_reflector import PODS, decode

A, B = Key("n", "a"), Key("n", "b")


def thing(name: str, uid: str, version: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "labels": labels}}


class Fed:
    """A reflector that is in step up to version 10, with `a` of version 7 in its view."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: list[Change[tuple[str, str]]] = []
        client = ApiClient(Access("http://127.0.0.1:9", Fixed()), self.clock)
        self.reflector = Reflector(client, What(PODS), decode, self.clock, on_change=self._listen)
        self.reflector._replace({A: _Entry("u1", 7, ("u1", "7"), is_bad=False)}, "10")
        self.told.clear()

    def _listen(self, changes: Sequence[Change[tuple[str, str]]]) -> None:
        self.told.extend(changes)

    def feed(self, kind: str, given: object) -> None:
        self.reflector._take(json.dumps({"type": kind, "object": given}).encode())

    @property
    def objects(self) -> dict[Key, tuple[str, str]]:
        return dict(self.reflector.view().objects)


@pytest.fixture
def fed() -> Fed:
    return Fed()


def test_added_modified_deleted(fed: Fed) -> None:
    fed.feed("ADDED", thing("b", "u2", "11"))
    fed.feed("MODIFIED", thing("a", "u1", "12"))
    fed.feed("DELETED", thing("b", "u2", "13"))
    assert fed.objects == {A: ("u1", "12")}
    assert fed.told == [
        Change(B, None, ("u2", "11")),
        Change(A, ("u1", "7"), ("u1", "12")),
        Change(B, ("u2", "11"), None),
    ]
    assert fed.reflector._version == "13"


def test_a_repetition_changes_nothing(fed: Fed) -> None:
    for version in ("7", "6"):
        fed.feed("MODIFIED", thing("a", "u1", version))
    fed.feed("DELETED", thing("gone", "u9", "9"))
    assert (fed.objects, fed.told, fed.reflector._version) == ({A: ("u1", "7")}, [], "10")


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("ADDED", thing("deleted-long-ago", "u3", "5")),
        ("MODIFIED", thing("a", "u1", "8")),
        ("MODIFIED", thing("a", "other uid", "9")),
        ("DELETED", thing("a", "u1", "9")),
        ("RENAMED", thing("a", "u1", "11")),
        ("ADDED", {"spec": {}}),
        ("ADDED", {"metadata": {"name": None}}),
        ("BOOKMARK", {}),
        ("BOOKMARK", {"metadata": {}}),
    ],
)
def test_what_cannot_be_right_asks_for_a_new_list(fed: Fed, kind: str, given: object) -> None:
    with pytest.raises(_OutOfStep):
        fed.feed(kind, given)
    assert (fed.objects, fed.told) == ({A: ("u1", "7")}, [])


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b'{"type":"ADDED"}', b'{"type":7,"object":{}}', b"\xff"])
def test_a_line_that_is_no_event_asks_for_a_new_list(fed: Fed, line: bytes) -> None:
    with pytest.raises(_OutOfStep):
        fed.reflector._take(line)


def test_a_bookmark_tells_the_version_only(fed: Fed) -> None:
    fed.feed("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "50", "creationTimestamp": None}})
    fed.feed("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
    assert (fed.reflector._version, fed.told) == ("50", [])


def test_two_deletions_may_share_a_version(fed: Fed) -> None:
    fed.feed("ADDED", thing("b", "u2", "11"))
    fed.feed("DELETED", thing("a", "u1", "12"))
    fed.feed("DELETED", thing("b", "u2", "12"))
    assert fed.objects == {}


def test_versions_that_are_no_numbers_are_taken_as_they_come(fed: Fed) -> None:
    fed.feed("MODIFIED", thing("a", "u1", "x-1"))
    fed.feed("MODIFIED", thing("a", "u1", "x-0"))
    assert (fed.objects, fed.reflector._version) == ({A: ("u1", "x-0")}, "x-0")


def test_an_object_that_turns_bad_is_gone_and_counted(fed: Fed) -> None:
    fed.feed("MODIFIED", thing("a", "u1", "11", broken="yes"))
    assert (fed.objects, fed.reflector.view().undecodable) == ({}, 1)
    fed.feed("MODIFIED", thing("a", "u1", "12", broken="still"))
    assert fed.told == [Change(A, ("u1", "7"), None)]
    fed.feed("DELETED", thing("a", "u1", "13"))
    assert fed.reflector.view().undecodable == 0
    assert fed.told == [Change(A, ("u1", "7"), None)]


@pytest.mark.parametrize(
    ("given", "reason", "wait"),
    [
        ({"code": 410, "message": "old"}, "expired", 0),
        ({"code": 500}, "server_error", 0),
        ({"code": 429, "details": {"retryAfterSeconds": 7}}, "server_error", 7),
        ({"code": 429, "details": {"retryAfterSeconds": 1e9}}, "server_error", 300),
        ({"code": 429, "details": {"retryAfterSeconds": -1}}, "server_error", 0),
        ([], "server_error", 0),
        ({"code": "410"}, "server_error", 0),
    ],
)
def test_an_error_event_is_an_error(fed: Fed, given: object, reason: str, wait: float) -> None:
    with pytest.raises(ApiError) as error:
        fed.feed("ERROR", given)
    assert (error.value.reason, error.value.retry_after) == (reason, wait)


def test_the_age_follows_the_clock(fed: Fed) -> None:
    fed.clock.advance(61)
    assert fed.reflector.view().age == 61
    fed.reflector._heard()
    assert fed.reflector.view().age == 0


def test_a_new_list_tells_only_what_changed(fed: Fed) -> None:
    fed.reflector._replace(
        {A: _Entry("u1", 7, ("u1", "7"), is_bad=False), B: _Entry("u2", 20, ("u2", "20"), is_bad=False)}, "20"
    )
    assert fed.told == [Change(B, None, ("u2", "20"))]
    fed.reflector._replace({A: _Entry("u5", 21, ("u5", "21"), is_bad=False)}, "21")
    assert fed.told[1:] == [Change(A, ("u1", "7"), ("u5", "21")), Change(B, ("u2", "20"), None)]


def test_three_watches_in_vain_ask_for_a_new_list(fed: Fed) -> None:
    fed.reflector._stopping.wait = lambda timeout=None: False  # type: ignore[method-assign]
    for number in range(3):
        assert fed.reflector._version == "10", number
        fed.reflector._failed(ApiError("disconnected", "x"), is_list_due=False)
    assert fed.reflector._version == ""
