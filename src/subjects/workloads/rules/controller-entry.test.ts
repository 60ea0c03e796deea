import { describe, expect, it } from 'vitest';
import { makeLookups } from '../../../../testing/inputs.ts';
import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { makeRegistry } from '../../catalog/_make.ts';
import { makeNode } from '../../nodes/_make.ts';
import { makeApplication, makeEntry } from '../_make.ts';
import { controllerFromBody, controllerIn, requireRunnable, withController } from './controller-entry.ts';
import { newDebugShell, withDebugShell, withEndedDebugShell, withoutDebugShell } from './debug-shell.ts';

const UUID = '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6';
const OTHER = '1d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6';
const NODE = makeNode({ spec: { archId: 1, isSystem: true } });
const LEAST = { uuid: UUID, images: [{ containerImage: 'registry.example/controller:1', archId: 1 }], registryId: 2 };
/** Every member of a registration, none at its default. */
const FULL = {
  ...LEAST,
  name: 'controller',
  config: '{"a":1}',
  annotations: '{"example.com/a":"b"}',
  hostNetworkMode: false,
  isPrivileged: true,
  logSize: 5,
  runtime: 'runc',
  pidMode: 'host',
  ipcMode: 'host',
  runAsUser: '0',
  platform: 'linux/amd64',
  cpuSetCpus: '0-1',
  memoryLimit: 512,
  ports: [{ internal: 51121, external: 51121, protocol: 'tcp' }],
  volumeMappings: [{ hostDestination: '/data', containerDestination: '/data', accessMode: 'rw', type: 'bind' }],
  extraHosts: [{ name: 'x.example', address: '10.0.0.1' }],
  env: [{ key: 'LOG_LEVEL', value: 'debug' }],
  cmd: ['run'],
  cdiDevices: ['vendor.example/gpu=0'],
  capAdd: ['NET_ADMIN'],
  capDrop: ['MKNOD'],
  healthCheck: { test: ['CMD', 'true'], interval: 10 },
  schedule: 7,
};
const read = (body: unknown) => controllerFromBody(body, NODE);

