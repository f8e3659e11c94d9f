import { describe, expect, it } from 'vitest';
import { EventText } from './event-source';

describe('the text of a stream of events', () => {
  it('is cut at empty lines, wherever the pieces of it end', () => {
    const text =
      ': hello\n\nevent: hello\ndata: {"a": "b: c"}\n\nevent: run\r\ndata: 1\r\ndata: 2\r\n\r\nevent: run\ndata: cut';
    const whole = new EventText().add(text);
    const pieces = new EventText();
    const found = [...text].flatMap((letter) => pieces.add(letter));

    expect(whole).toEqual([
      ['hello', '{"a": "b: c"}'],
      ['run', '1\n2'],
    ]);
    expect(found).toEqual(whole);
    expect(pieces.add('\n\n')).toEqual([['run', 'cut']]);
  });
});
