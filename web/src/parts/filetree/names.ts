// Names of files as they are shown: characters that would reorder, hide or break the text around them are escaped.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\p{Cs}]/gu;

export const shownName = (name: string): string =>
  name.replace(HIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Whether the name can stand in an address of the API: the guard of the server refuses some. */
export const isReachable = (name: string): boolean => !/[\u0000-\u001f\u007f\\\p{Cs}]/u.test(name);
