import { SYSTEM_APPLICATION_PREFIX } from '../api/names.ts';

/**
 * The names and numbers that applications of the system give to objects, as the admission policy of names knows them
 * (docs/decisions/2026-11-23-what-the-system-uses.md#names-over-kubectl).
 */

/**
 * Longest text of the names of one kind, characters. The policy searches the text for each name of an object, and the API server
 * bounds the cost of that. The names of objects of the system are chosen by who may change the system, and are few.
 */
export const NAMES_LENGTH = 32 * 1024;

/** Stands for all names of a kind: those that it has are longer than {@link NAMES_LENGTH}. */
export const EVERY_NAME = '*';

/** A kind, by its plural in the Kubernetes API, and `name:<v3 name>` or `id:<number>`. */
export interface NamedObject {
  plural: string;
  name: string;
}

/**
 * Whether the policy of names judges the name. Of service accounts of applications on nodes there is one for each
 * microservice of the system; the policy of accounts judges these by their prefix.
 */
export const isJudged = ({ plural, name }: NamedObject): boolean =>
  plural !== 'serviceaccounts' || !name.startsWith(`name:${SYSTEM_APPLICATION_PREFIX}`);

/** Data of the ConfigMap that the admission policy reads: for each kind with such names a text with a name in each line. */
export function systemNamesData(names: ReadonlyMap<string, Iterable<string>>): Record<string, string> {
  const data: Record<string, string> = {};
  for (const [plural, some] of names) {
    const lines = [...some].sort();
    if (lines.length === 0) continue;
    const text = `\n${lines.join('\n')}\n`;
    data[plural] = text.length > NAMES_LENGTH ? EVERY_NAME : text;
  }
  return data;
}
