import { objectName } from '../../../src/rules/names.ts';
import { NAMESPACE } from '../../in-memory-controller.ts';
import { resolved, resolvedEntry } from '../resolve.ts';
import type { Perform } from './operation.ts';

/** Another object with a name that is taken, which only kubectl can create. */
export const duplicate: Perform<'duplicate'> = async (fleet, { kind, name, draft, entry, settings }) => {
  const { state } = fleet;
  const item = fleet.fresh(kind, fleet.named(kind, name)?.name ?? name, resolved(state, draft, 'kubectl'));
  item.object = `${objectName(name).toLowerCase()}-again`;
  item.slot = name;
  if (kind === 'nodes') item.settings = settings;
  if (kind === 'applications') item.entries = [resolvedEntry(state, 'web', entry, 'kubectl').entry];
  if (fleet.storeOf(kind).get(NAMESPACE, item.object)) return;
  await fleet.createObject(item);
  state.items.push(item);
};
