import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CONTAINER_FIELD_NAMES, fieldRow, SYSCTLS, ULIMITS } from '../../../../api/container/index.ts';
import { DomainError } from '../../../../rules/errors.ts';
import { normalEntry } from '../../../../rules/normal-entry.ts';
import { makeEntry } from '../../_make.ts';
import {
  configFromBody,
  configText,
  entryFromFlat,
  FLAT_FIELDS,
  flatFromEntry,
  patchEntry,
  portFromFlat,
  volumeFromFlat,
} from './flat.ts';

const images = [{ containerImage: 'reg.example/a:1', archId: 1 }];
const minimal = { name: 'reader', agentName: 'gw-1', images };

/** One value of every field of the flat form; those of container fields that need no care come from their table. */
const FULL = {
  ...Object.fromEntries(CONTAINER_FIELD_NAMES.map((field) => [fieldRow(field).flatName, fieldRow(field).example])),
  name: 'reader',
  uuid: '33333333-3333-4333-8333-333333333333',
  isActivated: false,
  agentName: 'gw-1',
  images: [
    { containerImage: 'a:1', archId: 1 },
    { containerImage: 'b:1', archId: 2 },
    { containerImage: 'c:1', archId: 3 },
    { containerImage: 'd:1', archId: 4 },
  ],
  registryId: 7,
  catalogItemId: 5,
  config: '{"a":[1,{"b":null}],"z":"x"}',
  schedule: 7,
  minReadySeconds: 20,
  annotations: '{"a":"1","b":"2"}',
  entrypoint: ['/bin/sh'],
  commands: ['-c', 'true'],
  workingDir: '/srv',
  env: [
    { key: 'A', value: '' },
    { key: 'B', valueFromSecret: 'db/pass' },
    { key: 'C', valueFromConfigMap: 'site/a/b.json' },
  ],
  ports: [{ internal: 80, external: 8080, protocol: 'udp' }],
  volumeMappings: [
    { hostDestination: '/srv', containerDestination: '/a', accessMode: 'ro', type: 'bind', scope: 'private' },
    { hostDestination: 'data', containerDestination: '/b', accessMode: 'rw', type: 'volume', scope: 'shared' },
    { hostDestination: 'm/key', containerDestination: '/c', accessMode: 'ro', type: 'volumeMount', scope: 'private' },
  ],
  extraHosts: [{ name: 'db', address: '${Agents.gw-2}' }],
  devices: [{ hostPath: '/dev/ttyS0', containerPath: '/dev/tty', permissions: 'rw' }],
  cdiDevices: ['nvidia.com/gpu=all'],
  tmpfs: [{ containerPath: '/tmp', size: 5, mode: '1777' }],
  hostNetworkMode: true,
  isPrivileged: true,
  readOnlyRootFilesystem: true,
  capAdd: ['NET_ADMIN'],
  capDrop: ['ALL'],
  sysctls: { 'kernel.shm_rmid_forced': '1' },
  ulimits: { nofile: { soft: 10, hard: -1 } },
  pidMode: 'host',
  ipcMode: 'private',
  runAsUser: '1000',
  runAsGroup: '1000',
  platform: 'linux/amd64',
  runtime: 'crun',
  cpus: 0.5,
  cpuSetCpus: '0-1',
  memoryLimit: 100,
  memoryReservation: 50,
  memorySwap: -1,
  shmSize: 10,
  healthCheck: { test: ['CMD', 'true'], interval: 5, timeout: 1, startPeriod: 1, startInterval: 1, retries: 3 },
  logSize: 3,
  models: { bindPath: '/m', permissions: 'rw', items: [{ name: 'tiny' }] },
  knowledge: { bindPath: '/k', permissions: 'ro', items: [{ name: 'manuals' }] },
  template: { name: 'base', variables: { level: 'info' } },
  serviceAccount: { roleRef: { kind: 'Role', name: 'microservice' } },
  busConfig: { busAccess: true, busRule: 'r' },
};

