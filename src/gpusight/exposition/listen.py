"""Listen addresses: `:9394`, `9394`, `127.0.0.1:0`, `[::1]:9394`, `localhost:9394`; and binding them."""

import errno
import os
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple

BACKLOG = 4096
_HINT = "choose another with --web.listen-address"
_Place = tuple[int, tuple[Any, ...]]
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


class ListenError(ValueError):
    """An address that cannot be listened on; the message says which and why."""


class Address(NamedTuple):
    """Where to listen; an empty host means every interface, IPv4 and IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """One `--web.listen-address` as typed."""
    given = text.strip()
    if "/" in given:
        raise ListenError(f"cannot listen on {text!r}: write host:port, without a scheme or a path")
    host, colon, port = given.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise ListenError(f"cannot listen on {text!r}: brackets are for IPv6 addresses, as in [::1]:9394")
    elif ":" in host:
        raise ListenError(f"cannot listen on {text!r}: write an IPv6 address in brackets, as in [::1]:9394")
    if not colon and not port.isdecimal():
        raise ListenError(f"cannot listen on {text!r}: the port is missing, write host:port or :port")
    return Address(host, _parse_port(port, text))


def _parse_port(port: str, text: str) -> int:
    if not port:
        raise ListenError(f"cannot listen on {text!r}: the port is missing, write host:port or :port")
    if not (port.isascii() and port.isdecimal()):
        raise ListenError(f"cannot listen on {text!r}: the port {port!r} is not a number")
    if len(port) > 5 or int(port) > 65535:
        raise ListenError(f"cannot listen on {text!r}: a port is a number from 0 to 65535")
    return int(port)


def bind_all(addresses: Iterable[str]) -> list[socket.socket]:
    """Listening sockets for all of the addresses, or ListenError and none."""
    sockets: list[socket.socket] = []
    try:
        for text in addresses:
            sockets += bind(parse_address(text))
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise ListenError("there is no address to listen on; give one with --web.listen-address")
    return sockets


def bind(address: Address) -> list[socket.socket]:
    """Listening sockets for one address: a name such as `localhost` may stand for several."""
    if address.host in ("", "::"):
        return [_bind_everywhere(address)]
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    port = address.port
    for family, place in _resolve(address):
        try:
            sock = _listen(family, (place[0], port, *place[2:]))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                for other in sockets:
                    other.close()
                raise _cannot(address, error) from error
            absent = error
        else:
            sockets.append(sock)
            port = sock.getsockname()[1]  # all addresses of a name share the port that `:0` picked
    if absent and not sockets:
        raise _cannot(address, absent) from absent
    return sockets


def bound_address(sock: socket.socket) -> str:
    """Where a socket listens, with its real port."""
    host, port = sock.getsockname()[:2]
    return str(Address(host, port))


def _bind_everywhere(address: Address) -> socket.socket:
    try:
        return _listen(socket.AF_INET6, ("::", address.port), dual_stack=True)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise _cannot(address, error) from error
    try:
        return _listen(socket.AF_INET, ("0.0.0.0", address.port))
    except OSError as error:
        raise _cannot(address, error) from error


def _resolve(address: Address) -> list[_Place]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"cannot listen on {address}: {address.host!r} is not an address of this machine") from error
    places: dict[_Place, None] = {(family, tuple(place)): None for family, _, _, _, place in found}
    return list(places)


def _listen(family: int, place: tuple[Any, ...], *, dual_stack: bool = False) -> socket.socket:
    # The protocol is named because asyncio sets TCP_NODELAY on connections of such sockets only.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual_stack else 1)
        sock.bind(place)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _cannot(address: Address, error: OSError) -> ListenError:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return ListenError(f"cannot listen on {address}: {reason}; {_HINT}")
