// The frame around every page: navigation, workspace, theme, who is signed in.
import type { ComponentType } from 'preact';
import { useErrorBoundary, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { getJson, sendJson } from './api/http';
import { forgetSession } from './api/session';
import type { Me, ServerFacts, Workspace } from './api/types';
import { useKeys } from './lib/keys';
import { Empty, Fault, Loading } from './parts/basics';
import { LiveNotice } from './parts/live';
import { attempt, MenuItem, Overlays, Popover } from './parts/overlays';
import { asApiError, useResource } from './lib/useResource';
import { DEFAULT_WORKSPACE, go, href, type PageProps, path, workspace } from './lib/router';
import { theme, type Theme } from './lib/theme';
import './app.css';

type Page = ComponentType<PageProps>;
type Load = () => Promise<{ default: Page }>;

const PAGES: readonly (readonly [RegExp, Load])[] = [
  [/^\/(?:runs)?$/, () => import('./pages/runs')],
  [/^\/runs\/([^/]+)$/, () => import('./pages/run')],
  [/^\/experiments$/, () => import('./pages/experiments')],
  [/^\/compare$/, () => import('./pages/compare')],
  [/^\/sweeps\/([^/]+)$/, () => import('./pages/sweep')],
  [/^\/environments(?:\/([^/]+))?$/, () => import('./pages/environments')],
  [/^\/compute(?:\/([^/]+))?$/, () => import('./pages/compute')],
  [/^\/datasets(?:\/([^/]+))?$/, () => import('./pages/datasets')],
  [/^\/models(?:\/([^/]+))?$/, () => import('./pages/models')],
  [/^\/services(?:\/([^/]+))?$/, () => import('./pages/services')],
];

const PLACES = [
  ['/runs', 'Runs'],
  ['/experiments', 'Experiments'],
  ['/models', 'Models'],
  ['/services', 'Services'],
  ['/datasets', 'Datasets'],
  ['/environments', 'Environments'],
  ['/compute', 'Compute'],
] as const;

export function App() {
  return (
    <div class="frame">
      {/* biome-ignore lint/a11y/useValidAnchor: a jump within the page; the address must not change, it is the view */}
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('main')?.focus();
        }}
      >
        Skip to content
      </a>
      <Bar />
      <LiveNotice />
      <main id="main" tabIndex={-1}>
        <Route />
      </main>
      <Overlays />
    </div>
  );
}

function Bar() {
  const here = path.value === '/' ? '/runs' : path.value;
  const nav = useRef<HTMLElement>(null);
  // On a narrow screen the bar scrolls: the present page is in view.
  useLayoutEffect(() => {
    const show = (): void =>
      nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    const watching = new ResizeObserver(show); // the choice of a workspace comes later and takes room
    watching.observe(nav.current!);
    return () => watching.disconnect();
  }, [here]);
  useKeys({ g: () => document.querySelector<HTMLElement>('.bar nav a')?.focus() });
  return (
    <header class="bar">
      <a class="brand" href={href('/runs')} aria-label="Runyard: runs">
        <img src="/static/icon.svg" alt="" width="22" height="22" />
        <span>Runyard</span>
      </a>
      <nav aria-label="Pages" ref={nav}>
        {PLACES.map(([place, label]) => (
          <a
            key={place}
            href={href(place)}
            aria-current={here === place || here.startsWith(`${place}/`) ? 'page' : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <Workspaces />
      <Settings />
    </header>
  );
}

function Workspaces() {
  const found = useResource((signal) => getJson<Workspace[]>('/workspaces', {}, signal), []);
  if (!found.value || found.value.length < 2) return null;
  return (
    <select
      class="input"
      aria-label="Workspace"
      value={workspace.value}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        go(chosen === DEFAULT_WORKSPACE ? '/runs' : `/runs?workspace=${encodeURIComponent(chosen)}`);
      }}
    >
      {found.value.map((one) => (
        <option key={one.name} value={one.name}>
          {one.name}
        </option>
      ))}
    </select>
  );
}

function Settings() {
  const me = useResource((signal) => getJson<Me>('/users/me', {}, signal), []);
  const server = useResource((signal) => getJson<ServerFacts>('/server', {}, signal), []);
  const leave = (): Promise<boolean> =>
    attempt(async () => {
      await sendJson('POST', '/signout');
      forgetSession();
      location.assign('/');
    });
  return (
    <Popover label={<Gear />} title="Settings" align="right" isQuiet>
      {(close) => (
        <div class="stack settings">
          <div class="row" role="group" aria-label="Colours">
            {(['auto', 'light', 'dark'] as Theme[]).map((one) => (
              <button
                key={one}
                type="button"
                class="button small"
                aria-pressed={theme.value === one}
                onClick={() => (theme.value = one)}
              >
                {one === 'auto' ? 'System theme' : one === 'light' ? 'Light' : 'Dark'}
              </button>
            ))}
          </div>
          {me.value && (
            <p class="small soft">
              {me.value.role === 'owner'
                ? 'Signed in as the owner of this server.'
                : `Signed in as ${me.value.name} (${me.value.role}).`}
            </p>
          )}
          {server.value && (
            <p class="small faint">
              Runyard {server.value.version} on {server.value.host}
            </p>
          )}
          <MenuItem
            onPick={() => {
              close();
              void leave();
            }}
          >
            Sign out
          </MenuItem>
        </div>
      )}
    </Popover>
  );
}

const Gear = () => (
  <svg
    width="16"
    height="16"
    viewBox="0 0 16 16"
    fill="none"
    stroke="currentColor"
    stroke-width="1.5"
    aria-hidden="true"
  >
    <circle cx="8" cy="8" r="2.2" />
    <path d="M8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M12.6 3.4l-1.4 1.4M4.8 11.2l-1.4 1.4" />
  </svg>
);

function Route() {
  const here = path.value;
  for (const [pattern, load] of PAGES) {
    const match = pattern.exec(here);
    if (match) return <Lazy key={pattern.source} load={load} name={decoded(decoded(match[1] ?? ''))} />;
  }
  return (
    <Empty title="There is no such page">
      <code>{decoded(here)}</code> is not a page of the studio. <a href={href('/runs')}>All runs</a>
    </Empty>
  );
}

function Lazy({ load, name }: { load: Load; name: string }) {
  const [page, setPage] = useState<{ Page: Page } | { error: unknown } | undefined>();
  const [fault] = useErrorBoundary();
  useLayoutEffect(() => {
    load().then(
      (module) => setPage({ Page: module.default }),
      (error: unknown) => setPage({ error }),
    );
  }, [load]);
  if (fault)
    return (
      <div class="page">
        <Fault error={asApiError(fault)} again={() => location.reload()} />
      </div>
    );
  if (!page) return <Loading />;
  if ('error' in page)
    return (
      <div class="page">
        <Fault error={asApiError(page.error)} again={() => location.reload()} />
      </div>
    );
  return <page.Page key={name} name={name} />;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
