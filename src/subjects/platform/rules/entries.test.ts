import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { makeNode } from '../../nodes/_make.ts';
import { platformEntries, withPlatform } from './entries.ts';

const NODE = makeNode({});
const ROUTER: MicroserviceEntry = {
  name: 'router',
  images: { amd64: 'router:1' },
  container: { hostNetworkMode: true },
};
const made = (wanted = [ROUTER], present?: Application) => withPlatform(present, NODE, wanted) as Application;
const edited = (application: Application, container: MicroserviceEntry['container']): Application => ({
  ...application,
  spec: {
    ...application.spec,
    microservices: application.spec.microservices?.map((one) => ({
      ...one,
      container: { ...one.container, ...container },
    })),
  },
});
const MADE = made();

describe('the system application of a node', () => {
  test('is made with the microservices of the platform on the node, and names them', () => {
    expect(MADE.spec).toMatchObject({
      isSystem: true,
      microservices: [{ name: 'router', agent: { uuid: nodeUuid(NODE) } }],
    });
    expect(platformEntries(MADE)).toEqual(['router']);
  });

  test('stays the same object when nothing changes', () => {
    expect(made([ROUTER], MADE)).toBe(MADE);
    const spelled = edited(MADE, { ports: [] });
    expect(made([ROUTER], spelled)).toBe(spelled);
  });

  test.each([
    ['memoryLimit', { memoryLimit: 64 }],
    ['cpus', { cpus: 1 }],
    ['logSize', { logSize: 5 }],
    ['annotations', { annotations: { note: 'for people' } }],
  ] as [string, MicroserviceEntry['container']][])(
    'keeps what a user set as %s, also when the platform changes',
    (_, container) => {
      const changed = edited(MADE, container);
      expect(made([ROUTER], changed)).toBe(changed);
      const next = made([{ ...ROUTER, images: { amd64: 'router:2' } }], changed);
      expect(next.spec.microservices?.[0]).toMatchObject({ images: { amd64: 'router:2' }, container });
    },
  );

  test.each([{ busConfig: { busAccess: true } }, { template: { name: 'line' } }, { isActivated: false }])(
    'loses %j, which would change its microservices',
    (forced) => {
      const before = { ...MADE, spec: { ...MADE.spec, ...forced } } as Application;
      expect(made([ROUTER], before).spec).toEqual(MADE.spec);
    },
  );

  test('keeps the uuid of a microservice that is put right', () => {
    const before = edited(MADE, { isPrivileged: true });
    const [router] = before.spec.microservices ?? [];
    if (router) router.uuid = '11111111-1111-4111-8111-111111111111';
    expect(made([ROUTER], before).spec.microservices).toMatchObject([{ uuid: router?.uuid }]);
    expect(made([ROUTER], before).spec.microservices?.[0]?.container?.isPrivileged).toBeUndefined();
  });

  test('ends with the last microservice of the platform, and stays while others have microservices in it', () => {
    expect(withPlatform(MADE, NODE, [])).toBeUndefined();
    const debug: MicroserviceEntry = { name: 'debug' };
    const shared = { ...MADE, spec: { ...MADE.spec, microservices: [...(MADE.spec.microservices ?? []), debug] } };
    const left = made([], shared);
    expect(left.spec.microservices).toEqual([debug]);
    expect(left.metadata.annotations?.[ANNOTATIONS.platform]).toBeUndefined();
  });

  test('is not touched while nothing of the platform is in it', () => {
    const debug = { ...MADE, metadata: { ...MADE.metadata, annotations: {} } };
    expect(withPlatform(debug, NODE, [])).toBe(debug);
    expect(withPlatform(undefined, NODE, [])).toBeUndefined();
  });

  test.each(['', '{', '3', '["router", 3]'])('reads the annotation %j without an error', (text) => {
    const odd = { ...MADE, metadata: { ...MADE.metadata, annotations: { [ANNOTATIONS.platform]: text } } };
    expect(platformEntries(odd).every((name) => name === 'router')).toBe(true);
  });
});
