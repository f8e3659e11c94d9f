// Frames: byte strings with a JSON head each, as `runyard.core.formats.frames` packs them.
export type Head = Record<string, unknown>;

export interface Frame {
  head: Head;
  body: Uint8Array;
}

export function* iterFrames(data: ArrayBuffer): Generator<Frame> {
  const view = new DataView(data);
  const text = new TextDecoder();
  for (let at = 0; at < data.byteLength; ) {
    const headSize = view.getUint32(at, true);
    const bodySize = view.getUint32(at + 4, true);
    const start = at + 8;
    yield {
      head: JSON.parse(text.decode(new Uint8Array(data, start, headSize))) as Head,
      body: new Uint8Array(data, start + headSize, bodySize),
    };
    at = start + headSize + bodySize;
  }
}

/** The numbers of a frame of type f8, i8 or b1. Integers beyond 2^53 lose their last digits, as any JavaScript number. */
export function numbersOf(frame: Frame): Float64Array {
  const { body, head } = frame;
  if (head.type === 'b1') return Float64Array.from(body);
  const bytes = body.slice(); // bodies are not aligned to 8 bytes
  if (head.type === 'i8') return Float64Array.from(new BigInt64Array(bytes.buffer), Number);
  return new Float64Array(bytes.buffer);
}
