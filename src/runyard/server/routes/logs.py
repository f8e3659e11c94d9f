"""Routes of a run's logs by lines: a range of lines, lines that hold a text, the first line that shows an error."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional, TypeVar

import anyio
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.documents import ErrorDetails
from runyard.core.names import clean_file_name
from runyard.core.records import Run
from runyard.core.secret_values import LineRedactor
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import gives
from runyard.server.logs.lines import LONGEST_LINE, LONGEST_WHOLE, MOST_LINES, Budget, LogSource, read_lines
from runyard.server.logs.search import LONGEST_TEXT, MOST_HITS, SearchProgress, SearchRequest, find_first_error, search
from runyard.server.routes.files import MAX_WAIT_S, Found, find_in
from runyard.server.services import Services

router = APIRouter(prefix="/runs/{run_id}/log", tags=["logs"])
LOOK_S = 0.05  # for an answer that shows something without a count of all lines
WORK_S = 0.5  # for one that has to count or to search
LOG_FOLDERS = ("user_logs/", "azureml-logs/", "system_logs/", "")
T = TypeVar("T")


@dataclass(frozen=True)
class LogAnswer:
    """The log as it was: `id` is another when the file was written anew."""

    file: str
    id: str
    size: int
    complete: bool


@dataclass(frozen=True)
class LogLines(LogAnswer):
    """`first` is the number of the first line; negative, counted from the end, while `total` is null."""

    first: int
    total: Optional[int]
    ended: bool  # the last line ends with a newline
    lines: list[str]
    cut: list[int]  # positions in `lines` whose text goes on


@dataclass(frozen=True)
class SearchAnswer(LogAnswer):
    """How far the search came. Until it is `done`, ask again with `after` and `offset`."""

    searched_to: int
    offset: Optional[int]
    done: bool


@dataclass(frozen=True)
class LogHits(SearchAnswer):
    lines: list[int]
    excerpts: list[str]


@dataclass(frozen=True)
class LogError(SearchAnswer):
    line: Optional[int]
    text: str
    kind: str
    sure: bool


@router.get("/lines")
@gives(LogLines)
async def get_log_lines(
    run_id: str,
    request: Request,
    file: str = "",
    first: int = -200,
    count: int = 200,
    whole: bool = False,
    beyond: Optional[int] = None,
    wait_s: float = 0.0,
    redact: bool = False,
) -> Response:
    """Return lines from number `first` on, from the end where it is negative; waits until the log has over `beyond`.

    `redact`: without what looks like a password, token or key.
    """
    call = call_of(request)
    if not 0 <= count <= MOST_LINES:
        raise InvalidArgument(f"`count` holds {count}; it is 0 to {MOST_LINES}.")
    if beyond is not None and wait_s > 0:
        await call.services.growth.wait_until(
            run_id,
            lambda: run_in_threadpool(_find, call, run_id, file),
            lambda seen: seen[1].complete or seen[1].size > beyond,
            wait_s=min(wait_s, MAX_WAIT_S),
        )
    longest = LONGEST_WHOLE if whole else LONGEST_LINE
    return await _in_thread(
        call, lambda: _lines(call, run_id, file, first=first, count=count, longest=longest, redact=redact)
    )


@router.get("/search")
@gives(LogHits)
async def search_log(
    run_id: str,
    request: Request,
    text: str,
    file: str = "",
    case: bool = False,
    word: bool = False,
    after: int = 0,
    offset: Optional[int] = None,
    limit: int = 1000,
    regex: bool = False,
) -> Response:
    """Return the numbers of lines after line `after` that hold a text.

    Ask again with `searched_to` and `offset` of the answer to continue.
    """
    if regex:
        raise InvalidArgument(
            "Logs are searched for plain text.",
            why="A regular expression can keep a server busy for ever.",
            hint="Leave `regex` out, or download the log and use `grep -E`.",
        )
    if not 0 < len(text) <= LONGEST_TEXT or "\n" in text:
        raise InvalidArgument(f"`text` is 1 to {LONGEST_TEXT} characters of one line.")
    if not 1 <= limit <= MOST_HITS:
        raise InvalidArgument(f"`limit` holds {limit}; it is 1 to {MOST_HITS}.")
    call, wanted = call_of(request), SearchRequest(text, case=case, word=word)
    return await _in_thread(call, lambda: _search(call, run_id, file, wanted, after=after, offset=offset, limit=limit))


@router.get("/first-error")
@gives(LogError)
async def get_first_error(
    run_id: str, request: Request, file: str = "", after: int = 0, offset: Optional[int] = None
) -> Response:
    """Return the first line after line `after` that shows an error, by `core.error_lines` and the run's diagnosis."""
    call = call_of(request)
    return await _in_thread(call, lambda: _first_error(call, run_id, file, after=after, offset=offset))


async def _in_thread(call: RequestContext, work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, limiter=call.services.line_indexes.threads)


