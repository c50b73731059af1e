"""Listen addresses as typed, and what binding them says when it fails."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.exposition.listen import Address, ListenError, bind, bind_all, bound_address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9394", ("", 9394)),
        ("9394", ("", 9394)),
        ("0", ("", 0)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9394", ("::1", 9394)),
        ("[fe80::1%lo]:1", ("fe80::1%lo", 1)),
        ("localhost:9394", ("localhost", 9394)),
        (" host.example:65535 ", ("host.example", 65535)),
    ],
)
def test_an_address_is_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == Address(*address)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the port is missing"),
        ("host:", "the port is missing"),
        ("localhost", "the port is missing"),
        ("127.0.0.1", "the port is missing"),
        ("host:http", "the port 'http' is not a number"),
        ("host:-1", "the port '-1' is not a number"),
        (":٣", "the port '٣' is not a number"),
        ("٣", "the port '٣' is not a number"),
        (":65536", "a number from 0 to 65535"),
        (":" + "9" * 5000, "a number from 0 to 65535"),
        ("::1:9394", "in brackets"),
        ("::1", "in brackets"),
        ("[::1]", "in brackets"),
        ("[host]:1", "brackets are for IPv6"),
        ("http://host:1", "without a scheme"),
        ("host:1/metrics", "without a scheme or a path"),
    ],
)
def test_a_bad_address_is_one_sentence(text: str, why: str) -> None:
    with pytest.raises(ListenError) as caught:
        parse_address(text)
    assert str(caught.value).startswith(f"cannot listen on {text!r}: ")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text())
def test_any_text_is_an_address_or_a_listen_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except ListenError:
        return
    assert 0 <= port <= 65535
    assert "/" not in host


def test_an_address_prints_as_it_is_typed() -> None:
    assert [str(parse_address(text)) for text in (":1", "h:2", "[::1]:3")] == [":1", "h:2", "[::1]:3"]


def test_port_zero_is_a_real_port_afterwards() -> None:
    (sock,) = bind(Address("127.0.0.1", 0))
    with sock:
        host, _, port = bound_address(sock).rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0


def test_an_empty_host_is_reached_by_ipv4_and_ipv6() -> None:
    (sock,) = bind(Address("", 0))
    with sock:
        port = sock.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), 5).close()
        if sock.family == socket.AF_INET6:
            socket.create_connection(("::1", port), 5).close()
            assert bound_address(sock) == f"[::]:{port}"


def test_all_addresses_of_a_name_share_a_port() -> None:
    sockets = bind(Address("localhost", 0))
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
    finally:
        for sock in sockets:
            sock.close()


def test_ipv6_without_ipv6_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def no_ipv6(family: int, kind: int, protocol: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, kind, protocol)

    monkeypatch.setattr("gpusight.exposition.listen.socket.socket", no_ipv6)
    (sock,) = bind(Address("", 0))
    with sock:
        assert bound_address(sock).startswith("0.0.0.0:")


@pytest.mark.parametrize("host", ["127.0.0.1", "", "localhost"])
def test_a_taken_port_is_one_sentence(host: str) -> None:
    sockets = bind(Address(host, 0))
    port = sockets[0].getsockname()[1]
    try:
        with pytest.raises(ListenError) as caught:
            bind(Address(host, port))
    finally:
        for sock in sockets:
            sock.close()
    assert str(caught.value) == (
        f"cannot listen on {host}:{port}: address already in use; choose another with --web.listen-address"
    )


def test_a_foreign_address_is_one_sentence() -> None:
    with pytest.raises(ListenError, match=r"^cannot listen on 192\.0\.2\.1:0: cannot assign requested address; "):
        bind(Address("192.0.2.1", 0))


def test_a_strange_name_is_one_sentence() -> None:
    with pytest.raises(
        ListenError, match=r"^cannot listen on no\.such\.invalid:1: .* is not an address of this machine"
    ):
        bind(Address("no.such.invalid", 1))


def test_no_address_is_one_sentence() -> None:
    with pytest.raises(ListenError, match="there is no address to listen on"):
        bind_all([])


def test_all_or_nothing() -> None:
    (taken,) = bind(Address("127.0.0.1", 0))
    with taken, pytest.raises(ListenError):
        bind_all(["127.0.0.1:0", bound_address(taken)])  # the first one must not leak: ResourceWarning is an error
