// Dark or light: as the machine says, until somebody chooses.
import { computed, effect, signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
const KEY = 'runyard-theme';
const machine = matchMedia('(prefers-color-scheme: dark)');
const isMachineDark = signal(machine.matches);
machine.addEventListener('change', () => (isMachineDark.value = machine.matches));

/** What was chosen. */
export const theme = signal<Theme>(read());

/** What is shown. Whoever draws on a canvas reads it, and draws again when it changes. */
export const shade = computed<'light' | 'dark'>(() => (theme.value === 'auto' ? (isMachineDark.value ? 'dark' : 'light') : theme.value));

effect(() => {
  document.documentElement.dataset['theme'] = shade.value;
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // A browser that keeps nothing still shows the page.
  }
});

function read(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === 'light' || kept === 'dark' ? kept : 'auto';
  } catch {
    return 'auto';
  }
}
