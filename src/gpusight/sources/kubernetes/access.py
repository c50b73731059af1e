"""Where the API server is and how to prove who we are: kubeconfig, service account, or a credential program.

Our own reader instead of a client library's: the smallest of those (lightkube) takes 10 MiB more, for what is a YAML
file with five ways to authenticate. Files are looked at again: tokens each minute and when the server refuses one,
certificates with each connection. Secrets given as text go to OpenSSL through memory, never through a file on disk.
"""

import base64
import binascii
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gpusight.model.time import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LARGEST_FILE = 4 << 20
_TOKEN_EVERY = 60.0
_BEFORE_EXPIRY = 60.0
_PLUGIN_WITHIN = 30.0


class AccessError(Exception):
    """There is no way in; the message is a sentence without secrets."""


class Pem(NamedTuple):
    """A certificate or key: in a file, or as such."""

    path: Path | None = None
    data: bytes = b""

    def __repr__(self) -> str:
        return f"Pem({self.path or '...'})"

    def __bool__(self) -> bool:
        return bool(self.path or self.data)


NO_PEM = Pem()


class Certificate(NamedTuple):
    """What a client shows to the server."""

    cert: Pem
    key: Pem


class Credentials(Protocol):
    """Proof of who we are. May raise AccessError."""

    def headers(self) -> Mapping[str, str]:
        """For the next request."""
        ...

    def certificate(self) -> Certificate | None:
        """For the next connection, where it is not the kubeconfig's."""
        ...

    def renew(self) -> bool:
        """The server refused us: get new proof; whether there is any."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that a connection needs."""

    server: str
    credentials: Credentials = field(repr=False)
    ca: Pem = NO_PEM
    certificate: Certificate | None = None
    server_name: str = ""
    """The name that the server's certificate must carry, where it is not the address's."""
    is_insecure: bool = False

    def tls_context(self) -> ssl.SSLContext:
        """Made from the files as they are now."""
        try:
            return self._tls_context()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise AccessError(f"the certificates for {self.server} cannot be used: {error}") from error

    def _tls_context(self) -> ssl.SSLContext:
        cafile = str(self.ca.path) if self.ca.path else None
        context = ssl.create_default_context(cafile=cafile, cadata=self.ca.data.decode("ascii") or None)
        # Python 3.13 asks for extensions that the CAs of many clusters do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        shown = self.credentials.certificate() or self.certificate
        if shown:
            with ExitStack() as stack:
                context.load_cert_chain(stack.enter_context(_file(shown.cert)), stack.enter_context(_file(shown.key)))
        return context


@contextmanager
def _file(pem: Pem) -> Iterator[str]:
    """A path for OpenSSL, which reads files only: an anonymous one in memory where there is none."""
    if pem.path:
        yield str(pem.path)
        return
    handle = os.memfd_create("gpusight", os.MFD_CLOEXEC)
    with os.fdopen(handle, "wb") as file:
        file.write(pem.data)
        file.flush()
        yield f"/proc/self/fd/{handle}"


# --- proofs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fixed:
    """A token or password that never changes, or nothing at all."""

    authorization: str = field(default="", repr=False)

    def headers(self) -> Mapping[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}

    def certificate(self) -> Certificate | None:
        return None

    def renew(self) -> bool:
        return False


class TokenFile:
    """A token that somebody else keeps fresh in a file, as the kubelet does for service accounts."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    def headers(self) -> Mapping[str, str]:
        if self._clock.monotonic() - self._read_at >= _TOKEN_EVERY:
            self._read()
        return {"Authorization": f"Bearer {self._token}"}

    def certificate(self) -> Certificate | None:
        return None

    def renew(self) -> bool:
        before = self._token
        self._read()
        return self._token != before

    def _read(self) -> None:
        self._token = _read_text(self._path).strip()
        self._read_at = self._clock.monotonic()
        if not self._token.isascii() or not self._token.isprintable() or not self._token:
            raise AccessError(f"{self._path} holds no token")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that prints an ExecCredential, as clouds use them."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    api_version: str


class PluginCredentials:
    """What a program says, until shortly before it expires."""

    def __init__(self, plugin: Plugin, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._status: dict[str, Any] = {}
        self._expires_at = float("-inf")

    def headers(self) -> Mapping[str, str]:
        token = self._fresh().get("token")
        return {"Authorization": f"Bearer {token}"} if isinstance(token, str) and token else {}

    def certificate(self) -> Certificate | None:
        cert, key = (str(self._fresh().get(f"client{part}Data") or "") for part in ("Certificate", "Key"))
        return Certificate(Pem(data=cert.encode()), Pem(data=key.encode())) if cert and key else None

    def renew(self) -> bool:
        before = self._status
        self._run()
        return self._status != before

    def _fresh(self) -> dict[str, Any]:
        if self._clock.now() >= self._expires_at - _BEFORE_EXPIRY:
            self._run()
        return self._status

    def _run(self) -> None:
        self._status = _run_plugin(self._plugin)
        self._expires_at = _timestamp(self._status.get("expirationTimestamp"))


def _timestamp(text: object) -> float:
    """Without a readable one it never expires; the server will tell."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else float("inf")
    except ValueError:
        return float("inf")


