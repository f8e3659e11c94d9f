// Send a request to the service through the server, which has its key, and show what it answers.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type ApiError, sendBody } from '../../api/http';
import type { ServiceAnswer, Webservice } from '../../api/services';
import { bytes, duration, number } from '../../lib/format';
import { query, runHref, setQuery } from '../../lib/router';
import { asApiError } from '../../lib/useResource';
import { Section } from '../../parts/assets/layout';
import { Copy, Fault, Lasting } from '../../parts/basics';
import { ColouredLines, Source } from '../../parts/highlight/source';
import { prettyJson } from '../../parts/json/pretty';
import { servingOf } from '../../parts/services/facts';
import { statusTone } from './accesslog';
import { operationsOf, type Operation } from './openapi';
import { apiOf, type TabProps } from './tab';

const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
const MOST_INDENTED = 1_000_000; // characters of an answer; longer ones are shown as they came
const MOST_WRAPPED = 20_000; // characters
const TAKES_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

export function TryIt({ service, description }: TabProps) {
  const found = description.value;
  const operations = operationsOf(found?.document ?? null, found?.sample ?? undefined);
  const method = query.value.get('method') ?? operations[0]!.method;
  const path = (query.value.get('path') ?? operations[0]!.path).replace(/^\/+/, '');
  const chosen = operations.findIndex((one) => one.method === method && one.path === path);
  const [typed, setTyped] = useState<string | null>(null); // null: the operation's own sample
  const [file, setFile] = useState<File | null>(null);
  const [kind, setKind] = useState<string | null>(null);
  const [sent, setSent] = useState<{ since: string; abort: AbortController } | null>(null);
  const [outcome, setOutcome] = useState<{ answer: ServiceAnswer } | { error: ApiError } | null>(null);
  const running = useRef<AbortController | null>(null);
  useLayoutEffect(() => () => running.current?.abort(), []);

  const operation: Operation | undefined = operations[chosen];
  const text = typed ?? operation?.sample ?? '';
  const contentType =
    kind ?? (file ? file.type || 'application/octet-stream' : operation?.contentType || 'application/json');
  const takesBody = TAKES_BODY.has(method);

  const choose = (one: Operation | undefined): void => {
    setTyped(null);
    setFile(null);
    setKind(null);
    setQuery({ method: one?.method ?? method, path: one?.path || '/' });
  };
  const send = async (): Promise<void> => {
    if (sent) return;
    const abort = new AbortController();
    running.current = abort;
    setSent({ since: new Date().toISOString(), abort });
    setOutcome(null);
    try {
      const body = takesBody ? (file ?? text) : '';
      const headers = { 'Content-Type': 'application/json', 'Service-Content-Type': contentType };
      const answer = await sendBody<ServiceAnswer>(
        `${apiOf(service)}/try`,
        { path: path || '/', method },
        body,
        headers,
        abort.signal,
      );
      setOutcome({ answer });
    } catch (error) {
      if (!abort.signal.aborted) setOutcome({ error: asApiError(error) });
    } finally {
      if (running.current === abort) setSent(null);
    }
  };
  return (
    <div class="service-try">
      <Section title="Request">
        <form
          class="stack asset-body"
          onSubmit={(event) => {
            event.preventDefault();
            void send();
          }}
        >
          <label class="stack small service-field">
            Operation
            <select
              class="input"
              value={String(chosen)}
              onChange={(event) => choose(operations[Number(event.currentTarget.value)])}
            >
              {operations.map((one, at) => (
                <option key={at} value={String(at)}>
                  {one.method} /{one.path} {one.summary && `– ${one.summary}`}
                </option>
              ))}
              {chosen < 0 && <option value="-1">Another path</option>}
            </select>
          </label>
          <div class="row service-line">
            <select
              class="input"
              aria-label="Method"
              value={method}
              onChange={(event) => setQuery({ method: event.currentTarget.value, path: path || '/' })}
            >
              {METHODS.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
            <input
              class="input mono grow"
              aria-label="Path below the service’s address"
              value={path}
              spellcheck={false}
              onInput={(event) => setQuery({ method, path: event.currentTarget.value || '/' })}
            />
          </div>
          {takesBody && (
            <>
              <div class="stack small service-field">
                <span aria-hidden="true">Body</span>
                {file ? (
                  <span class="row">
                    <code>{file.name}</code> <span class="soft">{bytes(file.size)}</span>
                    <button type="button" class="button small" onClick={() => setFile(null)}>
                      Type a body instead
                    </button>
                  </span>
                ) : (
                  <textarea
                    aria-label="Body"
                    class="input mono"
                    rows={Math.min(24, Math.max(8, text.split('\n').length + 1))}
                    spellcheck={false}
                    value={text}
                    onInput={(event) => setTyped(event.currentTarget.value)}
                    onKeyDown={(event) => {
                      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
                      event.preventDefault();
                      void send();
                    }}
                  />
                )}
              </div>
              <div class="row">
                <label class="row small">
                  Content type
                  <input
                    class="input mono"
                    value={contentType}
                    spellcheck={false}
                    onInput={(event) => setKind(event.currentTarget.value)}
                  />
                </label>
                <label class="button small service-file">
                  Send a file…
                  <input
                    type="file"
                    class="hidden-text"
                    onChange={(event) => {
                      setFile(event.currentTarget.files?.[0] ?? null);
                      setKind(null);
                    }}
                  />
                </label>
                {typed !== null && operation && (
                  <button type="button" class="button small quiet" onClick={() => setTyped(null)}>
                    The sample again
                  </button>
                )}
              </div>
            </>
          )}
          <div class="row">
            <button type="submit" class="button primary" disabled={sent !== null}>
              {sent ? 'Sending…' : 'Send'}
            </button>
            {sent && (
              <>
                <span class="soft small">
                  for <Lasting since={sent.since} until={null} />
                </span>
                <button type="button" class="button" onClick={() => sent.abort.abort()}>
                  Stop waiting
                </button>
              </>
            )}
            <span class="grow" />
            <span class="soft small">The server adds the key. Ctrl + Enter sends too.</span>
          </div>
        </form>
      </Section>
      <div class="stack" aria-live="polite">
        {outcome &&
          ('error' in outcome ? <Fault error={outcome.error} /> : <Answer answer={outcome.answer} service={service} />)}
      </div>
    </div>
  );
}

/** What came back, as text: nothing of it becomes part of the page. */
function Answer({ answer, service }: { answer: ServiceAnswer; service: Webservice }) {
  const { text } = answer;
  const isJson = /json/.test(answer.content_type);
  const shown = useMemo(
    () => (isJson && text !== null && text.length <= MOST_INDENTED && prettyJson(text)) || text || '',
    [answer],
  );
  const runMs = Number(answer.run_ms);
  return (
    <Section title="Answer" aside={text ? <Copy text={text} /> : undefined}>
      <dl class="facts">
        <dt>Status</dt>
        <dd>
          <span class={`status ${statusTone(answer.status)}`}>
            <span class="dot" aria-hidden="true" />
            {answer.status}
          </span>
        </dd>
        <dt>Took</dt>
        <dd class="number">
          {took(answer.took_ms)}
          {answer.run_ms && Number.isFinite(runMs) && <span class="soft">, {took(runMs)} of it in the script</span>}
        </dd>
        <dt>Body</dt>
        <dd>
          {answer.size_bytes ? bytes(answer.size_bytes) : 'empty'}
          {answer.content_type && <span class="soft"> of {answer.content_type}</span>}
        </dd>
        {answer.request_id && (
          <>
            <dt>Request id</dt>
            <dd class="mono">{answer.request_id}</dd>
          </>
        )}
      </dl>
      {answer.status >= 500 && <Logs service={service} />}
      {answer.is_cut && <p class="asset-note">Only the beginning is shown: the answer is longer.</p>}
      {text === null ? (
        <p class="soft asset-none">The body is not text.</p>
      ) : (
        shown && <Body text={shown} language={isJson ? 'json' : ''} />
      )}
    </Section>
  );
}

/** A short body breaks its lines; a long one scrolls. */
function Body({ text, language }: { text: string; language: string }) {
  if (text.length > MOST_WRAPPED) return <Source text={text} language={language} label="Body of the answer" />;
  return (
    <pre class="service-body" role="group" tabIndex={0} aria-label="Body of the answer">
      <ColouredLines text={text} language={language} />
    </pre>
  );
}

/** Where the script's own error is. */
function Logs({ service }: { service: Webservice }) {
  const replicas = servingOf(service)?.replicas.filter((one) => one.is_wanted) ?? [];
  if (!replicas.length) return null;
  return (
    <p class="asset-note small">
      What the script printed is in the log of{' '}
      {replicas.slice(0, 5).map((one, at) => (
        <span key={one.run_id}>
          {at > 0 && ', '}
          <a href={runHref(one.run_id, { tab: 'log' })}>replica {one.number}</a>
        </span>
      ))}
      .
    </p>
  );
}

const took = (ms: number): string => (ms < 100 ? `${number(Math.round(ms * 100) / 100)} ms` : duration(ms));
