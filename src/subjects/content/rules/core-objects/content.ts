import { hash } from 'node:crypto';
import type { KeyedText } from '../../../../rules/inputs.ts';
import { onceEach } from '../../../../rules/once-each.ts';
import { canonicalJson } from '../../../../wire/digest.ts';
import { volumeMountProblem } from '../../../../wire/volume-mounts.ts';

/** The values of a Secret or ConfigMap in base64, by key. Many nodes get one content: it is looked at once. */
export const contentOf = onceEach(({ data, base64 = {} }: KeyedText): Readonly<Record<string, string>> => {
  const content: Record<string, string> = { ...base64 };
  for (const [key, value] of Object.entries(data))
    if (!Object.hasOwn(content, key)) content[key] = Buffer.from(value).toString('base64');
  return content;
});

/** Length of content in a response: of its keys and of its base64. */
export const sizeOfData = (data: Readonly<Record<string, string>>): number =>
  Object.entries(data).reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + value.length, 0);

/** Length of the content of a Secret or ConfigMap in a response. */
export const sizeOf = onceEach((source: KeyedText) => sizeOfData(contentOf(source)));

/** Why the content cannot become files; empty when it can. */
export const problemOf = onceEach((source: KeyedText) => volumeMountProblem(contentOf(source)) ?? '');

export const hasKey = ({ data, base64 = {} }: KeyedText, key: string): boolean =>
  Object.hasOwn(data, key) || Object.hasOwn(base64, key);

/** The content, or a key with its value, as one text. */
export const contentText = (source: KeyedText, key?: string): string =>
  canonicalJson(key === undefined ? contentOf(source) : [key, contentOf(source)[key] ?? null]);

/** Names the content, or the value of one key. Stores give names that reveal nothing; without them, the plain hash. */
export const identifyContent = (source: KeyedText, key?: string): string =>
  source.identify?.(key) ?? hash('sha256', contentText(source, key)).slice(0, 32);
