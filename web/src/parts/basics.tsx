// Small parts that every page uses.
import type { ComponentChildren } from 'preact';
import { signal } from '@preact/signals';
import type { ApiError } from '../api/http';
import type { RunStatus } from '../api/types';
import { toClipboard } from '../lib/browser';
import { ago, duration, exact } from '../lib/format';
import { Prose } from './prose';
import './basics.css';

/** The present time, updated once a second: durations of live runs count on with it. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

const KIND: Partial<Record<RunStatus, string>> = {
  Completed: 'good',
  Failed: 'bad',
  Canceled: 'idle',
  CancelRequested: 'warn',
  NotResponding: 'warn',
  Running: 'busy',
  Finalizing: 'busy',
  Starting: 'busy',
  Preparing: 'busy',
  Provisioning: 'busy',
};
const WORDS: Partial<Record<RunStatus, string>> = {
  NotStarted: 'Not started',
  CancelRequested: 'Canceling',
  NotResponding: 'Not responding',
};

export const statusKind = (status: RunStatus): string => KIND[status] ?? 'idle';
export const statusWord = (status: RunStatus): string => WORDS[status] ?? status;

/** A coloured dot and the word: never the colour alone. */
export function Status({ status, pill }: { status: RunStatus; pill?: boolean }) {
  const kind = statusKind(status);
  return (
    <span class={`status ${kind}${pill ? ' pill' : ''}`}>
      <span class={`dot${kind === 'busy' ? ' pulse' : ''}`} aria-hidden="true" />
      {statusWord(status)}
    </span>
  );
}

export function When({ time }: { time: string | null | undefined }) {
  if (!time) return <span class="faint">–</span>;
  return (
    <time dateTime={time} title={exact(time)}>
      {ago(time, now.value)}
    </time>
  );
}

/** From `since` to `until`, or to now while it goes on. */
export function Lasting({ since, until }: { since: string | null | undefined; until: string | null | undefined }) {
  if (!since) return <span class="faint">–</span>;
  const end = until ? Date.parse(until) : now.value;
  return <span class="number">{duration(end - Date.parse(since))}</span>;
}

export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <p class="loading soft" role="status">
      <span class="spinner" aria-hidden="true" /> {what}…
    </p>
  );
}

/** Nothing here yet: says so, and what to type next. */
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children && <p class="soft">{children}</p>}
      {command && <Command text={command} />}
    </div>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  return (
    <pre class="command">
      <code>{text}</code>
      <Copy text={text} />
    </pre>
  );
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const copy = (event: MouseEvent): void => {
    const button = event.currentTarget as HTMLButtonElement;
    void toClipboard(text).then(() => {
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = label), 1200);
    });
  };
  return (
    <button type="button" class="button small quiet" onClick={copy}>
      {label}
    </button>
  );
}

/** An error in the server's words: what, why, and what to do. */
export function Fault({ error, again }: { error: ApiError; again?: () => void }) {
  return (
    <div class="fault" role="alert">
      <strong>
        <Prose text={error.what} />
      </strong>
      {error.why && (
        <p>
          <Prose text={error.why} />
        </p>
      )}
      {error.hint && (
        <p class="soft">
          <Prose text={error.hint} />
        </p>
      )}
      {again && (
        <button type="button" class="button small" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Tabs by links, so that each has its address. */
export function Tabs({
  tabs,
  selected,
}: {
  tabs: readonly { id: string; label: ComponentChildren; href: string }[];
  selected: string;
}) {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      {tabs.map((tab) => (
        <a key={tab.id} href={tab.href} class="tab" aria-current={tab.id === selected ? 'page' : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}

/** `key` or `key: value`. */
export function Tag({ name, value, onRemove }: { name: string; value?: string | null; onRemove?: () => void }) {
  return (
    <span class="tag" title={value ? `${name}: ${value}` : name}>
      <span class="cut">
        {name}
        {value ? <span class="soft">: {value}</span> : null}
      </span>
      {onRemove && (
        <button type="button" class="tag-remove" aria-label={`Remove ${name}`} onClick={onRemove}>
          ×
        </button>
      )}
    </span>
  );
}
