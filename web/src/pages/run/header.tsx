// The run's name, status and actions.
import { useState } from 'preact/hooks';
import { address, part, sendJson } from '../../api/http';
import { hasEnded, type Run } from '../../api/types';
import { toClipboard } from '../../lib/browser';
import { plural } from '../../lib/format';
import { Copy, Lasting, Status, Tag, When } from '../../parts/basics';
import { ask, attempt, MenuItem, note, Popover } from '../../parts/overlays';
import { compareHref, DEFAULT_WORKSPACE, go, href, runHref } from '../../lib/router';
import { serviceNameOf } from '../../parts/services/facts';
import { Editable } from './editable';
import { distributionOf, tagsOf } from './facts';
import type { TabProps } from './tab';

const MOST_TAGS = 12;

export function Header({ run, again }: TabProps) {
  const change = (body: object): Promise<boolean> =>
    attempt(async () => {
      await sendJson('PATCH', `/runs/${part(run.id)}`, body);
      again();
    });
  return (
    <header class="run-head">
      <nav class="run-path small" aria-label="Where this run belongs">
        <a href={href('/runs', { experiment: run.experiment })} class="cut">
          {run.experiment}
        </a>
        <span class="faint">/</span>
        {run.parent_id && (
          <>
            <a href={runHref(run.parent_id)} class="cut mono" title={`Parent run ${run.parent_id}`}>
              {run.parent_id}
            </a>
            <span class="faint">/</span>
          </>
        )}
        <span class="soft number">#{run.number}</span>
      </nav>
      <div class="run-title">
        <div class="row grow">
          <Editable
            value={run.display_name}
            label="Display name"
            maxLength={256}
            save={(display_name) => change({ display_name })}
          >
            <h1 class="run-name" title={run.display_name || run.id}>
              {run.display_name || run.id}
            </h1>
          </Editable>
          <Status status={run.status} pill />
          {run.archived_at && <span class="tag">archived</span>}
        </div>
        <Actions run={run} again={again} />
      </div>
      <Facts run={run} />
      <div class="row run-tags">
        <Tags run={run} change={change} />
        {!run.description && <Description run={run} change={change} />}
      </div>
      {run.description && <Description run={run} change={change} />}
    </header>
  );
}

function Description({ run, change }: { run: Run; change: (body: object) => Promise<boolean> }) {
  const save = (description: string): Promise<boolean> => change({ description });
  return (
    <Editable value={run.description} label="Description" isLong maxLength={10_000} save={save} empty="+ description">
      <p class="run-description">{run.description}</p>
    </Editable>
  );
}

function Facts({ run }: { run: Run }) {
  const distribution = distributionOf(run);
  return (
    <p class="run-facts small soft">
      <span class="run-id">
        {run.display_name && (
          <code class="cut" title={run.id}>
            {run.id}
          </code>
        )}
        <Copy text={run.id} label={run.display_name ? 'Copy' : 'Copy id'} />
      </span>
      <span>
        created <When time={run.created_at} />
      </span>
      <Duration run={run} />
      <span>
        on <a href={href(`/compute/${part(run.spec.target)}`)}>{run.spec.target}</a>
      </span>
      {distribution && <span>{distribution}</span>}
      {run.submitted_by && <span>by {run.submitted_by}</span>}
      {run.attempt > 1 && (
        <span>
          attempt {run.attempt} of {run.spec.max_attempts}
        </span>
      )}
    </p>
  );
}

function Duration({ run }: { run: Run }) {
  if (run.started_at)
    return (
      <span>
        {run.ended_at ? 'ran' : 'running for'} <Lasting since={run.started_at} until={run.ended_at} />
      </span>
    );
  if (!hasEnded(run.status))
    return (
      <span>
        waiting <Lasting since={run.created_at} until={null} />
      </span>
    );
  return <span>never started</span>;
}

