"""Answers as bytes: made once, sent in pieces, compressed once, and not sent at all to who has them already."""

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gpusight.exposition.negotiate import accepts_gzip

JSON = "application/json"
_PIECE = 256 * 1024
_WORTH_ZIPPING = 1024
_VARY = "Accept, Accept-Encoding, Authorization, Cookie"
_encoder = msgspec.json.Encoder()


def encode_json(answer: Any) -> bytes:
    try:
        return _encoder.encode(answer)
    except UnicodeEncodeError:  # a label with half a surrogate pair must not cost the other rows
        return _encoder.encode(_printable(msgspec.to_builtins(answer)))


def _printable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_printable(item) for item in value]
        case dict():
            return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def _cut(body: bytes) -> tuple[bytes, ...]:
    return tuple(body[start : start + _PIECE] for start in range(0, len(body), _PIECE)) or (b"",)


class PiecesResponse(Response):
    """A body that goes out piece by piece, so that a client that does not read holds one of them only."""

    def __init__(
        self, pieces: Sequence[bytes], media_type: str, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        length = str(sum(map(len, pieces)))
        super().__init__(b"", status, {**(headers or {}), "Content-Length": length}, media_type)
        self._pieces = pieces

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        last = len(self._pieces) - 1
        for number, piece in enumerate(self._pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": number < last})


class BytesResponse(PiecesResponse):
    def __init__(
        self, body: bytes, media_type: str, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(_cut(body), media_type, status=status, headers=headers)


class JsonResponse(BytesResponse):
    def __init__(self, answer: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(encode_json(answer), JSON, status=status, headers=headers)


class Encoded:
    """An answer that many will ask for. Makes itself ready when it is made, which takes a while: do it in a thread."""

    def __init__(self, answer: Any) -> None:
        body = encode_json(answer)
        self.etag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        self._pieces = _cut(body)
        self._is_worth_zipping = len(body) >= _WORTH_ZIPPING
        self._zipped: tuple[bytes, ...] | None = None

    def zip(self) -> None:
        """Takes a while, too."""
        if self._zipped is None:
            self._zipped = _cut(gzip.compress(b"".join(self._pieces), compresslevel=4, mtime=0))

    def is_zipped_for(self, accept_encoding: str) -> bool:
        return self._is_worth_zipping and accepts_gzip(accept_encoding)

    def response(self, accept_encoding: str, if_none_match: str) -> Response:
        headers = {"ETag": self.etag, "Cache-Control": "private, no-cache", "Vary": _VARY}
        if has_it(if_none_match, self.etag):
            return Response(status_code=304, headers=headers)
        if self._zipped is not None and self.is_zipped_for(accept_encoding):
            return PiecesResponse(self._zipped, JSON, headers={**headers, "Content-Encoding": "gzip"})
        return PiecesResponse(self._pieces, JSON, headers=headers)


def has_it(if_none_match: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag.removeprefix("W/") in tags
