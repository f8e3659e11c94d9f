// The models of a revision, each with a link to the very version.
import { namePart } from '../../api/http';
import { href } from '../../lib/router';
import { modelParts } from '../../parts/services/facts';

export function Models({ names }: { names: readonly string[] }) {
  if (!names.length) return <span class="faint">none</span>;
  return (
    <ul class="plain-list">
      {names.map((text) => {
        const { name, version } = modelParts(text);
        return (
          <li key={text}>
            <a href={href(`/models/${namePart(name)}`, { version })}>{text}</a>
          </li>
        );
      })}
    </ul>
  );
}
