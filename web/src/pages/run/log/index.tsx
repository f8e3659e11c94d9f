// The log of a run, live: pick a file, follow its end, search, jump to the first error, link to a line.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { address, API, getJson, part, pathOf } from '../../../api/http';
import { useWatch } from '../../../api/live';
import { hasEnded, type Run, type RunFile } from '../../../api/types';
import { bytes, number } from '../../../lib/format';
import { keep, recall, toClipboard } from '../../../lib/browser';
import { useKeys } from '../../../lib/keys';
import { Empty, Fault, Loading } from '../../../parts/basics';
import { attempt, note } from '../../../parts/overlays';
import { useResource } from '../../../lib/useResource';
import { query, setQuery } from '../../../lib/router';
import type { TabProps } from '../tab';
import { plain } from './ansi';
import { findError } from './errors';
import { firstLog, groupsOf, type LogGroup } from './files';
import { LogModel, type LinesAnswer } from './model';
import { SearchBox, useSearch } from './searchbox';
import { Viewer, type ViewHandle } from './viewer';
import './log.css';

const WRAP = 'runyard-log-wrap';
const MOST_COPIED = 20_000;

export default function Tab({ run }: TabProps) {
  const files = useResource((signal) => getJson<RunFile[]>(`/runs/${part(run.id)}/files`, {}, signal), [run.id]);
  useWatch([run.id], ['files', 'status'], files.again, 2000);
  const groups = useMemo(() => groupsOf(files.value ?? [], run), [files.value, run.error]);
  const isEmpty = !groups.length;
  useWatch(isEmpty ? [run.id] : [], ['log'], files.again, 1000); // the first log
  // Who reads a log of the program keeps it, whatever other logs come and whichever rank fails.
  const shown = useRef<string | undefined>(undefined);
  const isKept = groups.some(
    (group) => group.title === 'Program' && group.files.some((file) => file.name === shown.current && file.size > 0),
  );
  const name = query.value.get('file') ?? (isKept ? shown.current : firstLog(groups, run));
  shown.current = name;
  if (!files.value)
    return files.error ? <Fault error={files.error} again={files.again} /> : <Loading what="Looking for logs" />;
  if (!name) return <NoLog run={run} />;
  return <Log key={name} run={run} name={name} groups={groups} />;
}

function NoLog({ run }: { run: Run }) {
  if (hasEnded(run.status)) {
    return (
      <Empty title="This run wrote no log" command={`runyard runs show ${run.id}`}>
        {run.error ? 'It ended before its program started.' : 'Nothing was printed.'}
      </Empty>
    );
  }
  return (
    <Empty title="No log yet" command={`runyard runs logs --follow ${run.id}`}>
      {run.waits_for || 'It appears here as soon as the program starts.'}
    </Empty>
  );
}

