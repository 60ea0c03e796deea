import { randomUUID } from 'node:crypto';
import type { Json } from '../example.ts';
import type { Fleet } from './fleet.ts';
import { entrySpec } from './forms.ts';
import { type Entry, find, type Item, type Refusal, type State, wrongWith } from './model.ts';

/** What the operations on the entries of applications share. */

export function setEntries(application: Item, entries: readonly Entry[]): void {
  for (const { name, rebuilds } of application.entries) application.rebuilds[name] = rebuilds;
  application.entries = entries.map((entry) => ({
    ...entry,
    rebuilds: Math.max(entry.rebuilds, application.rebuilds[entry.name] ?? 0),
  }));
}

/** The refusals of the entries that a write adds or changes; an entry that it only stops is not judged. */
export function refusalsOf(state: State, before: Item | undefined, after: Item): Refusal[] {
  const next = { items: [...state.items.filter((one) => one !== (before ?? after)), after] };
  const form = (entry: Entry | undefined) => entry && JSON.stringify({ ...entrySpec(entry), isActivated: true });
  return after.entries.flatMap((entry) => {
    const old = before?.entries.find(({ name }) => name === entry.name);
    const isStarted = entry.isActivated && old && !old.isActivated;
    return form(old) === form(entry) && !isStarted ? [] : wrongWith(next, after, entry, { writing: true });
  });
}

export const withoutActivation = ({ isActivated: _, ...entry }: Json): Json => entry;

interface EntryRequest {
  method: string;
  path: (uuid: string) => string;
  body?: unknown;
  file?: unknown;
  /** of success; 204 when absent */
  status?: number;
  /** refusals besides the judgement of the entry */
  more?: readonly Refusal[];
}

/** A request about one entry. `change` returns the entry after it, and undefined for an entry that is removed. */
export async function editEntry(
  fleet: Fleet,
  { application: owner, name }: { application: string; name: string },
  { method, path, body, file, status = 204, more = [] }: EntryRequest,
  change: (entry: Entry) => Entry | undefined,
): Promise<void> {
  const application = find(fleet.state, { to: 'applications', ref: owner });
  const entry = application?.entries.find((one) => one.name === name);
  const next = entry && change(entry);
  const entries = application?.entries.flatMap((one) => (one === entry ? (next ?? []) : one)) ?? [];
  const uuid = application && entry ? fleet.entryUuid(application, name) : randomUUID();
  await fleet.over(
    { method, path: path(uuid), body, file },
    {
      refused:
        application && entry
          ? [...more, ...refusalsOf(fleet.state, application, { ...application, entries })]
          : [{ status: 404, code: 'INVALID_MICROSERVICE_UUID' }],
      status,
      apply: () => {
        if (application) setEntries(application, entries);
      },
    },
  );
}
