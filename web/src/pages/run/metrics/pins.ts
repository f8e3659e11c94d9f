// Names of the metrics pinned to the top, stored in this browser.
import { signal } from '@preact/signals';
import { keep, recall } from '../../../lib/browser';

const KEY = 'runyard-pins';

export const pins = signal<readonly string[]>(read());

export function togglePin(name: string): void {
  pins.value = pins.value.includes(name) ? pins.value.filter((one) => one !== name) : [...pins.value, name].slice(-100);
  keep(KEY, JSON.stringify(pins.value));
}

function read(): readonly string[] {
  try {
    const kept: unknown = JSON.parse(recall(KEY) ?? '[]');
    return Array.isArray(kept) ? kept.filter((one): one is string => typeof one === 'string') : [];
  } catch {
    return [];
  }
}