describe('the flat form and the entry', () => {
  it('the full example has every field of the flat form', () => {
    expect(Object.keys({ ...FULL, nodeUuid: 'x' }).sort()).toEqual([...FLAT_FIELDS].sort());
  });

  it('a read has every field as it was written', () => {
    expect(flatFromEntry(entryFromFlat(FULL).entry)).toEqual(FULL);
  });

  it('a node given by uuid is read by uuid', () => {
    const nodeUuid = '11111111-1111-4111-8111-111111111111';
    const { agentName: _, ...flat } = FULL;
    expect(flatFromEntry(entryFromFlat({ ...flat, nodeUuid }).entry)).toEqual({ ...flat, nodeUuid });
  });

  it('a registry is shown by its id, even when the entry has its name', () => {
    const entry = makeEntry({ images: { amd64: 'a:1', registry: 'team' } });
    expect(flatFromEntry(entry, { registryId: (name) => (name === 'team' ? 12 : undefined) }).registryId).toBe(12);
    expect(flatFromEntry(entry).registryId).toBeUndefined();
    expect(flatFromEntry(makeEntry({ images: { amd64: 'a:1', registry: 'local' } })).registryId).toBe(2);
  });

  const text = (max = 20) => fc.stringMatching(/^[a-zA-Z0-9 _-]+$/, { maxLength: max });
  const arg = fc.string({ minLength: 1, maxLength: 20 });
  const path = fc.stringMatching(/^\/[a-z]{1,9}$/);
  const image = fc.stringMatching(/^[a-z][a-z0-9]{0,9}:[0-9]{1,3}$/);
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 });
  const unique = <T>(value: fc.Arbitrary<T>, key: (item: T) => unknown) =>
    fc.uniqueArray(value, { selector: key, minLength: 1, maxLength: 4 });
  const body = fc
    .record({
      name: fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/),
      agentName: maybe(text()),
      images: unique(
        fc.record({ containerImage: image, archId: fc.integer({ min: 1, max: 4 }) }),
        (item) => item.archId,
      ),
      registryId: maybe(fc.integer({ min: 1, max: 1e9 })),
      isActivated: maybe(fc.boolean()),
      schedule: maybe(fc.integer({ min: 0, max: 100 })),
      minReadySeconds: maybe(fc.integer({ min: 1, max: 3600 })),
      config: maybe(fc.json()),
      annotations: maybe(fc.dictionary(text(), fc.string({ maxLength: 9 })).map((map) => JSON.stringify(map))),
      commands: maybe(fc.array(arg, { maxLength: 4 })),
      entrypoint: maybe(fc.array(arg, { maxLength: 4 })),
      env: maybe(unique(fc.record({ key: text(), value: fc.string({ maxLength: 9 }) }), (item) => item.key)),
      ports: maybe(
        unique(
          fc.record({
            internal: fc.integer({ min: 1, max: 65535 }),
            external: fc.integer({ min: 1, max: 65535 }),
            protocol: maybe(fc.constantFrom('tcp', 'udp')),
          }),
          (item) => item.internal,
        ).map((ports) => ports.filter((port, at) => ports.findIndex((one) => one.external === port.external) === at)),
      ),
      volumeMappings: maybe(
        unique(
          fc.record({
            hostDestination: path,
            containerDestination: path,
            accessMode: fc.constantFrom('ro', 'rw'),
            type: maybe(fc.constantFrom('bind', 'volume', 'volumeMount')),
            scope: maybe(fc.constantFrom('private', 'SHARED', 'Private', 'shared')),
          }),
          (item) => item.containerDestination,
        ),
      ),
      isPrivileged: maybe(fc.boolean()),
      memoryLimit: maybe(fc.integer({ min: 1, max: 1e6 })),
      sysctls: maybe(fc.dictionary(fc.constantFrom(...SYSCTLS), fc.constantFrom('0', '1'))),
      ulimits: maybe(fc.dictionary(fc.constantFrom(...ULIMITS), fc.constant({ soft: 1, hard: 2 }))),
      logSize: maybe(fc.integer({ min: 0, max: 9 })),
    })
    .map((fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)));

  it('every entry is the same after the flat form and back', () => {
    fc.assert(
      fc.property(body, (flat) => {
        const { entry } = entryFromFlat(flat);
        expect(normalEntry(entryFromFlat(flatFromEntry(entry)).entry)).toEqual(normalEntry(entry));
      }),
    );
  });

  it('a PATCH with what a read shows changes nothing', () => {
    fc.assert(
      fc.property(body, (flat) => {
        const { entry } = entryFromFlat(flat);
        expect(normalEntry(patchEntry(entry, flatFromEntry(entry)).entry)).toEqual(normalEntry(entry));
      }),
    );
  });

  it('a PATCH with one field of another entry takes over that field and no other', () => {
    fc.assert(
      fc.property(body, body, fc.nat(), (ours, theirs, choice) => {
        const fields = Object.keys(theirs).filter((field) => field !== 'name');
        const field = fields[choice % fields.length] as string;
        const { entry } = entryFromFlat(ours);
        const patched = flatFromEntry(patchEntry(entry, { [field]: theirs[field] }).entry);
        const want = flatFromEntry(entryFromFlat({ ...ours, [field]: theirs[field] }).entry);
        expect(patched).toEqual(want);
      }),
    );
  });
});

