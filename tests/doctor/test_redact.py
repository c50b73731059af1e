"""Secrets and names do not get through, and what helps does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.doctor.redact import Redactor

REDACTOR = Redactor(["hunter2", "p4ss word", "ab"], ["gpu-box-7", "gpu-box-7.corp.example"], ["alice", "root"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the password is hunter2", "the password is <secret>"),
        ("xhunter2y", "x<secret>y"),
        ("ab cab", "<secret> cab"),  # short ones only where they stand alone
        ("http://me:pw@prom.corp.example:9090/api/v1/query", "http://<host>:9090/api/v1/query"),
        ("https://hooks.example.com/services/T0/B1/xyz", "https://<host>/<secret>"),
        ("http://127.0.0.1:9090/metrics", "http://127.0.0.1:9090/metrics"),
        ("http://model.example/v1?key=zzz", "http://<host>/<secret>?<secret>"),
        ("postgres://u:p@db/x", "postgres://<host>/<secret>"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: <secret>"),
        ('{"api_key": "zzz"}', '{"api_key": "<secret>"}'),
        ("sent bearer abcdefgh12345 to it", "sent bearer <secret> to it"),
        ("gst_abcDEF-123", "<secret>"),
        ("eyJhbGciOi.eyJzdWIi.sig", "<secret>"),
        ("sk-proj-abcdefgh", "<secret>"),
        ("5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8", "<secret>"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\nzz\n-----END PRIVATE KEY-----", "<secret>"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE, cut off", "<secret>"),
        ("mail bob.x@corp.example now", "mail <address> now"),
        ("from 10.20.30.40 port 1", "from <address> port 1"),
        ("from fe80::1%eth0 and 2001:db8::7", "from <address> and <address>"),
        ("at 12:30:05 o'clock", "at 12:30:05 o'clock"),
        ("on gpu-box-7 and GPU-BOX-7.corp.example, not gpu-box-70", "on <host> and <host>, not gpu-box-70"),
        ("/home/alice/x, root, malice", "/home/<user>/x, root, malice"),
        ("DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS 1.2.3", "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS 1.2.3"),
        ("the token file cannot be read", "the token file cannot be read"),
        ("/usr/local/vgpu/containers does not exist", "/usr/local/vgpu/containers does not exist"),
    ],
)
def test_what_is_left(text: str, expected: str) -> None:
    assert REDACTOR.text(text) == expected


def test_all_of_a_structure() -> None:
    data = {"a": ["hunter2", {"b": ("alice", 3, None, 1.5, True)}]}
    assert REDACTOR.data(data) == {"a": ["<secret>", {"b": ["<user>", 3, None, 1.5, True]}]}


@given(
    st.text(st.characters(codec="utf-8"), min_size=4).filter(lambda text: text.strip() and "<secret>" not in text),
    st.text(),
    st.text(),
)
def test_a_known_secret_never_gets_through(secret: str, before: str, after: str) -> None:
    if secret in before or secret in after or secret in "<secret><host><user><address>/?":
        return
    assert secret not in Redactor([secret]).text(f"{before} {secret} {after}").replace("<secret>", "\0")
