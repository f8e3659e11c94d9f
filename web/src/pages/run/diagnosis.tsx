// Why the run failed: in words, the first rank that failed and its host, the exception, and the last lines of its log.
import type { Run } from '../../api/types';
import { plural } from '../../lib/format';
import { Copy } from '../../parts/basics';
import { runHref } from '../../lib/router';
import { Prose } from '../../parts/prose';
import { failedLine, plainLines, type Diagnosis as Found } from './facts';

const title = (run: Run): string =>
  run.status === 'Failed'
    ? 'This run failed'
    : run.status === 'Canceled'
      ? 'This run was canceled'
      : 'Something went wrong';

/** One line of it, for the tabs that need their place. */
export function Banner({ run, found }: { run: Run; found: Found }) {
  return (
    <p class="run-banner" role="status">
      <strong>{title(run)}.</strong> <span class="cut grow">{found.exception || found.message.split('\n')[0]}</span>
      <a href={runHref(run.id)}>Why</a>
    </p>
  );
}

export function Diagnosis({ run, found }: { run: Run; found: Found }) {
  const [first = '', ...rest] = found.message.split('\n').filter((line) => line.trim());
  const where = [
    found.rank !== null && found.rank >= 0
      ? `rank ${found.rank}${found.role && found.role !== 'worker' ? ` (${found.role})` : ''}`
      : '',
    found.node ? `on ${found.node}${found.address ? ` (${found.address})` : ''}` : '',
    found.exit,
  ].filter(Boolean);
  return (
    <section class={`diagnosis${run.status === 'Failed' ? '' : ' mild'}`} aria-label="Diagnosis">
      <div class="row">
        <h2>{title(run)}</h2>
        {found.code && <code class="diagnosis-code">{found.code}</code>}
        {where.length > 0 && <span class="soft small">{where.join(' · ')}</span>}
      </div>
      <p class="diagnosis-first">
        <Prose text={first} />
      </p>
      {rest.length > 0 && (
        <div class="diagnosis-rest">
          {rest.map((line, index) => (
            <Line key={index} text={line} />
          ))}
        </div>
      )}
      {found.exception && !found.message.includes(found.exception) && (
        <pre class="diagnosis-exception">{found.exception}</pre>
      )}
      {found.hint && (
        <p>
          <strong>Try: </strong>
          <Prose text={found.hint} />
        </p>
      )}
      <Lines run={run} found={found} />
      <Evidence run={run} found={found} />
      {found.consequences.length > 0 && (
        <details>
          <summary>{plural(found.consequences.length, 'other process', 'other processes')} ended because of it</summary>
          <ul class="diagnosis-others small">
            {found.consequences.map((one) => (
              <li key={one.rank}>
                <a href={runHref(run.id, { tab: 'log', file: one.log })}>rank {one.rank}</a>
                {one.node ? ` on ${one.node}` : ''}: <span class="soft">{one.why}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Line({ text }: { text: string }) {
  const hint = /^hint: (.*)/.exec(text)?.[1];
  return (
    <p>
      {hint ? (
        <>
          <strong>Try: </strong>
          <Prose text={hint} />
        </>
      ) : (
        <Prose text={text} />
      )}
    </p>
  );
}

function Lines({ run, found }: { run: Run; found: Found }) {
  if (!found.log) return null;
  const line = failedLine(found);
  const lines = plainLines(found.lines.join('\n'));
  return (
    <figure class="diagnosis-lines">
      <figcaption class="row small">
        <span class="soft">
          {lines.some(Boolean) ? 'Last lines of' : 'It wrote nothing to'} <code>{found.log}</code>
        </span>
        <span class="grow" />
        {lines.some(Boolean) && <Copy text={lines.join('\n')} />}
        <a href={runHref(run.id, { tab: 'log', file: found.log, line })}>Open in the log</a>
      </figcaption>
      {lines.some(Boolean) && (
        <pre role="group" tabIndex={0} aria-label="Last lines of the log">
          {lines.join('\n')}
        </pre>
      )}
    </figure>
  );
}

/** Lines of other files: stacks of a run that hung, messages of another rank. */
function Evidence({ run, found }: { run: Run; found: Found }) {
  const others = found.evidence.filter((one) => one.text && !found.lines.some((line) => line.trim() === one.text));
  if (!others.length) return null;
  return (
    <ul class="diagnosis-evidence small" aria-label="Evidence">
      {others.slice(0, 8).map((one, index) => (
        <li key={index}>
          <a class="mono" href={runHref(run.id, { tab: 'log', file: one.file, line: one.line })}>
            {one.file}
            {one.line ? `:${one.line}` : ''}
          </a>{' '}
          <code>{one.text}</code>
        </li>
      ))}
    </ul>
  );
}
