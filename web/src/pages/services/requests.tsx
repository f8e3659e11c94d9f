// The access log of a service: a line for each request, the newest first, as they come.
import { useEffect, useState } from 'preact/hooks';
import { getJson } from '../../api/http';
import { bytes, exact, number } from '../../lib/format';
import { query, setQuery } from '../../lib/router';
import { useResource } from '../../lib/useResource';
import { Section, Shown } from '../../parts/assets/layout';
import { isShown, parsedLine, statusTone } from './accesslog';
import { apiOf, type TabProps } from './tab';

const EVERY_MS = 2_000; // the gateway writes it once a second
const READ = 1_000;
const PAGE = 100;

export function Requests({ service }: TabProps) {
  const [count, setCount] = useState(PAGE);
  const resource = useResource<{ lines: string[] }>(
    (signal) => getJson(`${apiOf(service)}/log`, { lines: READ }, signal),
    [service.id],
  );
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && resource.again(), EVERY_MS);
    return () => clearInterval(timer);
  }, [resource.again]);
  const sought = query.value.get('find') ?? '';
  const onlyErrors = query.value.get('errors') === '1';
  const lines = resource.value?.lines ?? [];
  const shown = lines.filter((line) => isShown(line, sought, onlyErrors)).reverse();
  return (
    <Section
      title="Access log"
      aside={lines.length >= READ ? `the last ${number(READ)}` : undefined}
      count={resource.value && shown.length}
    >
      <div class="row asset-body">
        <input
          class="input asset-find"
          type="search"
          placeholder="Find in the lines"
          aria-label="Find requests"
          value={sought}
          onInput={(event) => setQuery({ find: event.currentTarget.value })}
        />
        <button
          type="button"
          class="button"
          aria-pressed={onlyErrors}
          onClick={() => setQuery({ errors: onlyErrors ? null : '1' })}
        >
          Errors only
        </button>
        <span class="grow" />
        <span class="small soft">What the script prints is in the logs of the replicas.</span>
      </div>
      <Shown resource={resource} what="the requests">
        {() =>
          !shown.length ? (
            <p class="soft asset-none">{lines.length ? 'No request fits.' : 'There was no request yet.'}</p>
          ) : (
            <div class="scroll-x">
              <table class="plain-table service-requests">
                <thead>
                  <tr>
                    <th>Time</th>
                    <th>Request</th>
                    <th>Status</th>
                    <th class="number">Took</th>
                    <th class="number wide">Answer</th>
                    <th class="wide">Request id</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.slice(0, count).map((text, at) => (
                    <Line key={shown.length - at} text={text} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
      {shown.length > count && (
        <button type="button" class="button small service-more" onClick={() => setCount(count + 5 * PAGE)}>
          Show more ({number(shown.length - count)} left)
        </button>
      )}
    </Section>
  );
}

function Line({ text }: { text: string }) {
  const line = parsedLine(text);
  if (typeof line === 'string') {
    return (
      <tr>
        <td colSpan={6} class="soft">
          {text}
        </td>
      </tr>
    );
  }
  return (
    <tr>
      <td class="soft number service-time" title={exact(line.time)}>
        {new Date(line.time).toLocaleTimeString()}
      </td>
      <td>
        <code>
          {line.method} {line.target}
        </code>
      </td>
      <td>
        <span class={`status ${statusTone(line.status)}`}>
          <span class="dot" aria-hidden="true" />
          {line.status}
        </span>
      </td>
      <td class="number">{number(line.tookMs)} ms</td>
      <td class="number wide soft">{bytes(line.size)}</td>
      <td class="wide faint mono service-id">{line.id}</td>
    </tr>
  );
}
