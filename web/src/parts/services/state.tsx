// The state of a service or a revision: a coloured dot and the word.
import { stateKind } from './facts';

export function ServiceState({ state, pill }: { state: string; pill?: boolean }) {
  const kind = stateKind(state);
  return (
    <span class={`status ${kind}${pill ? ' pill' : ''}`}>
      <span class={`dot${kind === 'busy' ? ' pulse' : ''}`} aria-hidden="true" />
      {state}
    </span>
  );
}
