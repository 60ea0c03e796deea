import type { Json } from '../../example.ts';
import { refusalsOf, setEntries, withoutActivation } from '../entries.ts';
import { documentOf, entrySpec, flatEntry } from '../forms.ts';
import { find, IS_TAKEN, isMissing, WITHOUT_CONTENT } from '../model.ts';
import { resolvedEntry } from '../resolve.ts';
import type { Perform } from './operation.ts';

/** Creates or replaces an application with all its entries. */
export const apply: Perform<'apply'> = async (fleet, { verb, name, entries: given, surface }) => {
  const { state } = fleet;
  const before = find(state, { to: 'applications', ref: name });
  const all = given.map((raw) => resolvedEntry(state, raw.name, raw, surface));
  const made = all.map(({ entry }) => entry);
  const kept = made.map((entry) => {
    const old = before?.entries.find((one) => one.name === entry.name);
    return old ? { ...entry, isActivated: old.isActivated, rebuilds: old.rebuilds } : entry;
  });
  const after = before
    ? { ...before, entries: kept }
    : { ...fleet.fresh('applications', name, WITHOUT_CONTENT), entries: made };
  if (surface === 'kubectl') {
    const object = before && fleet.stored(before);
    if (verb === 'create' && !before) {
      await fleet.createObject(after);
      state.items.push(after);
    } else if (verb === 'replace' && object) {
      fleet.controller.cluster.edit(object, (copy) => {
        (copy.spec as Json).microservices = kept.map((entry) => entrySpec(entry));
      });
      setEntries(before, kept);
    }
    return;
  }
  const templates = all.flatMap(({ missing }) => missing);
  const isFile = surface === 'yaml';
  const spec = {
    microservices: all.map(({ sent }) => withoutActivation(isFile ? entrySpec(sent) : flatEntry(sent))),
  };
  const content = isFile ? { file: documentOf(after, spec) } : { body: { name, ...spec } };
  const root = `/application${isFile ? '/yaml' : ''}`;
  if (verb === 'create')
    await fleet.over(
      { method: 'POST', path: root, ...content },
      {
        refused: [
          ...(before ? [IS_TAKEN] : []),
          ...templates,
          ...refusalsOf(state, undefined, { ...after, entries: made }),
        ],
        status: 201,
        apply: () => state.items.push(after),
      },
    );
  else
    await fleet.over(
      { method: 'PUT', path: `${root}/${name}`, ...content },
      {
        refused: [...(before ? refusalsOf(state, before, after) : [isMissing('applications')]), ...templates],
        status: 204,
        apply: () => {
          if (before) setEntries(before, kept);
        },
      },
    );
};