describe('a registration', () => {
  it('with the members that are required is an entry of its node that starts first', () => {
    expect(read(LEAST)).toEqual({
      uuid: UUID,
      name: 'controller',
      agent: { uuid: nodeUuid(NODE) },
      images: { amd64: 'registry.example/controller:1', registry: 2 },
      schedule: 0,
    });
  });

  it.each(
    Object.keys(FULL).filter(
      (member) => !['uuid', 'images', 'registryId', 'name', 'schedule', 'hostNetworkMode'].includes(member),
    ),
  )('with %s is another entry than without', (member) => {
    const { [member as 'cmd']: _, ...rest } = FULL;
    expect(read(rest)).not.toEqual(read(FULL));
  });

  it('has no schedule but 0, whatever it asks for', () => {
    for (const schedule of [0, 50, 100, null, undefined]) expect(read({ ...FULL, schedule }).schedule).toBe(0);
  });

  it('has members that are null or empty as if they were left out', () => {
    const empty = { name: null, config: '', runtime: '', ports: null, env: [], cmd: null, workingDir: null };
    expect(read({ ...LEAST, ...empty })).toEqual(read(LEAST));
  });

  it.each<[string, unknown, string, RegExp]>([
    ['a body that is a list', [], 'body', /^body: /],
    ['no uuid', { ...LEAST, uuid: undefined }, 'uuid', /^uuid: is required$/],
    ['a uuid that is none', { ...LEAST, uuid: 'abc' }, 'uuid', /^uuid: .*UUID/],
    ['another name', { ...LEAST, name: 'mine' }, 'name', /^name: "mine"; must be "controller"/],
    ['no images', { ...LEAST, images: null }, 'images', /^images: is required$/],
    ['an empty list of images', { ...LEAST, images: [] }, 'images', /^images: .*required|1 to 4/],
    ['images that are text', { ...LEAST, images: 'a:1' }, 'images', /^images: "a:1"; must be a list of 1 to 4/],
    ['five images', { ...LEAST, images: Array(5).fill(LEAST.images[0]) }, 'images', /^images: .*1 to 4/],
    [
      'an image for no architecture',
      { ...LEAST, images: [{ containerImage: 'a:1', archId: 5 }] },
      'images[0].archId',
      /archId: 5; must be 1/,
    ],
    ['two images for one', { ...LEAST, images: [...LEAST.images, ...LEAST.images] }, 'images[1].archId', /given twice/],
    [
      'an image that is none',
      { ...LEAST, images: [{ containerImage: 'no image', archId: 1 }] },
      'images[0].containerImage',
      /^images\[0\]\.containerImage: /,
    ],
    ['no registry', { ...LEAST, registryId: undefined }, 'registryId', /^registryId: is required$/],
    ['a registry as text', { ...LEAST, registryId: '2' }, 'registryId', /^registryId: "2"; must be an integer from 1/],
    ['registry 0', { ...LEAST, registryId: 0 }, 'registryId', /^registryId: 0; must be/],
    ['config that is no JSON', { ...LEAST, config: '{' }, 'config', /^config: /],
    ['annotations that are a number', { ...LEAST, annotations: 5 }, 'annotations', /^annotations: /],
    ['a flag as text', { ...LEAST, isPrivileged: 'yes' }, 'isPrivileged', /^isPrivileged: /],
    ['a network flag as text', { ...LEAST, hostNetworkMode: 'yes' }, 'hostNetworkMode', /^hostNetworkMode: /],
    ['a negative log size', { ...LEAST, logSize: -1 }, 'logSize', /^logSize: /],
    ['a runtime that is a number', { ...LEAST, runtime: 1 }, 'runtime', /^runtime: /],
    ['a pid mode that is a number', { ...LEAST, pidMode: 5 }, 'pidMode', /^pidMode: /],
    ['an ipc mode that is none', { ...LEAST, ipcMode: 5 }, 'ipcMode', /^ipcMode: /],
    ['a user that is a list', { ...LEAST, runAsUser: [], cmd: [1] }, 'cmd', /^cmd/],
    ['a platform that is a number', { ...LEAST, platform: 5 }, 'platform', /^platform: /],
    ['CPUs that are none', { ...LEAST, cpuSetCpus: 'all' }, 'cpuSetCpus', /^cpuSetCpus: /],
    ['memory as text', { ...LEAST, memoryLimit: 'much' }, 'memoryLimit', /^memoryLimit: /],
    [
      'a port out of range',
      { ...LEAST, ports: [{ internal: 0, external: 1 }] },
      'ports[0].internal',
      /^ports\[0\]\.internal: /,
    ],
    ['ports that are no list', { ...LEAST, ports: 5 }, 'ports', /^ports: /],
    [
      'a mount without a target',
      { ...LEAST, volumeMappings: [{ hostDestination: '/d', accessMode: 'rw' }] },
      'volumeMappings[0].containerDestination',
      /^volumeMappings\[0\]/,
    ],
    [
      'an extra host without a name',
      { ...LEAST, extraHosts: [{ address: '10.0.0.1' }] },
      'extraHosts[0].name',
      /^extraHosts\[0\]\.name: /,
    ],
    ['a variable without a key', { ...LEAST, env: [{ value: 'x' }] }, 'env[0].key', /^env\[0\]\.key: /],
    ['a command that is a number', { ...LEAST, cmd: [1] }, 'cmd[0]', /^cmd\[0\]: /],
    ['a device that is none', { ...LEAST, cdiDevices: [5] }, 'cdiDevices[0]', /^cdiDevices\[0\]: /],
    ['a capability that is a number', { ...LEAST, capAdd: [1] }, 'capAdd[0]', /^capAdd\[0\]: /],
    ['capabilities to drop that are text', { ...LEAST, capDrop: 'ALL' }, 'capDrop', /^capDrop: /],
    [
      'a health check without a test',
      { ...LEAST, healthCheck: { test: 'true' } },
      'healthCheck.test',
      /^healthCheck\.test: /,
    ],
    [
      'a schedule beyond 100',
      { ...LEAST, schedule: 101 },
      'schedule',
      /^schedule: 101; must be an integer from 0 to 100/,
    ],
    ['a schedule as text', { ...LEAST, schedule: '1' }, 'schedule', /^schedule: "1"; must be/],
    [
      'a member of microservices alone',
      { ...LEAST, entrypoint: ['sh'] },
      'entrypoint',
      /^"entrypoint" is no member of a registration/,
    ],
    ['a member of nothing', { ...LEAST, nodeUuid: OTHER }, 'nodeUuid', /^"nodeUuid" is no member of a registration/],
    [
      'a mount of a service account',
      { ...LEAST, volumeMappings: [{ type: 'serviceAccount' }] },
      'volumeMappings[0].type',
      /serviceAccount.*must be bind or volume/,
    ],
    [
      'a mount of a VolumeMount',
      {
        ...LEAST,
        volumeMappings: [
          { hostDestination: 'certs', containerDestination: '/c', accessMode: 'ro', type: 'volumeMount' },
        ],
      },
      'volumeMappings[0].type',
      /names nothing that others have/,
    ],
    [
      'a variable from a Secret',
      { ...LEAST, env: [{ key: 'A', valueFromSecret: 'db/password' }] },
      'env[0].valueFromSecret',
      /names nothing that others have/,
    ],
    [
      'a variable from a ConfigMap',
      { ...LEAST, env: [{ key: 'A', valueFromConfigMap: 'db/host' }] },
      'env[0].valueFromConfigMap',
      /names nothing that others have/,
    ],
    [
      'the address of another node',
      { ...LEAST, extraHosts: [{ name: 'x', address: '${Agents.gw-2}' }] },
      'extraHosts[0].address',
      /names nothing that others have/,
    ],
  ])('with %s is refused: the member is named', (_, body, field, message) => {
    expect(() => read(body)).toThrow(message);
    if (field !== 'body') expect(() => read(body)).toThrow(expect.objectContaining({ status: 400 }) as Error);
  });
});

