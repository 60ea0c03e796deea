import { editEntry } from '../entries.ts';
import type { Fleet } from '../fleet.ts';
import { type Entry, find, type Refusal } from '../model.ts';
import type { On } from './operation.ts';

/** A route below `/microservices/<uuid>` that changes one part of an entry. */
interface Route<O> {
  method: string;
  path(operation: O): string;
  body?(operation: O): unknown;
  status?: number;
  /** The entry after the request; undefined for an entry that is removed. */
  change(entry: Entry, operation: O): Entry | undefined;
  /** Why the request is refused, whatever the entry then is. */
  refused?(of: { isActivated: boolean | undefined; entry: Entry | undefined }): Refusal | undefined;
}

const over =
  <O extends { application: string; name: string }>({ method, path, body, status, change, refused }: Route<O>) =>
  (fleet: Fleet, operation: O): Promise<void> => {
    const application = find(fleet.state, { to: 'applications', ref: operation.application });
    const entry = application?.entries.find(({ name }) => name === operation.name);
    const refusal = refused?.({ isActivated: application?.draft.isActivated, entry });
    return editEntry(
      fleet,
      operation,
      {
        method,
        path: (uuid) => `/microservices/${uuid}${path(operation)}`,
        body: body?.(operation),
        ...(status !== undefined && { status }),
        more: refusal ? [refusal] : [],
      },
      (old) => change(old, operation),
    );
  };

export const ENTRY_ROUTES = {
  start: over<On<'start'>>({
    method: 'PATCH',
    path: () => '/start',
    change: (entry) => ({ ...entry, isActivated: true }),
    refused: ({ isActivated }) =>
      isActivated === false ? { status: 400, code: 'APPLICATION_NOT_ACTIVATED' } : undefined,
  }),
  stop: over<On<'stop'>>({
    method: 'PATCH',
    path: () => '/stop',
    change: (entry) => ({ ...entry, isActivated: false }),
  }),
  rebuild: over<On<'rebuild'>>({
    method: 'PATCH',
    path: () => '/rebuild',
    change: (entry) => ({ ...entry, rebuilds: entry.rebuilds + 1 }),
  }),
  remove: over<On<'remove'>>({ method: 'DELETE', path: () => '', change: () => undefined }),
  bind: over<On<'bind'>>({
    method: 'PATCH',
    path: ({ kind }) => `/${kind}`,
    body: ({ kind, items }) =>
      items.length > 0 ? { bindPath: `/${kind}`, items: items.map((name) => ({ name })) } : {},
    change: (entry, { kind, items }) => ({ ...entry, [kind]: items }),
  }),
  publish: over<On<'publish'>>({
    method: 'POST',
    path: () => '/port-mapping',
    body: ({ port }) => ({ internal: 80, external: port }),
    status: 201,
    change: (entry, { port }) => ({ ...entry, port }),
    refused: ({ entry }) =>
      entry?.port === undefined ? undefined : { status: 400, code: 'PORT_MAPPING_ALREADY_EXISTS' },
  }),
  withdraw: over<On<'withdraw'>>({
    method: 'DELETE',
    path: () => '/port-mapping/80',
    change: ({ port: _, ...rest }) => rest,
    refused: ({ entry }) =>
      entry && entry.port === undefined ? { status: 404, code: 'INVALID_PORT_MAPPING' } : undefined,
  }),
};