describe('entryFromFlat', () => {
  const accepted: Record<string, [object, object]> = {
    'commands precede cmd': [{ commands: ['a'], cmd: ['b'] }, { container: { commands: ['a'] } }],
    'cmd without commands is stored as commands': [{ cmd: ['b'] }, { container: { commands: ['b'] } }],
    'cmd applies when commands is empty': [{ commands: [], cmd: ['b'] }, { container: { commands: ['b'] } }],
    'busEnabled is stored as busConfig.busAccess': [{ busEnabled: true }, { busConfig: { busAccess: true } }],
    'portMappings is read as ports': [
      { portMappings: [{ internal: 1, external: 2 }] },
      { container: { ports: [{ internal: 1, external: 2 }] } },
    ],
    'a service account mapping is dropped': [
      {
        volumeMappings: [
          { type: 'serviceAccount', hostDestination: 'x', containerDestination: '/x', accessMode: 'ro' },
          { hostDestination: '/a', containerDestination: '/a', accessMode: 'rw' },
        ],
      },
      { container: { volumes: [{ hostDestination: '/a' }] } },
    ],
    'a scope in any letter case': [
      {
        volumeMappings: [
          { type: 'volume', hostDestination: 'a', containerDestination: '/a', accessMode: 'rw', scope: 'ShaRed' },
        ],
      },
      { container: { volumes: [{ scope: 'shared' }] } },
    ],
    'the scope of a bind is always private': [
      { volumeMappings: [{ hostDestination: '/a', containerDestination: '/a', accessMode: 'rw', scope: 'planet' }] },
      { container: { volumes: [{ scope: 'private' }] } },
    ],
    'an empty scope is private': [
      {
        volumeMappings: [
          { type: 'volume', hostDestination: 'a', containerDestination: '/a', accessMode: 'rw', scope: '' },
        ],
      },
      { container: { volumes: [{ scope: 'private' }] } },
    ],
    'config may be an object': [{ config: { a: 1 } }, { config: { a: 1 } }],
    'empty config text is no config': [{ config: '' }, { config: undefined }],
    'annotations may be an object, and their values are text': [
      { annotations: { a: 1 } },
      { container: { annotations: { a: '1' } } },
    ],
    'unknown fields are dropped': [{ flowId: 3, msRoutes: {} }, { name: 'reader' }],
    'the read-only value of an extra host is dropped': [
      { extraHosts: [{ name: 'a', address: '10.0.0.1', value: '10.0.0.1' }] },
      { container: { extraHosts: [{ name: 'a', address: '10.0.0.1' }] } },
    ],
    'the value of a variable with a reference is what a read shows, and dropped': [
      { env: [{ key: 'A', value: 'as it was read', valueFromSecret: 'a/b', valueFromConfigMap: '' }] },
      { container: { env: [{ key: 'A', valueFromSecret: 'a/b' }] } },
    ],
    'items of catalogs may be plain names': [
      { models: { bindPath: '/m', items: ['tiny'] } },
      { models: { bindPath: '/m', items: [{ name: 'tiny' }] } },
    ],
    'an empty nodeUuid is ignored when there is a name': [{ nodeUuid: '' }, { agent: { name: 'gw-1' } }],
    'images may be empty with a catalog item': [{ images: [], catalogItemId: 5 }, { images: { catalogId: 5 } }],
    'busAccess of a read is accepted': [
      { busConfig: { busAccess: true }, busAccess: true },
      { busConfig: { busAccess: true } },
    ],
    'a registry id may be text': [{ registryId: '7' }, { images: { registry: 7 } }],
  };
  it.each(Object.entries(accepted))('%s', (_, [flat, want]) => {
    const { entry } = entryFromFlat({ ...minimal, ...flat });
    for (const [member, value] of Object.entries(want))
      if (value === undefined) expect(entry).not.toHaveProperty(member);
      else expect(entry).toMatchObject({ [member]: value });
  });

  const refused: Record<string, [object, string | undefined, RegExp]> = {
    'a body without a name': [{ name: undefined }, 'name', /is required/],
    'a name with capitals': [{ name: 'Reader' }, 'name', /"Reader".*lower-case/],
    'a body without images': [{ images: undefined }, 'images', /1 to 4/],
    'an empty list of images': [{ images: [] }, 'images', /1 to 4/],
    'one architecture twice': [{ images: [...images, ...images] }, 'images[1].archId', /twice/],
    'architecture 0': [{ images: [{ containerImage: 'a', archId: 0 }] }, 'images[0].archId', /1 \(amd64\)/],
    'architecture 5': [{ images: [{ containerImage: 'a', archId: 5 }] }, 'images[0].archId', /5/],
    'an image without a reference': [{ images: [{ archId: 1 }] }, 'images[0].containerImage', /required/],
    'an image reference with blanks': [
      { images: [{ containerImage: 'a b', archId: 1 }] },
      'images[0].containerImage',
      /image reference/,
    ],
    'a config that is not JSON': [{ config: '{a' }, 'config', /JSON/],
    'annotations that are not JSON': [{ annotations: 'x' }, 'annotations', /JSON/],
    'annotations that are a list': [{ annotations: '[1]' }, 'annotations', /object/],
    'annotations with an object as a value': [{ annotations: '{"a":{}}' }, 'annotations', /text/],
    'both ways to name the node': [{ nodeUuid: '11111111-1111-4111-8111-111111111111' }, 'agentName', /give one/],
    'an unknown scope of a volume': [
      {
        volumeMappings: [
          { type: 'volume', hostDestination: 'a', containerDestination: '/a', accessMode: 'rw', scope: 'planet' },
        ],
      },
      'volumeMappings[0].scope',
      /"planet".*private or shared/,
    ],
    'a volume without an access mode': [
      { volumeMappings: [{ hostDestination: '/a', containerDestination: '/a' }] },
      'volumeMappings[0].accessMode',
      /ro, rw/,
    ],
    'a node uuid that is not a uuid': [
      { agentName: undefined, nodeUuid: 'gw-1' },
      'nodeUuid',
      /"gw-1".*a UUID in lower case/,
    ],
    'a port beyond 65535': [{ ports: [{ internal: 1, external: 70000 }] }, 'ports[0].external', /70000.*at most 65535/],
    'a port without an external port': [{ ports: [{ internal: 1 }] }, 'ports[0].external', /required/],
    'one port twice': [
      {
        ports: [
          { internal: 1, external: 2 },
          { internal: 1, external: 3 },
        ],
      },
      'ports',
      /mapped once for each protocol: 1\/tcp$/,
    ],
    'one port of the node twice': [
      {
        ports: [
          { internal: 1, external: 7 },
          { internal: 2, external: 8, protocol: 'udp' },
          { internal: 3, external: 8, protocol: 'udp' },
        ],
      },
      'ports',
      /^ports: two ports have the same external port and protocol: 8\/udp$/,
    ],
    'images in the form of a file': [
      { images: { amd64: 'a:1' } },
      'images',
      /^images: an object; must be a list of \{containerImage, archId\} with the archId 1 \(amd64\), 2 \(arm64\)/,
    ],
    'a schedule beyond 100': [{ schedule: 101 }, 'schedule', /101.*at most 100/],
    'an unknown sysctl': [{ sysctls: { 'net.core.somaxconn': '1' } }, 'sysctls', /unknown field "net.core.somaxconn"/],
    'an unknown ulimit': [{ ulimits: { files: { soft: 1, hard: 1 } } }, 'ulimits', /unknown field "files"/],
    'a soft limit above the hard one': [
      { ulimits: { nofile: { soft: 5, hard: 1 } } },
      'ulimits.nofile',
      /soft must not exceed hard/,
    ],
    'memorySwap without memoryLimit': [{ memorySwap: 5 }, 'memorySwap', /5 is not valid: memorySwap needs memoryLimit/],
    'a service account with a name': [
      { serviceAccount: { name: 'other', roleRef: { name: 'microservice' } } },
      'serviceAccount',
      /name/,
    ],
    'busAccess outside busConfig': [{ busAccess: true }, 'busAccess', /busConfig/],
    'a registry id that is a name': [{ registryId: 'team' }, 'registryId', /integer/],
    'an env that is not a list': [{ ports: {}, isPrivileged: true, env: { a: 1 } }, 'env', /list/],
    'models without a path': [{ models: { items: ['tiny'] } }, 'models', /need each other/],
  };
  it.each(Object.entries(refused))('refuses %s', (_, [flat, field, message]) => {
    const error = failure(() => entryFromFlat({ ...minimal, ...flat }));
    expect(error).toMatchObject({ status: 400, name: 'ValidationError' });
    expect(error.message).toMatch(message);
    expect(error.field).toBe(field);
  });

  it('a refusal never repeats values that may be secrets', () => {
    const env = [{ key: 'A', value: { secret: 'hunter2' } }];
    expect(failure(() => entryFromFlat({ ...minimal, env })).message).not.toContain('hunter2');
    const long = [{ key: 'A', value: `hunter2${'x'.repeat(40_000)}` }];
    expect(failure(() => entryFromFlat({ ...minimal, env: long })).message).not.toContain('hunter2');
  });

  it('a body that is not an object is refused', () => {
    for (const body of [null, undefined, [], 'x', 3]) expect(() => entryFromFlat(body)).toThrow(DomainError);
  });

  it('the application and the rebuild request are read', () => {
    expect(entryFromFlat({ ...minimal, application: 'plant-a', rebuild: true })).toMatchObject({
      application: 'plant-a',
      rebuild: true,
    });
    expect(entryFromFlat(minimal).rebuild).toBe(false);
  });

  it('any body gives an entry or a DomainError', () => {
    const anything = fc.dictionary(fc.constantFrom(...FLAT_FIELDS, 'cmd', 'busEnabled', 'rebuild'), fc.anything());
    fc.assert(
      fc.property(anything, (flat) => {
        try {
          entryFromFlat({ ...minimal, ...flat });
        } catch (error) {
          if (!(error instanceof DomainError)) throw error;
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('patchEntry', () => {
  const stored = makeEntry({
    config: { a: 1 },
    images: { x86: 'a:1', arm64: 'b:1', registry: 'team' },
    container: {
      cmd: ['old'],
      env: [{ key: 'A', value: '1' }],
      ports: [{ internal: 1, external: 2, protocol: 'tcp' }],
    },
    busEnabled: true,
  });
  const cases: Record<string, [object, object]> = {
    'an empty body changes nothing': [{}, stored],
    'null removes a field': [{ config: null }, { config: undefined }],
    'an empty list removes a field': [{ env: [] }, { container: { env: undefined } }],
    'a list replaces the stored one': [
      { env: [{ key: 'B', value: '2' }] },
      { container: { env: [{ key: 'B', value: '2' }] } },
    ],
    'images replace all images, aliases included, and leave the registry': [
      { images: [{ containerImage: 'n:1', archId: 1 }] },
      { images: { amd64: 'n:1', x86: undefined, arm64: undefined, registry: 'team' } },
    ],
    'commands replace the stored cmd': [{ commands: ['new'] }, { container: { commands: ['new'], cmd: undefined } }],
    'an empty commands removes the stored cmd': [
      { commands: [] },
      { container: { commands: undefined, cmd: undefined } },
    ],
    'busConfig replaces the stored busEnabled': [
      { busConfig: { busAccess: false } },
      { busConfig: { busAccess: false }, busEnabled: undefined },
    ],
    'a node uuid replaces a node name': [
      { nodeUuid: '11111111-1111-4111-8111-111111111111' },
      { agent: { uuid: '11111111-1111-4111-8111-111111111111', name: undefined } },
    ],
    'an empty node name is ignored': [{ agentName: '' }, { agent: { name: 'gw-1' } }],
    'a null nodeUuid removes the node': [{ nodeUuid: null }, { agent: undefined }],
    'null for nodeUuid and agentName removes the node': [{ nodeUuid: null, agentName: null }, { agent: undefined }],
    'a null nodeUuid is ignored when there is a name': [
      { nodeUuid: null, agentName: 'gw-2' },
      { agent: { name: 'gw-2' } },
    ],
    'isActivated can be set': [{ isActivated: false }, { isActivated: false }],
    'the same name changes nothing': [{ name: 'reader' }, stored],
    'a request to rebuild changes nothing in the entry': [{ rebuild: true }, stored],
    'a null serviceAccount, as in a read, is accepted': [{ serviceAccount: null }, stored],
  };
  it.each(Object.entries(cases))('%s', (_, [body, want]) => {
    const { entry } = patchEntry(stored, body);
    for (const [key, value] of Object.entries(want)) {
      if (typeof value !== 'object') expect(entry[key as 'config']).toEqual(value);
      else for (const [member, one] of Object.entries(value)) expect((entry as never)[key]?.[member]).toEqual(one);
    }
  });

  it('a PATCH keeps stored spellings of other fields', () => {
    expect(patchEntry(stored, { schedule: 3 }).entry).toEqual({ ...stored, schedule: 3 });
  });

  it('a PATCH does not change the entry in place', () => {
    const before = structuredClone(stored);
    patchEntry(stored, { commands: ['x'], images: [{ containerImage: 'n:1', archId: 1 }], env: [] });
    expect(stored).toEqual(before);
  });

  it('a PATCH with another name, uuid or application is refused', () => {
    const uuid = '33333333-3333-4333-8333-333333333333';
    expect(failure(() => patchEntry(stored, { name: 'other' }))).toMatchObject({ status: 400, field: 'name' });
    expect(failure(() => patchEntry(stored, { uuid: 'other' }, { uuid }))).toMatchObject({ field: 'uuid' });
    expect(failure(() => patchEntry(stored, { application: 'b' }, { application: 'a' }))).toMatchObject({
      field: 'application',
    });
    expect(() => patchEntry(stored, { uuid, application: 'a' }, { uuid, application: 'a' })).not.toThrow();
  });

  it('a PATCH that removes the last image is refused', () => {
    expect(failure(() => patchEntry(stored, { images: [] })).code).toBe('MICROSERVICE_DOES_NOT_HAVE_IMAGES');
  });

  it('a PATCH can request a rebuild', () => {
    expect(patchEntry(stored, { rebuild: true }).rebuild).toBe(true);
    expect(patchEntry(stored, {}).rebuild).toBe(false);
  });
});

describe('config', () => {
  it('a config is canonical JSON text in any written form', () => {
    expect(configText(configFromBody('{ "b": 1, "a": {"d":2,"c":1} }'))).toBe('{"a":{"c":1,"d":2},"b":1}');
    expect(configText(configFromBody({ b: 1, a: 2 }))).toBe('{"a":2,"b":1}');
    expect(configText(undefined)).toBe('{}');
    expect(configText(configFromBody('""'))).toBe('""');
  });
  it('a config of any JSON value is read as it was written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        if (value !== null) expect(JSON.parse(configText(configFromBody(text)))).toEqual(JSON.parse(text));
      }),
    );
  });
  it.each([[[1, 2]], [5], [true]])('a config that is neither text nor an object is refused: %j', (value) => {
    expect(failure(() => configFromBody(value))).toMatchObject({
      status: 400,
      field: 'config',
      message: expect.stringMatching(/^config: .+; must be an object, or JSON text$/),
    });
    expect(configFromBody(JSON.stringify(value))).toEqual(value);
  });
  it('a config beyond 64 KiB is refused', () => {
    expect(failure(() => configFromBody(JSON.stringify('x'.repeat(65_536))))).toMatchObject({ field: 'config' });
    expect(() => configFromBody(JSON.stringify('x'.repeat(65_534)))).not.toThrow();
  });
});

describe('the routes of single mappings', () => {
  it('the default protocol of a port is tcp', () => {
    expect(portFromFlat({ internal: 80, external: 8080 })).toEqual({ internal: 80, external: 8080, protocol: 'tcp' });
  });
  it('a port needs both numbers', () => {
    expect(failure(() => portFromFlat({ external: 8080 }))).toMatchObject({ field: 'internal', status: 400 });
  });
  it('the default type of a volume is bind', () => {
    expect(volumeFromFlat({ hostDestination: '/a', containerDestination: '/a', accessMode: 'rw' })).toMatchObject({
      type: 'bind',
      scope: 'private',
    });
  });
  it('unknown fields of a volume are dropped', () => {
    const body = { hostDestination: '/a', containerDestination: '/a', accessMode: 'rw', id: 5 };
    expect(volumeFromFlat(body)).not.toHaveProperty('id');
  });
  it('a service account mapping is refused', () => {
    const body = { type: 'serviceAccount', hostDestination: 'a', containerDestination: '/a', accessMode: 'ro' };
    expect(failure(() => volumeFromFlat(body))).toMatchObject({ field: 'type' });
  });
});

function failure(act: () => unknown): DomainError {
  try {
    act();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}