describe('the controller in the application of the system', () => {
  const entry = read(LEAST);
  const ofNode = withController(undefined, NODE, entry);
  const shell = newDebugShell({ node: NODE, now: 0 });
  const names = ({ spec }: Application) => spec.microservices?.map(({ name }) => name);

  it('makes the application where there is none', () => {
    expect(ofNode).toMatchObject({
      metadata: { name: 'system-gw-1' },
      spec: { isSystem: true, isActivated: true, microservices: [{ name: 'controller', uuid: UUID }] },
    });
    expect(controllerIn(ofNode)).toEqual({ entry, node: nodeUuid(NODE) });
  });

  it('comes beside a debug shell, which neither removes nor is removed by it', () => {
    const both = withController(shell, NODE, entry);
    expect(names(both)).toEqual(['debug', 'controller']);
    expect(names(withEndedDebugShell(both, 0))).toEqual(['controller']);
    expect(names(withoutDebugShell(both) as Application)).toEqual(['controller']);
    expect(names(withDebugShell(ofNode, { node: NODE, now: 0 }))).toEqual(['controller', 'debug']);
  });

  it('is the same object when the registration repeats what it has', () => {
    expect(withController(ofNode, NODE, read({ ...LEAST, schedule: 9, name: 'controller', env: [] }))).toBe(ofNode);
  });

  it.each<[string, object]>([
    ['another image', { images: [{ containerImage: 'registry.example/controller:2', archId: 1 }] }],
    ['another variable', { env: [{ key: 'A', value: 'b' }] }],
  ])('is replaced in its place by %s', (_, more) => {
    const both = withController(withController(undefined, NODE, entry), NODE, read({ ...LEAST, ...more }));
    expect(both.spec.microservices).toEqual([read({ ...LEAST, ...more })]);
  });

  it('runs again when somebody has stopped the application', () => {
    const stopped = { ...ofNode, spec: { ...ofNode.spec, isActivated: false } };
    expect(withController(stopped, NODE, entry).spec.isActivated).toBe(true);
  });

  it('is refused with another uuid than it has', () => {
    expect(() => withController(ofNode, NODE, read({ ...LEAST, uuid: OTHER }))).toThrow(
      expect.objectContaining({ status: 409, code: 'DUPLICATE_NAME', message: expect.stringContaining(UUID) }) as Error,
    );
  });

  it('takes the place of the controller of a former node with this name', () => {
    const former = makeNode({ spec: { isSystem: true, uuid: OTHER } });
    const left = withController(undefined, former, controllerFromBody({ ...LEAST, uuid: OTHER }, former));
    expect(withController(left, NODE, entry).spec.microservices).toEqual([entry]);
  });

  it('is refused where users have an application of that name, which is named', () => {
    const mine = { ...ofNode, spec: { ...ofNode.spec, isSystem: undefined } };
    expect(() => withController(mine, NODE, entry)).toThrow(
      /the application "system-gw-1" has the name of the system's/,
    );
  });
});

describe('a controller', () => {
  const judge = (body: object, { applications = [] as Application[], objects = {} } = {}) => {
    const entry = read({ ...LEAST, ...body });
    const after = withController(undefined, NODE, entry);
    return () => requireRunnable(after, entry, NODE, makeLookups({ nodes: [NODE], applications, ...objects }));
  };
  const using = (registry: number) =>
    makeApplication({
      entries: [
        makeEntry({
          agent: { uuid: nodeUuid(NODE) },
          images: { amd64: 'a:1', registry },
        } as Partial<MicroserviceEntry>),
      ],
    });
  const withPassword = makeRegistry('private', { id: 7, passwordSecretRef: { name: 'p', key: 'password' } });

  it('is accepted with what its node can run', () => expect(judge({})()).toBeUndefined());

  it.each<[string, Parameters<typeof judge>, object]>([
    [
      'an image of another architecture',
      [{ images: [{ containerImage: 'a:1', archId: 2 }] }],
      { status: 400, message: expect.stringMatching(/^images: .*no image for amd64/) },
    ],
    [
      'a registry that does not exist',
      [{ registryId: 99 }],
      { status: 404, code: 'REGISTRY_NOT_FOUND', message: expect.stringMatching(/^registryId: no registry 99/) },
    ],
    [
      'a runtime that does not exist',
      [{ runtime: 'kata' }],
      { status: 400, message: expect.stringMatching(/^runtime: no runtime class "kata"/) },
    ],
    [
      'the uuid of another microservice',
      [{}, { applications: [makeApplication({ entries: [makeEntry({ uuid: UUID })] })] }],
      { status: 400, message: expect.stringMatching(/^uuid: .*belongs to another microservice/) },
    ],
    [
      'a registry with a password',
      [{ registryId: 7 }, { objects: { registries: [withPassword] } }],
      { status: 400, message: expect.stringMatching(/^registryId: 7; the registry "private" has a password/) },
    ],
  ])('is refused with %s', (_, given, refusal) => {
    expect(judge(...given)).toThrow(expect.objectContaining(refusal) as Error);
  });

  it('uses a registry with a password that another microservice of the node uses', () => {
    expect(
      judge({ registryId: 7 }, { applications: [using(7)], objects: { registries: [withPassword] } })(),
    ).toBeUndefined();
  });
});