function Log({ run, name, groups }: { run: Run; name: string; groups: readonly LogGroup[] }) {
  const at = `/runs/${part(run.id)}/log`;
  const model = useMemo(
    () => new LogModel((asked) => getJson<LinesAnswer>(`${at}/lines`, { file: name, ...asked })),
    [],
  );
  useEffect(() => () => model.stop(), []);
  const marks = marksOf(query.value.get('line'));
  const [follows, setFollows] = useState(marks === null);
  const [wrap, setWrap] = useState(() => readWrap());
  const view = useRef<ViewHandle | undefined>(undefined);
  const search = useSearch(at, name);
  const jump = useRef<AbortController | undefined>(undefined);
  const [isJumping, setJumping] = useState<number | null>(null);

  const grow = (): void => {
    model.refresh();
    search.refresh();
  };
  useWatch(hasEnded(run.status) ? [] : [run.id], ['log', 'status'], grow, 250);
  useEffect(grow, [run.status, run.attempt]); // lines that arrived with the run's end
  const isCounted = model.version.value >= 0 && model.total !== null;
  const line = marks?.first;
  useLayoutEffect(() => {
    if (isCounted && line) show(line);
  }, [isCounted, line]);
  useEffect(() => () => jump.current?.abort(), []);

  function show(number: number): void {
    const seen = view.current?.seen();
    if (!seen || number <= seen.first || number >= seen.last) view.current?.goTo(number);
    else setFollows(false);
  }
  const mark = (number: number): void => {
    setQuery({ file: name, line: number });
    show(number);
  };
  const pick = (number: number, extend: boolean): void => {
    const [first, last] =
      extend && marks ? [Math.min(marks.first, number), Math.max(marks.first, number)] : [number, number];
    setQuery({
      file: name,
      line:
        !extend && marks?.first === number && marks.last === number
          ? null
          : first === last
            ? first
            : `${first}-${last}`,
    });
    setFollows(false);
  };
  // Keys come faster than answers: one step after the other, and none once the text is another.
  const steps = useRef({ last: Promise.resolve(), text: '' });
  steps.current.text = search.text;
  const step = (direction: 1 | -1): void => {
    const { text } = search;
    steps.current.last = steps.current.last.then(async () => {
      if (steps.current.text !== text) return;
      const seen = view.current?.seen() ?? { first: 1, last: 1 };
      const here = marksOf(query.value.get('line'))?.first ?? 0;
      const from = here >= seen.first && here <= seen.last ? here + direction : direction > 0 ? seen.first : seen.last;
      const hit = await search.go(from, direction);
      if (hit !== undefined && steps.current.text === text) mark(hit);
    });
  };
  const toEnd = (): void => {
    setQuery({ line: null });
    setFollows(true);
  };
  const toError = async (): Promise<void> => {
    jump.current?.abort();
    const mine = new AbortController();
    jump.current = mine;
    setJumping(0);
    await attempt(async () => {
      const after = marks?.last ?? 0;
      const found = await findError(at, name, after, setJumping, mine.signal).catch((error: unknown) => {
        if (mine.signal.aborted) return null;
        throw error;
      });
      if (found) mark(found.line);
      else if (!mine.signal.aborted)
        note(after ? `No further error below line ${number(after)}.` : 'No line of this log looks like an error.');
    });
    if (jump.current === mine) setJumping(null);
  };
  const copy = (): Promise<boolean> =>
    attempt(async () => {
      const { first, last } = marks ?? view.current?.seen() ?? { first: 1, last: 1 };
      const lines = await model.read(first, Math.min(last, first + MOST_COPIED - 1));
      await toClipboard(lines.map((text) => `${plain(text)}\n`).join(''));
      note(
        `Copied ${lines.length === 1 ? `line ${number(first)}` : `lines ${number(first)} to ${number(first + lines.length - 1)}`}.`,
      );
    });
  const toggleWrap = (): void => {
    keep(WRAP, wrap ? '0' : '1');
    setWrap(!wrap);
  };
  useKeys({
    '/': search.focus,
    n: () => step(1),
    N: () => step(-1),
    e: () => void toError(),
    f: () => (follows ? setFollows(false) : toEnd()),
    w: toggleWrap,
    Escape: () => (search.wanted ? search.clear() : setQuery({ line: null })),
  });

  if (model.error && model.error.status >= 400 && model.error.status < 500)
    return <Missing groups={groups} name={name} model={model} />;
  const isLive = !hasEnded(run.status) && !model.complete;
  return (
    <div class="log">
      <div class="log-bar">
        <Picker groups={groups} name={name} />
        <SearchBox search={search} step={step} leave={() => view.current?.focus()} current={marks?.first} />
        <button
          type="button"
          class="button"
          title={
            marks
              ? 'Jump to the next error below the marked line (e); Escape takes the mark away'
              : 'Jump to the first error (e)'
          }
          aria-busy={isJumping !== null}
          onClick={() => void toError()}
        >
          {isJumping === null ? (marks ? 'Next error' : 'First error') : `Looking… ${Math.floor(isJumping * 100)} %`}
        </button>
        <button type="button" class="button" title="Break long lines (w)" aria-pressed={wrap} onClick={toggleWrap}>
          Wrap
        </button>
        <button
          type="button"
          class="button"
          title={
            marks
              ? 'Copy the marked lines'
              : 'Copy the lines that are seen; click a line number to mark, with Shift to mark more'
          }
          onClick={() => void copy()}
        >
          Copy
        </button>
        <a class="button" download href={address(`${API}/runs/${part(run.id)}/files/${pathOf(name)}`)}>
          Download
        </a>
      </div>
      <div class="log-box">
        <Viewer
          model={model}
          wrap={wrap}
          wanted={search.wanted}
          marks={marks}
          follows={follows}
          setFollows={setFollows}
          pick={pick}
          handle={view}
        />
        {!follows && isCounted && (
          <button type="button" class="button primary log-end" title="f" onClick={toEnd}>
            {isLive ? '↓ Follow the end' : '↓ To the end'}
          </button>
        )}
      </div>
      <Foot model={model} isLive={isLive} follows={follows} />
    </div>
  );
}

function Picker({ groups, name }: { groups: readonly LogGroup[]; name: string }) {
  const isKnown = groups.some((group) => group.files.some((file) => file.name === name));
  return (
    <select
      class="input log-file"
      aria-label="Log file"
      value={name}
      title={name}
      onChange={(event) => setQuery({ file: event.currentTarget.value, line: null }, {})}
    >
      {!isKnown && <option value={name}>{name}</option>}
      {groups.map((group) => (
        <optgroup key={group.title} label={group.title}>
          {group.files.map((file) => (
            <option key={file.name} value={file.name}>
              {file.label}
            </option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}

function Foot({ model, isLive, follows }: { model: LogModel; isLive: boolean; follows: boolean }) {
  model.version.value;
  const state = model.error
    ? 'The server does not answer; trying again…'
    : isLive
      ? follows
        ? 'Live, following the end'
        : 'Live, paused here'
      : '';
  return (
    <p class="log-foot small soft">
      <span class="number" role="status">
        {model.total === null
          ? 'Counting lines…'
          : model.total === 0
            ? isLive
              ? 'Nothing written so far'
              : 'This file is empty'
            : `${number(model.total)} ${model.total === 1 ? 'line' : 'lines'}`}{' '}
        · {bytes(model.size)}
      </span>
      <span class={model.error ? 'log-fault' : ''}>{state}</span>
      <span class="grow" />
      <span class="faint log-keys">/ search · n N next, previous · e error · f follow · w wrap</span>
    </p>
  );
}

function Missing({ groups, name, model }: { groups: readonly LogGroup[]; name: string; model: LogModel }) {
  return (
    <div class="log">
      <div class="log-bar">
        <Picker groups={groups} name={name} />
      </div>
      <Fault error={model.error!} again={() => model.refresh()} />
    </div>
  );
}

/** `120` or `120-180`, as the address has them. */
function marksOf(text: string | null): { first: number; last: number } | null {
  const match = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text ?? '');
  if (!match || !Number(match[1])) return null;
  const first = Number(match[1]);
  return { first, last: Math.max(first, Number(match[2] ?? first)) };
}

function readWrap(): boolean {
  const kept = recall(WRAP);
  return kept === null ? innerWidth < 600 : kept === '1';
}
