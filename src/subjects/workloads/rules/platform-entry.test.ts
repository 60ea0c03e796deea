import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import { makeApplication, makeEntry } from '../_make.ts';
import { PLATFORM_CHANGES, ROUTER_ENTRY } from '../_platform-changes.ts';
import { flatName } from './entry/flat.ts';
import { platformDeletion, platformRefusal } from './platform-entry.ts';

const DEBUG = makeEntry({ name: 'debug' });

function system(entries: MicroserviceEntry[], names = '["router"]', spec: Partial<Application['spec']> = {}) {
  return makeApplication({
    name: 'system-gw',
    entries,
    spec: { isSystem: true, ...spec },
    annotations: { [ANNOTATIONS.platform]: names },
  });
}
const before = system([ROUTER_ENTRY, DEBUG]);
const refusalOf = (after: Application, of = before) => platformRefusal(of, after);

describe('a change of a microservice of the platform', () => {
  const changes = PLATFORM_CHANGES.filter(({ path }) => path !== 'name');

  test.each(changes.filter(({ isAllowed }) => isAllowed))('is allowed for $path', ({ entry }) => {
    expect(refusalOf(system([entry, DEBUG]))).toBeUndefined();
  });

  test.each(changes.filter(({ isAllowed }) => !isAllowed))('is refused for $path', ({ path, entry }) => {
    const { message = '', ...refusal } = refusalOf(system([entry, DEBUG])) ?? {};
    expect(refusal).toMatchObject({ status: 400, code: 'SYSTEM_MICROSERVICE_UPDATE' });
    const [member] = { 'container.cmd': ['container.commands'], busEnabled: ['busConfig'] }[path] ?? [path];
    expect(message).toMatch(new RegExp(`^${member}.* of the system's microservice "router" belong`));
  });

  test.each<[string, Partial<MicroserviceEntry>, string, RegExp]>([
    [
      'router',
      { container: {} },
      'ports',
      /^ports of .* change messagingPort, interRouterPort or edgeRouterPort of the node$/,
    ],
    [
      'bus',
      { container: {} },
      'ports',
      /: change busServerPort, busLeafPort, busClusterPort, busMqttPort or busHttpPort/,
    ],
    ['router', { images: { amd64: 'r:2' } }, 'images', /: the controller's ROUTER_IMAGE_<archId> names another image$/],
    ['bus', { isActivated: false }, 'isActivated', /: set busMode of the node to none, or delete the node$/],
    [
      'router',
      { agent: { uuid: '77777777-7777-4777-8777-777777777777' } },
      'nodeUuid',
      /^nodeUuid of .* follows from the settings of the node/,
    ],
    ['other', { container: {} }, 'ports', /: it follows from .*; you may change cpus, .*, annotations$/],
  ])('is refused for %s with what to do instead, in the words of a JSON body: %j', (name, change, field, message) => {
    const entry = { ...ROUTER_ENTRY, name };
    const [old, now] = [entry, { ...entry, ...change }].map((one) => system([one], '["router","bus","other"]'));
    expect(platformRefusal(old as Application, now as Application, flatName)).toMatchObject({
      field,
      message: expect.stringMatching(message),
    });
  });

  test('names every member that it changes', () => {
    const { config: _, ...entry } = { ...ROUTER_ENTRY, schedule: 9, container: { cpus: 1, memoryLimit: 10 } };
    expect(refusalOf(system([entry, DEBUG]))?.message).toMatch(
      /^schedule, config, container.ports of .* belong to the platform|^config, schedule, container.ports of .* belong to/,
    );
  });

  test('is none when another spelling has the same value', () => {
    const entry = { ...ROUTER_ENTRY, images: { x86: 'router:1' }, isActivated: true, busEnabled: undefined };
    const spelled = { ...entry, container: { ...ROUTER_ENTRY.container, tmpfs: [], isPrivileged: false } };
    expect(refusalOf(system([spelled, DEBUG]))).toBeUndefined();
  });
});

describe('an application with a microservice of the platform', () => {
  test.each<[string, MicroserviceEntry[]]>([
    ['without it', [DEBUG]],
    ['with another name for it', [{ ...ROUTER_ENTRY, name: 'gate' }, DEBUG]],
  ])('is not written %s', (_, entries) => {
    expect(refusalOf(system(entries))).toMatchObject({
      status: 400,
      code: 'SYSTEM_MICROSERVICE_DELETE',
      message: expect.stringContaining('set routerMode of the node to none, or delete the node'),
    });
  });

  test.each<[string, Partial<Application['spec']>]>([
    ['isActivated', { isActivated: false }],
    ['template', { template: { name: 'base' } }],
    ['busConfig', { busConfig: { busAccess: true } }],
  ])('is not written with another %s', (field, spec) => {
    expect(refusalOf(system([ROUTER_ENTRY, DEBUG], '["router"]', spec))).toMatchObject({ status: 400, field });
  });

  test('is started by the controller and described by users', () => {
    const stopped = system([ROUTER_ENTRY], '["router"]', { isActivated: false });
    expect(refusalOf(system([ROUTER_ENTRY], '["router"]', { description: 'x' }), stopped)).toBeUndefined();
  });

  test.each<[string, MicroserviceEntry[]]>([
    ['changed', [ROUTER_ENTRY, { ...DEBUG, schedule: 3 }]],
    ['removed', [ROUTER_ENTRY]],
    ['added', [ROUTER_ENTRY, DEBUG, makeEntry({ name: 'probe' })]],
  ])('has other microservices that are %s as before', (_, entries) => {
    expect(refusalOf(system(entries))).toBeUndefined();
  });

  test('is deleted once its node is deleted, or when it has no such microservice', () => {
    const exists = () => true;
    expect(platformDeletion(before, exists)).toMatchObject({
      status: 400,
      code: 'SYSTEM_APPLICATION_DELETE',
      message: expect.stringContaining('system-gw has the system\'s microservice "router"'),
    });
    expect(platformDeletion(before, () => false)).toBeUndefined();
    expect(platformDeletion(system([DEBUG]), exists)).toBeUndefined();
  });
});

test.each<[string, Application]>([
  ['without the annotation', { ...before, metadata: { ...before.metadata, annotations: {} } }],
  ['whose annotation names another entry', system([ROUTER_ENTRY, DEBUG], '["rout","router2"]')],
  ['whose annotation is empty', system([ROUTER_ENTRY, DEBUG], '')],
  ['of a user', { ...before, spec: { ...before.spec, isSystem: undefined } }],
])('an application %s has no microservice of the platform', (_, application) => {
  expect(platformRefusal(application, { ...application, spec: { isActivated: false } })).toBeUndefined();
  expect(platformDeletion(application, () => true)).toBeUndefined();
});
