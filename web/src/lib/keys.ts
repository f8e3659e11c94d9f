// Single keys as shortcuts, except where somebody types.
import { useLayoutEffect, useRef } from 'preact/hooks';

export type Keys = Record<string, () => void>;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** While the component is shown, `keys` names what a key does: `{ e: jump, '?': help }`. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  // Not `useEffect`: that comes some frames after what it is for is seen, and keys would be lost until then.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const act = latest.current[event.key];
      if (!act || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}