def _run_plugin(plugin: Plugin) -> dict[str, Any]:
    import subprocess  # noqa: PLC0415  (agents in a cluster never need it)

    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(  # noqa: S603  (the kubeconfig names it, and who can write that is us)
            plugin.command, env=environment, capture_output=True, timeout=_PLUGIN_WITHIN, check=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        status = json.loads(done.stdout)["status"]
        return dict(status)
    except (OSError, subprocess.SubprocessError) as error:
        what = (
            f"exit code {error.returncode}"
            if isinstance(error, subprocess.CalledProcessError)
            else type(error).__name__
        )
        raise AccessError(f"the credential program {plugin.command[0]!r} failed: {what}") from None
    except (ValueError, KeyError, TypeError):
        raise AccessError(f"the credential program {plugin.command[0]!r} printed no ExecCredential") from None


# --- where to find them ----------------------------------------------------------------------------------------------


def find_access(
    environ: Mapping[str, str],
    clock: Clock,
    *,
    kubeconfig: Path | None = None,
    insecure: bool = False,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The kubeconfig given, else the first of $KUBECONFIG, else the pod's service account, else ~/.kube/config."""
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    path = kubeconfig or next((each for each in named if each.exists()), None)
    if path is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ, clock, service_account)
    home = Path(environ.get("HOME", "/nonexistent")) / ".kube" / "config"
    if path is None and not home.exists():
        raise AccessError("no kubeconfig is given, and this is not a pod with a service account")
    return from_kubeconfig(path or home, environ, clock, insecure=insecure)


def in_cluster(environ: Mapping[str, str], clock: Clock, directory: Path = SERVICE_ACCOUNT) -> Access:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    address = f"[{host}]" if ":" in host else host
    return Access(f"https://{address}:{port}", TokenFile(directory / "token", clock), Pem(directory / "ca.crt"))


def from_kubeconfig(path: Path, environ: Mapping[str, str], clock: Clock, *, insecure: bool = False) -> Access:
    """The current context of a kubeconfig. `insecure` lets the server go unchecked whatever the file says."""
    try:
        return _Kubeconfig(path, environ, clock).access(insecure)
    except _Wrong as error:
        raise AccessError(f"kubeconfig {path}: {error}") from error


class _Wrong(Exception):  # noqa: N818
    """What is wrong with the file, without its name."""


class _Kubeconfig:
    """A kubeconfig being read. Its paths are relative to its own directory."""

    def __init__(self, path: Path, environ: Mapping[str, str], clock: Clock) -> None:
        self._directory = path.parent
        self._environ = environ
        self._clock = clock
        self._content = _load_yaml(path)

    def access(self, insecure: bool) -> Access:
        context = self._named("contexts", "context", _text(self._content, "current-context"))
        cluster = self._named("clusters", "cluster", _text(context, "cluster"))
        user = self._named("users", "user", _text(context, "user")) if context.get("user") else {}
        server = _text(cluster, "server")
        if not server.startswith(("https://", "http://")):
            raise _Wrong("the cluster has no server address")
        if cluster.get("proxy-url"):
            raise _Wrong("proxy-url is not supported")
        cert, key = self._pem(user, "client-certificate"), self._pem(user, "client-key")
        return Access(
            server.rstrip("/"),
            self._credentials(user),
            self._pem(cluster, "certificate-authority"),
            Certificate(cert, key) if cert and key else None,
            _text(cluster, "tls-server-name"),
            insecure or cluster.get("insecure-skip-tls-verify") is True,
        )

    def _credentials(self, user: dict[str, Any]) -> Credentials:
        """In the order in which kubectl looks."""
        if user.get("auth-provider"):
            raise _Wrong("auth-provider is gone from Kubernetes since 1.26; use exec")
        if user.get("exec"):
            return PluginCredentials(self._plugin(_mapping(user["exec"], "exec")), self._clock)
        if user.get("tokenFile"):
            return TokenFile(self._directory / _text(user, "tokenFile"), self._clock)
        if user.get("token"):
            return Fixed(f"Bearer {_text(user, 'token')}")
        if user.get("username"):
            pair = f"{_text(user, 'username')}:{_text(user, 'password')}"
            return Fixed(f"Basic {base64.b64encode(pair.encode()).decode()}")
        return Fixed()

    def _plugin(self, given: dict[str, Any]) -> Plugin:
        command = _text(given, "command")
        if "/" in command:
            command = str(self._directory / command)
        arguments = given.get("args") or []
        entries = [_mapping(entry, "exec.env") for entry in given.get("env") or []]
        environment = {**self._environ, **{_text(entry, "name"): _text(entry, "value") for entry in entries}}
        return Plugin((command, *map(str, arguments)), environment, _text(given, "apiVersion"))

    def _pem(self, section: dict[str, Any], key: str) -> Pem:
        if data := _text(section, f"{key}-data"):
            try:
                return Pem(data=base64.b64decode(data, validate=True))
            except binascii.Error:
                raise _Wrong(f"{key}-data is not base64") from None
        path = _text(section, key)
        return Pem(self._directory / path) if path else NO_PEM

    def _named(self, section: str, part: str, name: str) -> dict[str, Any]:
        for entry in self._content.get(section) or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                return _mapping(entry.get(part), part)
        raise _Wrong(f"there is no {part} {name!r} in it")


def _load_yaml(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415  (3 MiB that an agent in a cluster does not need)

    try:
        return _mapping(yaml.safe_load(_read_text(path)), "the file")
    except AccessError as error:
        raise _Wrong(str(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _Wrong("this is not YAML") from None


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_FILE).decode()
    except OSError as error:
        raise AccessError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise AccessError(f"{path} is not text") from None


def _mapping(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(f"{what} is not a mapping")
    return value


def _text(section: dict[str, Any], key: str) -> str:
    value = section.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Wrong(f"{key} is not text")
    return value
