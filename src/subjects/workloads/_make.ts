import { describe, type Example } from '../../../testing/example.ts';
import {
  type Application,
  applicationSpecSchema,
  type MicroserviceEntry,
  microserviceSchema,
  type ObservedMicroservice,
} from '../../api/v3/index.ts';
import { entryUuid } from '../../rules/names.ts';

export const APP_UUID = '22222222-2222-4222-8222-222222222222';

type EntryInput = Partial<MicroserviceEntry> & { name?: string };

export function makeEntry(entry: EntryInput = {}): MicroserviceEntry {
  return microserviceSchema.parse({
    name: 'reader',
    agent: { name: 'gw-1' },
    images: { amd64: 'reg.example/reader:2' },
    ...entry,
  });
}

export function makeApplication({
  name = 'plant-a',
  uid = APP_UUID,
  createdAt = '2026-01-01T00:00:00Z',
  spec = {},
  entries = [makeEntry()],
  ...metadata
}: {
  name?: string;
  uid?: string;
  createdAt?: string;
  spec?: Partial<Application['spec']>;
  entries?: readonly MicroserviceEntry[];
  annotations?: Record<string, string>;
  deletionTimestamp?: string;
  generation?: number;
} = {}): Application {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name, namespace: 'skerry', uid, creationTimestamp: createdAt, generation: 1, ...metadata },
    spec: applicationSpecSchema.parse({ ...spec, microservices: entries }),
  };
}

/** The entry of `makeApplication()` as a node reports it. */
export function observedReader(item: Partial<ObservedMicroservice> = {}): ObservedMicroservice {
  return {
    uuid: entryUuid(makeApplication(), { name: 'reader' }),
    application: 'plant-a',
    name: 'reader',
    state: 'RUNNING',
    containerId: 'c1',
    ...item,
  };
}

/** The entry of the example of application templates, and its node. */
export const TEMPLATE_ENTRY = { name: 'web', node: 'gw-a' } as const;

export const WORKLOADS = {
  applicationTemplates: {
    names: ['line', 'cell'],
    spec: ({ text, image }) => ({
      description: text,
      variables: [{ key: 'image', defaultValue: image }],
      application: {
        microservices: [
          {
            ...{ name: TEMPLATE_ENTRY.name, agentName: TEMPLATE_ENTRY.node },
            images: [{ archId: 1, containerImage: '{{ image }}' }],
          },
        ],
      },
    }),
    change: ({ text }) => ({ description: text }),
    shown: ({ draft: { text } }) => ({ description: text }),
    edits: [describe],
    kubectl: (n) => ({ spec: { variables: [{ key: `v${n}` }] } }),
  },
  microserviceTemplates: {
    names: ['base', 'edge'],
    spec: ({ text, image }) => ({ description: text, microservice: { images: { amd64: image } } }),
    edits: [describe, { body: (n) => ({ variables: [{ key: `v${n}` }] }) }],
    kubectl: (n) => ({ spec: { microservice: { schedule: n } } }),
  },
  applications: {
    names: ['plant', 'mill'],
    rest: { path: '/application', list: 'applications', part: 'application', update: 'PUT' },
    spec: ({ isActivated }) => ({ isActivated }),
    edits: [describe, { body: (n) => ({ busConfig: { busAccess: true, busRule: `rule-${n}` } }) }],
    kubectl: (n) => ({ spec: { isActivated: n % 2 === 0 } }),
  },
} satisfies Record<string, Example>;
