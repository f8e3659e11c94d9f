import { useLayoutEffect, useState } from 'preact/hooks';
import { imageHref } from '../notebook';

/** An image in `<img>`, where SVG runs no script; SVG as data, so that it has no origin of ours in a tab of its own either. */
export function ImageView({ data, type, name }: { data: Uint8Array<ArrayBuffer>; type: string; name: string }) {
  const [src, setSrc] = useState('');
  const [size, setSize] = useState('');
  const [isBroken, setBroken] = useState(false);
  const [isFull, setFull] = useState(false);
  useLayoutEffect(() => {
    setBroken(false);
    setSize('');
    if (type === 'image/svg+xml') return setSrc(imageHref(type, new TextDecoder().decode(data)));
    const made = URL.createObjectURL(new Blob([data], { type }));
    setSrc(made);
    return () => URL.revokeObjectURL(made);
  }, [data, type]);
  if (isBroken)
    return <p class="soft shown-note">The browser cannot show this as an image. Download it to look at it.</p>;
  return (
    <figure class="image-view">
      <button
        type="button"
        class={`image-box${isFull ? ' full' : ''}`}
        title={isFull ? 'Fit into the page' : 'Show in full size'}
        onClick={() => setFull(!isFull)}
      >
        {src && (
          <img
            src={src}
            alt={name}
            onLoad={(event) => setSize(`${event.currentTarget.naturalWidth} × ${event.currentTarget.naturalHeight}`)}
            onError={() => setBroken(true)}
          />
        )}
      </button>
      <figcaption class="small soft number">{size}</figcaption>
    </figure>
  );
}
