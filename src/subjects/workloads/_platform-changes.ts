import { CONTAINER_FIELD_NAMES, fieldRow } from '../../api/container/index.ts';
import { toStructural } from '../../api/structural.ts';
import { type MicroserviceEntry, microserviceSchema } from '../../api/v3/index.ts';

/**
 * A change of every member that an entry has by its schema, of a microservice that belongs to the platform of a node, and whether a
 * user may make it. The table is written from docs/spec/workloads.md#microservices-of-the-platform.
 */
export interface PlatformChange {
  /** path in the entry */
  path: string;
  /** the whole entry after the change */
  entry: MicroserviceEntry;
  /** the change as a body of JSON */
  flat: Record<string, unknown>;
  isAllowed: boolean;
}

/** The entry before the changes. */
export const ROUTER_ENTRY: MicroserviceEntry = {
  name: 'router',
  uuid: '99999999-9999-4999-8999-999999999999',
  agent: { name: 'gw' },
  images: { amd64: 'router:1' },
  config: { mode: 'edge' },
  schedule: 1,
  container: { memoryLimit: 200, ports: [{ internal: 5671, external: 5671 }] },
};

/** What users may change. */
const ALLOWED: ReadonlySet<string> = new Set([
  'container.cpus',
  'container.cpuSetCpus',
  'container.memoryLimit',
  'container.memoryReservation',
  'container.memorySwap',
  'container.logSize',
  'container.annotations',
]);

const CATALOG = { bindPath: '/data', items: [{ name: 'one' }] };
/** Another value of each member beside the container; the same in both forms unless `FLAT` has another. */
const VALUES: Readonly<Record<string, unknown>> = {
  name: 'other',
  uuid: '88888888-8888-4888-8888-888888888888',
  isActivated: false,
  agent: { name: 'other' },
  images: { amd64: 'router:2' },
  config: { mode: 'interior' },
  minReadySeconds: 5,
  schedule: 7,
  models: CATALOG,
  knowledge: CATALOG,
  template: { name: 'base' },
  serviceAccount: { roleRef: { name: 'viewer' } },
  busConfig: { busAccess: true },
  busEnabled: true,
};
const FLAT: Readonly<Record<string, Record<string, unknown>>> = {
  agent: { agentName: 'other' },
  images: { images: [{ archId: 1, containerImage: 'router:2' }] },
};

const { container = {}, ...members } = toStructural(microserviceSchema).properties ?? {};
const EXAMPLES = Object.fromEntries(
  CONTAINER_FIELD_NAMES.flatMap((name) => {
    const { example, alias, flatName } = fieldRow(name);
    const flat = name === 'annotations' ? JSON.stringify(example) : example;
    return [name, ...(alias ? [alias.name] : [])].map((spelling) => [
      spelling,
      { example, flat: { [spelling === name ? flatName : spelling]: flat } },
    ]);
  }),
);

function known<T>(table: Readonly<Record<string, T>>, name: string): T {
  if (!Object.hasOwn(table, name)) throw new Error(`${name}: say in the table whether users may change it`);
  return table[name] as T;
}

export const PLATFORM_CHANGES: readonly PlatformChange[] = [
  ...Object.keys(members).map((path) => ({
    path,
    entry: { ...ROUTER_ENTRY, [path]: known(VALUES, path) } as MicroserviceEntry,
    flat: FLAT[path] ?? { [path]: known(VALUES, path) },
    isAllowed: ALLOWED.has(path),
  })),
  ...Object.keys(container.properties ?? {}).map((field) => {
    const { example, flat } = known(EXAMPLES, field);
    const path = `container.${field}`;
    const changed = { ...ROUTER_ENTRY.container, [field]: example };
    return {
      path,
      entry: { ...ROUTER_ENTRY, container: changed } as MicroserviceEntry,
      flat,
      isAllowed: ALLOWED.has(path),
    };
  }),
];
