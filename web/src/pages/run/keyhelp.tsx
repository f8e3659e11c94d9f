// The help for keyboard shortcuts.
import { useLayoutEffect, useRef } from 'preact/hooks';

const MORE: readonly (readonly [string, string])[] = [
  ['/', 'Search in the tab'],
  ['e', 'Log: jump to the first error'],
  ['n N', 'Log: next and previous match'],
  ['f', 'Log: follow the end'],
  ['w', 'Log: wrap long lines'],
  ['g', 'Go to the navigation'],
  ['?', 'This help'],
];

export function KeyHelp({ tabs, close }: { tabs: readonly string[]; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: for the keyboard, Escape closes a dialog
    <dialog
      ref={dialog}
      class="dialog"
      aria-label="Keys"
      onClose={close}
      onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
    >
      <div class="stack">
        <h2>Keys</h2>
        <dl class="facts">
          {[...tabs.map((label, index) => [String(index + 1), label] as const), ...MORE].map(([key, text]) => (
            <>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{text}</dd>
            </>
          ))}
        </dl>
        <div class="row dialog-buttons">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
      </div>
    </dialog>
  );
}
