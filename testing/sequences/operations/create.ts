import { FORMS } from '../../examples.ts';
import { NAMESPACE } from '../../in-memory-controller.ts';
import { bodyOf, documentOf } from '../forms.ts';
import { IS_TAKEN, RULES, wrongByRules } from '../model.ts';
import { resolved } from '../resolve.ts';
import type { Perform } from './operation.ts';

export const create: Perform<'create'> = async (fleet, { kind, name, draft, surface }) => {
  const item = fleet.fresh(kind, name, resolved(fleet.state, draft, surface));
  const { path, part } = FORMS[kind];
  if (surface === 'kubectl') {
    if (fleet.storeOf(kind).get(NAMESPACE, item.object)) return;
    await fleet.createObject(item);
    fleet.add(item);
    return;
  }
  const exists = fleet.named(kind, name);
  // REST gives registries names.
  if (kind === 'registries' && exists) return;
  const isFile = surface === 'yaml' && part !== undefined;
  await fleet.over(
    {
      method: 'POST',
      path: isFile ? `${path}/yaml` : path,
      ...(isFile ? { file: documentOf(item) } : { body: bodyOf(item) }),
    },
    {
      refused: [...(exists ? [IS_TAKEN] : []), ...wrongByRules(item, fleet.state)],
      status: RULES[kind].created,
      apply: (body) => fleet.add(item, body),
    },
  );
};