def _lines(
    call: RequestContext, run_id: str, file: str, *, first: int, count: int, longest: int, redact: bool
) -> Response:
    run, found = _find(call, run_id, file)
    source = _source(call.services, run, found)
    index = call.services.line_indexes.get(source)
    budget = Budget(LOOK_S if first < 0 and count else WORK_S)
    lines = read_lines(source, index, first=first, count=count, budget=budget, longest=longest)
    ends = source.size == 0 or source.read(source.size - 1, 1) == b"\n"
    shown = list(map(LineRedactor().hide, lines.lines)) if redact else lines.lines
    return json_answer(LogLines(*_about(found, source), lines.first, lines.total, ends, shown, lines.cut))


def _search(
    call: RequestContext, run_id: str, file: str, wanted: SearchRequest, *, after: int, offset: int | None, limit: int
) -> Response:
    run, found = _find(call, run_id, file)
    source = _source(call.services, run, found)
    budget = Budget(WORK_S)
    progress = _progress(call.services, source, budget, after=after, offset=offset)
    if progress is None:
        return json_answer(LogHits(*_about(found, source), *_counting(after), [], []))
    hits = search(source, wanted, progress, limit=limit, budget=budget)
    return json_answer(LogHits(*_about(found, source), *_came(progress), hits.lines, hits.excerpts))


def _first_error(call: RequestContext, run_id: str, file: str, *, after: int, offset: int | None) -> Response:
    run, found = _find(call, run_id, file)
    source = _source(call.services, run, found)
    budget = Budget(WORK_S)
    shown = _diagnosed(run, found.file.name) if after <= 0 and offset is None else None
    if shown is not None:
        line, text = shown
        return json_answer(LogError(*_about(found, source), line, None, True, line, text, "diagnosis", True))
    progress = _progress(call.services, source, budget, after=after, offset=offset)
    if progress is None:
        return json_answer(LogError(*_about(found, source), *_counting(after), None, "", "", False))
    error = find_first_error(source, progress, budget=budget)
    line, offset, done = _came(progress)
    answer = LogError(
        *_about(found, source), line, offset, done or error.is_sure, error.line, error.text, error.kind, error.is_sure
    )
    return json_answer(answer)


def _about(found: Found, source: LogSource) -> tuple[str, str, int, bool]:
    """Return the fields of a `LogAnswer`."""
    key = hashlib.sha256(source.key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return found.file.name, key, source.size, found.complete


def _came(progress: SearchProgress) -> tuple[int, int | None, bool]:
    """Return the fields that a `SearchAnswer` adds."""
    return progress.line, progress.offset, progress.done


def _counting(after: int) -> tuple[int, int | None, bool]:
    """The place to begin at is not found yet: ask again."""
    return after, None, False


def _progress(
    services: Services, source: LogSource, budget: Budget, *, after: int, offset: int | None
) -> SearchProgress | None:
    """Return where to go on; None while the lines up to there are still counted."""
    if after <= 0:
        return SearchProgress(0, 0)
    if offset is not None:
        return SearchProgress(after, max(0, min(offset, source.size)))
    index = services.line_indexes.get(source)
    if not index.grow(source, budget, to_line=after + 1):
        return None
    start = index.find_start(source, after + 1)
    return SearchProgress(after, source.size if start is None else start)


def _find(call: RequestContext, run_id: str, file: str) -> tuple[Run, Found]:
    run = call.readable_run(run_id)
    name = clean_file_name(file) if file else _first_log(call.services, run)
    return run, find_in(call.services, run, name)


def _first_log(services: Services, run: Run) -> str:
    """Return the log of the rank that failed, where that is known; else the first one."""
    names = [file.name for file in services.store.list_files(run.id, with_chunks=False) if file.kind == "stream"]
    failed = _details(run).get("log")
    if failed in names:
        return str(failed)
    for folder in LOG_FOLDERS:
        for name in names:
            if name.startswith(folder):
                return name
    raise NotFound(f"Run `{run.id}` has no log yet.", hint="It has one as soon as its program started.")


def _details(run: Run) -> ErrorDetails:
    details = run.error.get("details") if run.error else None
    return details if isinstance(details, dict) else {}


def _diagnosed(run: Run, name: str) -> tuple[int, str] | None:
    """Return the line of this log that the run's diagnosis shows first, and its text."""
    evidence = _details(run).get("evidence")
    for line in evidence if isinstance(evidence, list) else ():
        if isinstance(line, dict) and line.get("file") == name and isinstance(line.get("line"), int):
            return int(line["line"] or 0), str(line.get("text", ""))[:1000]
    return None


def _source(services: Services, run: Run, found: Found) -> LogSource:
    if found.stream is not None:
        stream = found.stream

        def read_stream(offset: int, length: int) -> bytes:
            return services.artifacts.read_stream(stream, offset=offset, length=length)

        # A run that was deleted may come again under its id, with other logs.
        return LogSource(f"{stream} {run.created_at}", found.size, read_stream)
    chunks = found.file.chunks

    def read_blob(offset: int, length: int) -> bytes:
        return b"".join(services.content.read_file(chunks, offset=offset, limit=length)) if length else b""

    return LogSource("\0".join(chunks), found.size, read_blob)
