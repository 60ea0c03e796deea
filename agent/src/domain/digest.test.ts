import { describe, expect, test } from 'vitest';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../../src/api/container/index.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { containerDigest } from './digest.ts';

const full = makeView({
  imageId: 'registry.example.com/team/app:1.2',
  annotations: '{"b":"2","a":"1"}',
  hostNetworkMode: false,
  isPrivileged: true,
  cpus: 0.5,
  memoryLimit: 128,
  portMappings: [
    { internal: 80, external: 8080, protocol: 'tcp' },
    { internal: 53, external: 5300, protocol: 'udp' },
  ],
  volumeMappings: [
    { hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume', scope: 'private' },
  ],
  env: [
    { key: 'A', value: '1' },
    { key: 'B', value: '2', secret: true },
  ],
  commands: ['serve', '--verbose'],
  healthCheck: { test: ['CMD', 'true'], interval: 5 },
});

test('the digest is a golden value: a change would recreate every container of a fleet on an upgrade', () => {
  expect(containerDigest(makeView({ name: 'web', application: 'shop' }))).toBe('c1-baff7433d410ec74');
  expect(containerDigest(full)).toBe('c1-f51d18c9dc7b5c50');
});

describe('the digest does not depend on', () => {
  const same: Record<string, Partial<typeof full>> = {
    'the revision and rebuilds': { revision: 'other', rebuild: true, rebuildCount: 9 },
    'the start order of microservices': { schedule: 3, isSystem: true },
    'the config, which the workload fetches itself': { config: '{"x":1}' },
    'the registry of the image': { registryId: 9 },
    'the order of env, ports and JSON keys': {
      env: [...full.env].reverse(),
      portMappings: [...full.portMappings].reverse(),
      annotations: '{"a":"1","b":"2"}',
    },
    "the controller's name of the content of a key, since the path that is bound names it": {
      volumeMappings: full.volumeMappings.map((mapping) => ({ ...mapping, content: 'abc' })),
    },
    'whether a value came from a Secret': { env: full.env.map(({ key, value }) => ({ key, value })) },
    'whether arguments are called cmd or commands': { commands: [], cmd: full.commands },
  };
  for (const [name, change] of Object.entries(same))
    test(name, () => expect(containerDigest({ ...full, ...change })).toBe(containerDigest(full)));

  test('a member that has its default', () =>
    expect(containerDigest({ ...full, tmpfs: [], pidMode: '', logSize: 0, readOnlyRootFilesystem: false })).toBe(
      containerDigest(full),
    ));
});

describe('the digest depends on', () => {
  const different: Record<string, Partial<typeof full>> = {
    'the image': { imageId: 'registry.example.com/team/app:1.3' },
    'a value of env': { env: [{ key: 'A', value: '3' }] },
    'the order of arguments': { commands: [...full.commands].reverse() },
    'a port': { portMappings: full.portMappings.slice(0, 1) },
    'the scope of a volume': {
      volumeMappings: full.volumeMappings.map((mapping) => ({ ...mapping, scope: 'shared' as const })),
    },
    'the name, which is a DNS name for other microservices': { name: 'other' },
    'a memory limit': { memoryLimit: 256 },
  };
  for (const [name, change] of Object.entries(different))
    test(name, () => expect(containerDigest({ ...full, ...change })).not.toBe(containerDigest(full)));
});

test.each(CONTAINER_FIELD_NAMES)(
  'the digest depends on a value of the container field %s, but not on its default',
  (field) => {
    const { wire, wireName, example, default: absent } = fieldRow(field);
    // references are resolved, and annotations are JSON text
    const value = field === 'extraHosts' ? ['db:192.0.2.7'] : field === 'annotations' ? '{"a":"1"}' : example;
    const plain = makeView();
    expect(containerDigest({ ...plain, [wireName]: wire.parse(value) })).not.toBe(containerDigest(plain));
    expect(containerDigest({ ...plain, [wireName]: absent })).toBe(containerDigest(plain));
  },
);
