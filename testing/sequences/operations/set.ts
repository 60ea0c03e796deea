import type { Json } from '../../example.ts';
import { editEntry, withoutActivation } from '../entries.ts';
import { entrySpec, flatEntry } from '../forms.ts';
import { type Entry, find } from '../model.ts';
import { resolvedEntry } from '../resolve.ts';
import type { Perform } from './operation.ts';

/** Replaces the content of an entry. */
export const set: Perform<'set'> = async (fleet, { application: owner, name, entry: raw, surface }) => {
  const { entry, sent, missing } = resolvedEntry(fleet.state, name, raw, surface);
  const changed = (old: Entry): Entry => ({ ...entry, isActivated: old.isActivated, rebuilds: old.rebuilds });
  if (surface === 'kubectl') {
    const application = find(fleet.state, { to: 'applications', ref: owner });
    const object = application && fleet.stored(application);
    if (!object) return;
    application.entries = application.entries.map((one) => (one.name === name ? changed(one) : one));
    fleet.controller.cluster.edit(object, (copy) => {
      (copy.spec as Json).microservices = application.entries.map((one) => entrySpec(one));
    });
    return;
  }
  const isFile = surface === 'yaml';
  const metadata = { name: `${owner}/${name}` };
  const file = { kind: 'Microservice', metadata, spec: withoutActivation(entrySpec(sent)) };
  await editEntry(
    fleet,
    { application: owner, name },
    {
      method: 'PATCH',
      path: (uuid) => `/microservices${isFile ? '/yaml' : ''}/${uuid}`,
      ...(isFile ? { file } : { body: flatEntry(sent, null) }),
      more: missing,
    },
    changed,
  );
};
