/** Whether a text is base64 as the API server reads it: line breaks do not count, other white space does. */
export const isBase64 = (value: string): boolean => {
  const plain = withoutBreaks(value);
  return plain.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(plain);
};

export const withoutBreaks = (value: string): string => value.replaceAll(/[\r\n]/g, '');

/** Undefined for bytes that are no text. */
export function textOfBase64(value: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(value, 'base64'));
  } catch {
    return undefined;
  }
}

export const base64OfText = (value: string): string => Buffer.from(value).toString('base64');

/** The number of bytes that a base64 text stands for. */
export const bytesOfBase64 = (value: string): number => Buffer.byteLength(value, 'base64');
