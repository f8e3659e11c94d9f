// Actions on the selected runs.
import { sendJson } from '../../api/http';
import { plural } from '../../lib/format';
import { ask, attempt, note } from '../../parts/overlays';
import { compareHref, go, MOST_COMPARED } from '../../lib/router';

type Action = 'tag' | 'untag' | 'cancel' | 'archive' | 'unarchive' | 'delete' | 'restore';

interface Outcome {
  done: string[];
  failed: { id: string; error: { what: string; why?: string; hint?: string } }[];
}

const DONE: Record<Action, string> = {
  tag: 'tagged',
  untag: 'untagged',
  cancel: 'asked to stop',
  archive: 'archived',
  unarchive: 'back from the archive',
  delete: 'deleted',
  restore: 'restored',
};
const UNDO: Partial<Record<Action, Action>> = { archive: 'unarchive', unarchive: 'archive', delete: 'restore' };

/** Do it to all runs and show a note with the outcome, with an Undo where there is one. */
async function change(
  ids: readonly string[],
  action: Action,
  more: Record<string, unknown>,
  { onDone, onUndone }: { onDone: () => void; onUndone: () => void },
): Promise<void> {
  await attempt(async () => {
    const { done, failed } = await sendJson<Outcome>('POST', '/runs/bulk', { ids, action, ...more });
    const undo = UNDO[action];
    if (done.length) {
      note(
        `${plural(done.length, 'run')} ${DONE[action]}.`,
        undo ? { action: { label: 'Undo', run: () => change(done, undo, {}, { onDone: onUndone, onUndone }) } } : {},
      );
    }
    const first = failed[0];
    if (first) {
      const rest = failed.length > 1 ? ` ${plural(failed.length - 1, 'more run')} could not be changed.` : '';
      note([first.error.what, first.error.why, first.error.hint].filter(Boolean).join(' ') + rest, { isBad: true });
    }
    onDone();
  });
}

export function SelectionBar({
  ids,
  view,
  onDone,
  onUndone,
  onClear,
}: {
  ids: readonly string[];
  view: string;
  onDone: () => void;
  onUndone: () => void;
  onClear: () => void;
}) {
  const act = (action: Action, more: Record<string, unknown> = {}): void =>
    void change(ids, action, more, { onDone, onUndone });
  const tag = async (): Promise<void> => {
    const text = await ask({
      title: `Tag ${plural(ids.length, 'run')}`,
      label: 'Tag',
      input: { label: 'A tag, or key=value', placeholder: 'team=vision' },
    });
    const [key = '', ...value] = (text ?? '').split('=');
    if (key.trim()) act('tag', { tags_set: { [key.trim()]: value.length ? value.join('=').trim() : null } });
  };
  const isComparable = ids.length >= 2 && ids.length <= MOST_COMPARED;
  return (
    <div class="rt-bar" role="region" aria-label="Selected runs">
      <strong class="number">{ids.length} selected</strong>
      {view === 'deleted' ? (
        <button type="button" class="button small" onClick={() => act('restore')}>
          Restore
        </button>
      ) : (
        <>
          <button
            type="button"
            class="button small primary"
            disabled={!isComparable}
            title={isComparable ? undefined : `Choose 2 to ${MOST_COMPARED} runs to compare`}
            onClick={() => go(compareHref(ids))}
          >
            Compare
          </button>
          <button type="button" class="button small" onClick={() => void tag()}>
            Tag…
          </button>
          <button type="button" class="button small" onClick={() => act('cancel')}>
            Cancel runs
          </button>
          {view !== 'archived' && (
            <button type="button" class="button small" onClick={() => act('archive')}>
              Archive
            </button>
          )}
          {view !== 'active' && (
            <button type="button" class="button small" onClick={() => act('unarchive')}>
              Unarchive
            </button>
          )}
          <button type="button" class="button small danger" onClick={() => act('delete')}>
            Delete
          </button>
        </>
      )}
      <button type="button" class="button small quiet" aria-label="Select nothing" onClick={onClear}>
        ×
      </button>
    </div>
  );
}
