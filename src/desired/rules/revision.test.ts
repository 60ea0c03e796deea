import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../api/container/index.ts';
import { type MicroserviceView, microserviceViewSchema } from '../../wire/agent.ts';
import { revisionOf } from './revision.ts';

const minimal = microserviceViewSchema.parse({
  uuid: 'u',
  name: 'reader',
  application: 'plant-a',
  imageId: 'reg.example/reader:2',
  registryId: 1,
});

const full: MicroserviceView = {
  ...minimal,
  registryId: 7,
  config: '{"a":1}',
  annotations: '{"a":"1"}',
  schedule: 3,
  rebuildCount: 2,
  rebuild: true,
  hostNetworkMode: true,
  isPrivileged: true,
  readOnlyRootFilesystem: true,
  pidMode: 'host',
  ipcMode: 'host',
  cpuSetCpus: '0-1',
  runAsUser: '1000',
  runAsGroup: '1000',
  platform: 'linux/amd64',
  runtime: 'crun',
  workingDir: '/srv',
  cpus: 0.5,
  memoryLimit: 100,
  memoryReservation: 50,
  memorySwap: -1,
  shmSize: 10,
  logSize: 3,
  portMappings: [
    { internal: 80, external: 8080, protocol: 'tcp' },
    { internal: 81, external: 8081, protocol: 'udp' },
  ],
  volumeMappings: [
    { hostDestination: '/a', containerDestination: '/a', accessMode: 'ro', type: 'bind', scope: 'private' },
    { hostDestination: 'b', containerDestination: '/b', accessMode: 'rw', type: 'volume', scope: 'shared' },
  ],
  env: [
    { key: 'A', value: '1' },
    { key: 'P', value: 'hunter2', secret: true },
  ],
  extraHosts: ['a:10.0.0.1', 'b:10.0.0.2'],
  cmd: ['x', 'y'],
  commands: ['x', 'y'],
  entrypoint: ['/bin/sh'],
  cdiDevices: ['nvidia.com/gpu=0', 'nvidia.com/gpu=1'],
  capAdd: ['NET_ADMIN', 'SYS_TIME'],
  capDrop: ['ALL', 'KILL'],
  healthCheck: { test: ['CMD', 'true'], interval: 5 },
  sysctls: { 'net.ipv4.tcp_syncookies': '1' },
  ulimits: { nofile: { soft: 1, hard: 2 } },
  devices: [
    { hostPath: '/dev/a', containerPath: '/dev/a', permissions: 'rwm' },
    { hostPath: '/dev/b', containerPath: '/dev/b', permissions: 'r' },
  ],
  tmpfs: [{ containerPath: '/tmp', size: 5 }, { containerPath: '/run' }],
  models: { bindPath: '/m', permissions: 'ro', items: [{ name: 'tiny' }] },
  knowledge: { bindPath: '/k', permissions: 'rw', items: [{ name: 'manuals' }] },
};

