import { describe, expect, test } from 'vitest';
import type { MicroserviceView, RegistryView } from '../../../../src/wire/agent.ts';
import { policySchema } from '../../domain/policy.ts';
import type { BareStepOf, Step, StepOf } from '../../domain/step.ts';
import { makeContainer, makeEntry, makePlanInput, makeRecord, UUID } from './_util.ts';
import { completeSteps } from './complete.ts';
import type { PlanInput } from './context.ts';
import { create, lookUpImage, start } from './steps.ts';

const OTHER = '22222222-2222-4222-8222-222222222222';
const registry: RegistryView = {
  id: 1,
  url: 'https://registry.example.com',
  username: 'limpet',
  password: 'secret',
  ca: '',
  insecure: false,
} as RegistryView;
const bind = (hostDestination: string, accessMode: 'rw' | 'ro' = 'rw'): Partial<MicroserviceView> => ({
  volumeMappings: [{ type: 'bind', hostDestination, containerDestination: '/mnt', accessMode, scope: 'private' }],
});
const toCreate = (view: Partial<MicroserviceView>): BareStepOf<'create'> => {
  const entry = makeEntry(view);
  return create(entry, makeRecord(entry), [], 'New');
};
const complete = <K extends Step['kind']>(step: BareStepOf<K>, input: Partial<PlanInput> = {}): StepOf<K> =>
  completeSteps([step as never], makePlanInput(input))[0] as StepOf<K>;

describe('an image step', () => {
  test('has the reference and the credentials for the pull', () => {
    const entry = makeEntry({ imageId: 'team/app:1' });
    const step = lookUpImage(entry, makeRecord(entry, { image: undefined }), false);
    const { pull, instance } = complete(step, { registries: new Map([[1, registry]]) });
    expect(pull).toEqual({
      reference: 'registry.example.com/team/app:1',
      credentials: { username: 'limpet', password: 'secret', host: 'registry.example.com' },
    });
    expect(instance).toBe('i');
  });
});

describe('a create step', () => {
  test('has the container spec, with the reference that the image is pulled by', () => {
    const { spec } = complete(toCreate({ imageId: 'team/app:1' }), { registries: new Map([[1, registry]]) });
    expect(spec).toMatchObject({ name: `skerry-${UUID}`, image: 'registry.example.com/team/app:1' });
  });

  test('has the error when no container can be created from its view', () => {
    const view = bind('..');
    for (const mapping of view.volumeMappings ?? []) mapping.type = 'volume';
    expect(complete(toCreate(view)).spec).toEqual({ invalid: 'volume name ".." is not a plain name' });
  });

  test.each([
    ['an IPv4 address is not looked up', '192.0.2.1', []],
    ['an IPv6 address is not looked up', '2001:db8::1', []],
    ['host-gateway is not looked up', 'host-gateway', []],
    ['the name of a microservice of this machine is left to the engine', 'plant.reader', []],
    ['the name of another machine is looked up', 'gw-2.example.com', ['gw-2.example.com']],
  ])('names the extra hosts that need an address: %s', (_, address, want) => {
    const reader = makeRecord(makeEntry({ uuid: OTHER, application: 'plant', name: 'reader' }));
    const step = toCreate({ extraHosts: [`h:${address}`] });
    expect(complete(step, { records: new Map([[OTHER, reader]]) }).unresolved).toEqual(want);
  });

  test('looks at the other microservices of the machine once, however many containers are made', () => {
    let looks = 0;
    class Counted<K, V> extends Map<K, V> {
      override values() {
        looks++;
        return super.values();
      }
    }
    const steps = Array.from({ length: 3 }, (_, i) => toCreate({ uuid: OTHER.replace(/.$/, String(i)) }));
    completeSteps(steps, makePlanInput({ views: new Counted(), records: new Counted() }));
    expect(looks).toBe(2);
  });

  test('carries the refusal of the policy', () => {
    const policy = policySchema.parse({ privileged: false, registries: ['docker.io'] });
    expect(complete(toCreate({ isPrivileged: true }), { policy }).refusal).toMatch(/no privileged containers/);
    expect(complete(toCreate({}), { policy }).refusal).toBeUndefined();
    expect(complete(toCreate({}), { policy, registries: new Map([[1, registry]]) }).refusal).toMatch(
      /no images from registry.example.com/,
    );
  });

  test('has no paths to check when it has no binds', () => {
    expect(complete(toCreate({})).paths).toBeUndefined();
  });

  test('has the binds of other containers: existing, being created, and earlier in the plan', () => {
    const writer = makeEntry({ uuid: OTHER, ...bind('/srv') });
    const making = completeSteps(
      [toCreate({ uuid: '33333333-3333-4333-8333-333333333333', ...bind('/making') })],
      makePlanInput(),
    );
    const [first, second] = completeSteps(
      [toCreate(bind('/first')), toCreate({ uuid: '44444444-4444-4444-8444-444444444444', ...bind('/second') })],
      makePlanInput({
        snapshot: {
          containers: [
            makeContainer(writer, {
              binds: [
                { source: '/srv', writable: true },
                { source: '/v/shared/pool', writable: true },
              ],
            }),
          ],
        },
        underWay: making,
      }),
    ) as [StepOf<'create'>, StepOf<'create'>];
    const sources = ({ paths }: StepOf<'create'>) => paths?.others.flatMap(({ binds }) => binds.map((b) => b.source));
    expect(sources(first)).toEqual(['/srv', '/making']);
    expect(sources(second)).toEqual(['/srv', '/making', '/first']);
  });

  test('does not have the binds of a create step that waits for another step of its microservice', () => {
    const underWay: Step[] = [{ kind: 'remove', uuid: UUID, target: '', containerId: 'x', reason: 'Leftover' }];
    const [, second] = completeSteps(
      [toCreate(bind('/first')), toCreate({ uuid: OTHER, ...bind('/second') })],
      makePlanInput({ underWay }),
    ) as [StepOf<'create'>, StepOf<'create'>];
    expect(second.paths?.others).toEqual([]);
  });
});

describe('a start step', () => {
  const entry = makeEntry(bind('/srv'));
  const container = makeContainer(entry, { state: 'exited', binds: [{ source: '/srv/real', writable: true }] });
  const policy = policySchema.parse({ registries: ['nowhere.example.com'] });
  const snapshot = { containers: [container] };

  test('is refused when the policy refuses the view that the container was made from', () => {
    const views = new Map([[UUID, entry.view]]);
    expect(complete(start(container, 't', 'Crashed'), { snapshot, policy, views }).refusal).toMatch(/no images from/);
    const records = new Map([[UUID, makeRecord(entry, { lastGood: entry.view })]]);
    expect(complete(start(container, 't', 'Crashed'), { snapshot, policy, records }).refusal).toMatch(/no images from/);
  });

  test('is not refused for another view than the container was made from', () => {
    const views = new Map([[UUID, makeEntry({ imageId: 'example/app:2' }).view]]);
    expect(complete(start(container, 't', 'Crashed'), { snapshot, policy, views }).refusal).toBeUndefined();
  });

  test('has the paths of its view and the binds of the container', () => {
    const views = new Map([[UUID, entry.view]]);
    expect(complete(start(container, 't', 'Crashed'), { snapshot, views }).paths).toEqual({
      asked: [{ source: '/srv', writable: true }],
      own: [{ source: '/srv/real', writable: true }],
      others: [],
      isNew: false,
    });
  });
});
