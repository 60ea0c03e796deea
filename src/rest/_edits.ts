import { EDITED, type Example, type Json, makeDraft } from '../../testing/example.ts';
import { EVERY_KIND, FORMS } from '../../testing/examples.ts';
import type { Kind } from '../kinds/definition.ts';
import type { Answer, TestClient } from './_client.ts';

/** How the objects of each kind are made and edited over REST: for tests of what holds for every kind. */

export interface Edits extends Pick<Example, 'edits' | 'kubectl'> {
  /** the path of the collection */
  path: string;
  create(name: string): Json;
}

/** Creates what the objects of all kinds refer to. */
export async function makeReferences(client: TestClient): Promise<void> {
  await client.post('/node', { json: { name: EDITED.node, archId: 1 } });
  await client.post('/registries', { json: { name: EDITED.hub, url: 'hub.example', type: 'hub' } });
  await client.post('/application', { json: { name: EDITED.application } });
  for (const name of EDITED.configMaps) await client.post('/configmaps', { json: { name, data: { a: 'b' } } });
}

/** Every kind with its edits. */
export const editsOfKinds = (): readonly { kind: Kind; edits: Edits }[] =>
  Object.values(EVERY_KIND).map((kind) => {
    const { path, edits, kubectl, spec, edited } = FORMS[kind.key as keyof typeof FORMS];
    const whole = (name: string) => (kind.rest.crud?.scope ? `${EDITED.application}/${name}` : name);
    const create = (name: string) => ({ name, ...spec(makeDraft(edited), whole(name)) });
    return { kind, edits: { path, create, edits, kubectl } };
  });

/** The path of an object after its creation. */
export function itemPath(kind: Kind, { path }: Edits, made: Answer, name: string): string {
  const { key, crud } = kind.rest;
  if (crud?.scope) return `${path}/${EDITED.application}/${name}`;
  return `${path}/${key === 'name' ? name : made.body[key]}`;
}