describe('revisionOf', () => {
  /**
   * A changed value here makes every container of every fleet out of date, and no application is ready until
   * its agents agree. Add fields with a default instead; they change nothing.
   */
  it('equals the golden values', () => {
    expect(revisionOf(minimal)).toBe('r1-67f02986ae5d269c');
    expect(revisionOf(full)).toBe('r1-359626d6153a3f2b');
    expect(revisionOf(full, 'key of the installation')).toBe('r1-f877b14cece466c9');
  });

  it('does not change with a new optional field that has its default', () => {
    expect(revisionOf({ ...minimal, somethingNew: undefined } as MicroserviceView)).toBe(revisionOf(minimal));
    expect(revisionOf({ ...minimal, readOnlyRootFilesystem: false, workingDir: '', runAsGroup: '' })).toBe(
      revisionOf(minimal),
    );
  });

  const unrelated: Partial<MicroserviceView> = {
    uuid: 'other',
    config: '{"b":2}',
    schedule: 9,
    rebuild: false,
    rebuildCount: 9,
    revision: 'x',
    isSystem: true,
    cmd: ['other'],
    models: { bindPath: '/m', permissions: 'ro', items: [{ name: 'tiny' }, { name: 'large' }] },
    knowledge: { bindPath: '/k', permissions: 'rw', items: [{ name: 'other' }] },
  };
  it.each(Object.entries(unrelated))('another value of %s does not change the revision', (field, value) => {
    expect(revisionOf({ ...full, [field]: value })).toBe(revisionOf(full));
  });

  const related: Partial<MicroserviceView> = {
    name: 'writer',
    application: 'plant-b',
    imageId: 'reg.example/reader:3',
    registryId: 8,
    annotations: '{"a":"2"}',
    hostNetworkMode: false,
    isPrivileged: false,
    readOnlyRootFilesystem: false,
    pidMode: '',
    ipcMode: '',
    cpuSetCpus: '0',
    runAsUser: '1001',
    runAsGroup: '1001',
    platform: 'linux/arm64',
    runtime: 'runc',
    workingDir: '/',
    cpus: 1,
    memoryLimit: 101,
    memoryReservation: 51,
    memorySwap: 200,
    shmSize: 11,
    logSize: 4,
    portMappings: [{ internal: 80, external: 9090, protocol: 'tcp' }],
    volumeMappings: [
      { hostDestination: 'b', containerDestination: '/b', accessMode: 'rw', type: 'volume', scope: 'private' },
    ],
    env: [{ key: 'A', value: '2' }],
    extraHosts: ['a:10.0.0.9'],
    commands: ['y', 'x'],
    entrypoint: [],
    cdiDevices: [],
    capAdd: [],
    capDrop: [],
    healthCheck: { test: [] },
    sysctls: {},
    ulimits: {},
    devices: [],
    tmpfs: [],
    models: undefined,
    knowledge: { bindPath: '/k2', permissions: 'rw', items: [{ name: 'manuals' }] },
  };
  it.each(Object.entries(related))('another value of %s changes the revision', (field, value) => {
    expect(revisionOf({ ...full, [field]: value })).not.toBe(revisionOf(full));
  });

  it('every field of the view is in the table of fields that change the revision or in that of fields that do not', () => {
    const fields = Object.keys(microserviceViewSchema.shape);
    const ROLES = ['isRouter', 'isBus', 'isController', 'serviceAccount'];
    const container = CONTAINER_FIELD_NAMES.map((field) => fieldRow(field).wireName);
    const known = new Set([...Object.keys(related), ...Object.keys(unrelated), ...container, ...ROLES]);
    expect([...known].sort()).toEqual([...fields].sort());
  });

  it.each(CONTAINER_FIELD_NAMES)(
    'a value of the container field %s changes the revision, and its default does not',
    (field) => {
      const { wire, wireName, example, default: absent } = fieldRow(field);
      // The view has resolved references and JSON text.
      const value = field === 'extraHosts' ? ['db:192.0.2.7'] : field === 'annotations' ? '{"a":"1"}' : example;
      expect(revisionOf({ ...minimal, [wireName]: wire.parse(value) })).not.toBe(revisionOf(minimal));
      expect(revisionOf({ ...minimal, [wireName]: absent })).toBe(revisionOf(minimal));
    },
  );

  it('does not depend on the order of env, ports, volumes, hosts, devices and the like', () => {
    const LISTS = [
      'portMappings',
      'volumeMappings',
      'env',
      'extraHosts',
      'cdiDevices',
      'capAdd',
      'capDrop',
      'devices',
      'tmpfs',
    ] as const;
    for (const field of LISTS)
      expect(revisionOf({ ...full, [field]: [...full[field]].reverse() })).toBe(revisionOf(full));
  });

  it('does not depend on the order of keys', () => {
    const reversed = Object.fromEntries(Object.entries(full).reverse()) as MicroserviceView;
    expect(revisionOf(reversed)).toBe(revisionOf(full));
  });

  it('depends, without a key, on which variables are secret and not on their values', () => {
    const other = {
      ...full,
      env: [
        { key: 'A', value: '1' },
        { key: 'P', value: 'other', secret: true },
      ],
    };
    const open = {
      ...full,
      env: [
        { key: 'A', value: '1' },
        { key: 'P', value: 'hunter2' },
      ],
    };
    expect(revisionOf(other)).toBe(revisionOf(full));
    expect(revisionOf(open)).not.toBe(revisionOf(full));
    expect(revisionOf(other, 'k')).not.toBe(revisionOf(full, 'k'));
    expect(revisionOf(full, 'k1')).not.toBe(revisionOf(full, 'k2'));
  });

  it('differs for any two different env lists', () => {
    const env = fc.uniqueArray(fc.record({ key: fc.string({ minLength: 1 }), value: fc.string() }), {
      selector: ({ key }) => key,
      maxLength: 4,
    });
    const sorted = (list: { key: string }[]) => JSON.stringify([...list].sort((a, b) => (a.key < b.key ? -1 : 1)));
    fc.assert(
      fc.property(env, env, (a, b) => {
        const same = sorted(a) === sorted(b);
        expect(revisionOf({ ...minimal, env: a }) === revisionOf({ ...minimal, env: b })).toBe(same);
      }),
    );
  });
});