function Tags({ run, change }: { run: Run; change: (body: object) => Promise<boolean> }) {
  const add = (text: string): Promise<boolean> => {
    const [key = '', ...rest] = text.split('=');
    const name = key.trim();
    if (!name) return Promise.resolve(true);
    return change({ tags_set: { [name]: rest.length ? rest.join('=').trim() : null } });
  };
  const [isOpen, setOpen] = useState(false);
  const { own, system } = tagsOf(run);
  const shown = isOpen ? [...own, ...system] : own.slice(0, MOST_TAGS);
  const hidden = own.length + system.length - shown.length;
  return (
    <>
      {shown.map(([key, value]) => (
        <Tag key={key} name={key} value={value} onRemove={() => void change({ tags_remove: [key] })} />
      ))}
      {(hidden > 0 || isOpen) && (
        <button type="button" class="button small quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Fewer tags' : `${hidden} more ${hidden === 1 ? 'tag' : 'tags'}`}
        </button>
      )}
      <Editable value="" label="Tag, as name=value" empty="+ tag" maxLength={1000} save={add} />
    </>
  );
}

function Actions({ run, again }: TabProps) {
  const path = `/runs/${part(run.id)}`;
  const isLive = !hasEnded(run.status);
  const isStopping = run.desired === 'cancel' || run.status === 'CancelRequested';

  const cancel = async (): Promise<void> => {
    const text = 'Its processes are asked to stop, then killed. What it logged and wrote until then is kept.';
    if ((await ask({ title: 'Cancel this run?', text, label: 'Cancel the run', isDanger: true })) === null) return;
    await attempt(async () => {
      await sendJson('POST', `${path}/cancel`);
      again();
    });
  };
  const resubmit = (): Promise<boolean> =>
    attempt(async () => {
      const { run: made } = await sendJson<{ run: Run }>('POST', `${path}/resubmit`, {});
      go(runHref(made.id));
      note(`Run ${made.id} was submitted.`);
    });
  const archive = (archived: boolean): Promise<boolean> =>
    attempt(async () => {
      await sendJson('PATCH', path, { archived });
      again();
      note(archived ? 'The run is archived.' : 'The run is back from the archive.', {
        action: {
          label: 'Undo',
          run: async () => {
            await sendJson('PATCH', path, { archived: !archived });
            again();
          },
        },
      });
    });
  const remove = async (): Promise<void> => {
    const text = 'It and the runs below it are hidden at once; their files are freed after the undo window.';
    if ((await ask({ title: 'Delete this run?', text, label: 'Delete', isDanger: true })) === null) return;
    await attempt(async () => {
      const { deleted } = await sendJson<{ deleted: string[] }>('DELETE', path);
      go(href('/runs', { experiment: run.experiment }));
      note(`${plural(deleted.length, 'run')} deleted.`, {
        action: {
          label: 'Undo',
          run: async () => {
            await sendJson('POST', `${path}/restore`, {});
            go(runHref(run.id));
          },
        },
      });
    });
  };
  const service = serviceNameOf(run);
  return (
    <div class="row run-actions">
      {isLive && (
        <button type="button" class="button danger" disabled={isStopping} onClick={() => void cancel()}>
          {isStopping ? 'Canceling…' : 'Cancel'}
        </button>
      )}
      {!service && (run.spec.script || run.spec.command || run.spec.sweep) && (
        <button
          type="button"
          class="button"
          title="Submit the same code, arguments and environment again"
          onClick={() => void resubmit()}
        >
          Resubmit
        </button>
      )}
      {run.spec.sweep && (
        <a class="button" href={href(`/sweeps/${part(run.id)}`)}>
          Sweep
        </a>
      )}
      {service && (
        <a
          class="button"
          href={address(`/services/${part(service)}`, {
            workspace: run.workspace === DEFAULT_WORKSPACE ? null : run.workspace,
          })}
        >
          Service
        </a>
      )}
      <a class="button" href={compareHref([run.id])}>
        Compare
      </a>
      <Popover label="⋯" title="More" align="right">
        {(close) => (
          <>
            <MenuItem
              onPick={() => {
                close();
                void archive(!run.archived_at);
              }}
            >
              {run.archived_at ? 'Bring back from the archive' : 'Archive'}
            </MenuItem>
            <MenuItem
              onPick={() => {
                close();
                void toClipboard(location.href).then(() => note('The address was copied.'));
              }}
            >
              Copy the address of this view
            </MenuItem>
            <MenuItem
              onPick={() => {
                close();
                void toClipboard(`runyard runs show ${run.id}`).then(() => note('The command was copied.'));
              }}
            >
              Copy the command
            </MenuItem>
            {!isLive && (
              <MenuItem
                isDanger
                onPick={() => {
                  close();
                  void remove();
                }}
              >
                Delete…
              </MenuItem>
            )}
          </>
        )}
      </Popover>
    </div>
  );
}
