"""Files at https:// and s3:// addresses, downloaded into a temporary folder where the caller asked for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from http.client import HTTPException, InvalidURL
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import uuid4

from neatrec.errors import SourceError, writing
from neatrec.io.addresses import ANSWER_SECONDS, Address, in_time
from neatrec.io.files import ENDINGS, SourceFile, is_passed_over, open_file
from neatrec.io.options import SourceOptions
from neatrec.io.tables import TMPDIR
from neatrec.text import plural, printable

log = logging.getLogger(__name__)
SECONDS = 15
"""To wait for each part of an answer that has begun."""
CHUNK = 1 << 22


def download(address: Address, folder: Path, options: SourceOptions) -> list[SourceFile]:
    """The files at `address`, in `folder`."""
    if not options.allow_remote:
        raise SourceError(
            f"{printable(address.shown)} is not on this machine, and nothing is downloaded unless asked for",
            file=address.shown,
            argument="allow_remote",
            hint="Say --allow-remote, or download it.",
        )
    found = _from_https(address, folder) if address.scheme == "https" else _from_s3(address, folder)
    log.info("downloaded %s from %s", plural(len(found), "file"), printable(address.shown))
    return found


class _OnlyHttps(HTTPRedirectHandler):
    """Follows no redirect to an address that is not encrypted."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != "https":
            raise URLError("it leads to an address that is not https://")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _from_https(address: Address, folder: Path) -> list[SourceFile]:
    name = unquote(urlsplit(address.shown).path.rpartition("/")[2])
    opener = build_opener(_OnlyHttps)
    with _explained(address), in_time(lambda: opener.open(address.text, timeout=SECONDS)) as answer:
        path, size = _saved(answer, name, folder)
        wanted = answer.headers.get("Content-Length")
        if wanted is not None and int(wanted) != size:
            raise URLError(f"the connection was lost after {size:,} of {int(wanted):,} bytes")
    return [open_file(path, address.shown)]


def _from_s3(address: Address, folder: Path) -> list[SourceFile]:
    """An object, all tables below a prefix, or those that match a pattern; keys come from the environment."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, FileSelector, FileSystem, FileType

    with _explained(address):
        system, path = FileSystem.from_uri(address.text)
        fixed = path.split("*", 1)[0].rpartition("/")[0] if "*" in path else path.rstrip("/")
        build, (settings,) = system.__reduce__()  # with all that address and environment say
        once = AwsStandardS3RetryStrategy(max_attempts=1)  # what reads on tries again, for more than a minute
        seconds = {"connect_timeout": ANSWER_SECONDS / 2, "request_timeout": ANSWER_SECONDS / 2}
        probe = build({**settings, **seconds, "retry_strategy": once})
        kind = probe.get_file_info(fixed).type
        if "*" not in path and kind == FileType.File:
            keys = [path]
        else:
            below = system.get_file_info(FileSelector(fixed, recursive=True))
            pattern = path if "*" in path else f"{fixed}/*"
            keys = sorted(each.path for each in below if each.is_file and fnmatch(each.path, pattern))
            inside = [PurePosixPath(key).relative_to(fixed) for key in keys]
            keys = [
                key
                for key, file in zip(keys, inside, strict=True)
                if key.lower().endswith(ENDINGS) and not is_passed_over(file)
            ]
        if not keys:
            raise URLError("there is no table")
        files = []
        for key in keys:
            with system.open_input_stream(key) as stream:
                saved, _ = _saved(stream, key.rpartition("/")[2], folder)
            files.append(open_file(saved, f"s3://{key}"))
    return files


def _saved(stream: Any, name: str, folder: Path) -> tuple[Path, int]:
    """What `stream` holds, in `folder`, and how many bytes it has; `name` decides where the first bytes do not."""
    path = folder / f"{uuid4().hex}-{Path(name).name[-100:]}"
    with writing("into", folder, TMPDIR):
        out = path.open("wb")
    with out:
        while block := stream.read(CHUNK):
            with writing("into", folder, TMPDIR):
                out.write(block)
    return path, path.stat().st_size


@contextmanager
def _explained(address: Address) -> Iterator[None]:
    """What the network says, as an error of ours."""
    try:
        yield
    except HTTPError as error:
        raise SourceError(
            f"cannot download {printable(address.shown)}: {error.code} {printable(error.reason)}", file=address.shown
        ) from error
    except HTTPException as error:  # what it says may repeat the parameters
        what = "it is no address" if isinstance(error, InvalidURL) else "the answer broke off or is no HTTP"
        raise SourceError(
            f"cannot download {printable(address.shown)}: {what}",
            file=address.shown,
            hint="A space is written %20." if isinstance(error, InvalidURL) else None,
        ) from error
    except (OSError, ValueError) as error:  # URLError is an OSError; a name that is none is a ValueError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise SourceError(
            f"cannot download {printable(address.shown)}: {printable(str(reason).split(chr(10), 1)[0], 200)}",
            file=address.shown,
        ) from error
