import { BOUNDS } from '../../../api/bounds.ts';

const NAME = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
/** A key of an annotation: a name, with the name of a domain before it. */
const KEY = new RegExp(`^(${LABEL}(\\.${LABEL})*/)?${NAME}$`);

/**
 * What tags are as annotations of the Service of the cluster: the text before the first colon is the key, the text up to the next one
 * the value. `illegal` are tags whose key the API server refuses; they select nodes all the same.
 */
export function annotationsOf(tags: readonly string[]): { annotations: Record<string, string>; illegal: string[] } {
  const annotations: Record<string, string> = {};
  const illegal: string[] = [];
  for (const tag of tags) {
    const [key = '', value = ''] = tag.split(':', 2).map((part) => part.trim());
    const prefix = key.indexOf('/');
    if (KEY.test(key) && prefix <= BOUNDS.name) annotations[key] = value;
    else illegal.push(tag);
  }
  return { annotations, illegal };
}
