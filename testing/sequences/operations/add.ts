import { refusalsOf, setEntries } from '../entries.ts';
import { entrySpec, flatEntry } from '../forms.ts';
import { find, IS_TAKEN, isMissing } from '../model.ts';
import { resolvedEntry } from '../resolve.ts';
import type { Perform } from './operation.ts';

/** Adds an entry to an application. */
export const add: Perform<'add'> = async (fleet, { application: owner, name, entry: raw, surface }) => {
  const { state } = fleet;
  const application = find(state, { to: 'applications', ref: owner });
  const { entry, sent, missing } = resolvedEntry(state, name, raw, surface);
  const after = application && { ...application, entries: [...application.entries, entry] };
  const exists = application?.entries.some((one) => one.name === name);
  if (surface === 'kubectl') {
    const object = application && fleet.stored(application);
    if (!object || exists) return;
    setEntries(application, [...application.entries, entry]);
    fleet.controller.cluster.edit(object, (copy) => {
      const spec = copy.spec as { microservices?: unknown[] };
      spec.microservices = [...(spec.microservices ?? []), entrySpec(entry)];
    });
    return;
  }
  const isFile = surface === 'yaml';
  const file = { kind: 'Microservice', metadata: { name: `${owner}/${name}` }, spec: entrySpec(sent) };
  await fleet.over(
    {
      method: 'POST',
      path: `/microservices${isFile ? '/yaml' : ''}`,
      ...(isFile ? { file } : { body: { ...flatEntry(sent), application: owner } }),
    },
    {
      refused: [
        ...(after ? [] : [isMissing('applications')]),
        ...missing,
        ...(exists ? [IS_TAKEN] : after ? refusalsOf(state, application, after) : []),
      ],
      status: 201,
      apply: () => {
        if (after) setEntries(application, after.entries);
      },
    },
  );
};
