import { expect } from 'vitest';
import { LABELS } from '../../../src/api/names.ts';
import { NAMESPACE } from '../../in-memory-controller.ts';
import { pathOf } from '../forms.ts';
import { find, isMissing, of, RULES, usersOf } from '../model.ts';
import type { Perform } from './operation.ts';

export const remove: Perform<'delete'> = async (fleet, { kind, name, by }) => {
  const { state } = fleet;
  const item = fleet.named(kind, name);
  const object = item && fleet.stored(item);
  const { inUse, deleted } = RULES[kind];
  const users = item && inUse ? usersOf(state, item) : [];
  if (by === 'rest') {
    await fleet.over(
      { method: 'DELETE', path: pathOf(kind, item, name) },
      {
        refused: item ? (users.length > 0 && inUse ? [inUse] : []) : [isMissing(kind)],
        names: users,
        status: deleted,
        apply: () => {
          if (!item) return;
          for (const mount of of(state, 'volumeMounts'))
            if (find(state, mount.draft.source) === item) fleet.drop(mount);
          fleet.dropWithAccounts(item);
        },
      },
    );
    return;
  }
  if (!item || !object) return;
  // The admission policy of the cluster refuses by this label.
  if (by === 'kubectl' && inUse)
    expect(object.metadata.labels?.[LABELS.inUse] === 'true', `${kind} ${name} is in use by ${users}`).toBe(
      users.length > 0,
    );
  if (by === 'kubectl' && users.length > 0) return;
  const { cluster } = fleet.controller;
  if (by === 'force')
    cluster.edit(object, (copy) => {
      copy.metadata.finalizers = [];
    });
  await cluster.client.delete(fleet.storeOf(kind).resource, { namespace: NAMESPACE, name: item.object });
  // Without its finalizer an application is deleted before its accounts are.
  if (by === 'force') fleet.drop(item);
  else fleet.dropWithAccounts(item);
};
