import { describe, expect, test } from 'vitest';
import type { ImagePolicy, Step, StepOf } from '../../domain/step.ts';
import { EngineError } from '../../engine-port/error.ts';
import { imageIdOf, MemoryEngine } from '../../engines/memory/_engine.ts';
import { memoryDatabase } from '../../state/database.ts';
import { mayUseImage, noteImagePull } from '../../state/image-access.ts';
import { executeAlone } from './_executors.ts';
import type { Ended } from './executors.ts';

const digest = `sha256:${'a'.repeat(64)}`;

interface Case {
  policy: ImagePolicy;
  present?: boolean;
  reference?: string;
  fault?: EngineError;
  want: { id?: string; reason?: string; pulled: boolean };
}

const old = 'sha256:old';
const pulledId = imageIdOf('app:1');
const cases: Record<string, Case> = {
  'missing is pulled with the image policy ifMissing': { policy: 'ifMissing', want: { id: pulledId, pulled: true } },
  'present is not pulled with the image policy ifMissing': {
    policy: 'ifMissing',
    present: true,
    want: { id: old, pulled: false },
  },
  'present is pulled with the image policy fresh': {
    policy: 'fresh',
    present: true,
    want: { id: pulledId, pulled: true },
  },
  'present and pinned by a digest is not pulled with the image policy fresh': {
    policy: 'fresh',
    present: true,
    reference: `app@${digest}`,
    want: { id: old, pulled: false },
  },
  'present fails with the image policy fresh when the registry does not answer': {
    policy: 'fresh',
    present: true,
    fault: new EngineError('ImagePullFailed', 'no route'),
    want: { reason: 'ImagePullFailed', pulled: false },
  },
  'present is used with the image policy preferFresh when the registry does not answer': {
    policy: 'preferFresh',
    present: true,
    fault: new EngineError('ImagePullFailed', 'no route'),
    want: { id: old, pulled: false },
  },
  'present fails with the image policy preferFresh when the registry refuses the credentials': {
    policy: 'preferFresh',
    present: true,
    fault: new EngineError('ImageUnauthorized', 'denied'),
    want: { reason: 'ImageUnauthorized', pulled: false },
  },
  'missing fails with the image policy never': { policy: 'never', want: { reason: 'ImageMissing', pulled: false } },
  'present is used with the image policy never': { policy: 'never', present: true, want: { id: old, pulled: false } },
};

describe('an image that is', () => {
  for (const [name, { policy, present, reference = 'app:1', fault, want }] of Object.entries(cases))
    test(name, async () => {
      const engine = new MemoryEngine({ anyImage: true });
      if (present) engine.images.set(reference, old);
      engine.faults.before = (operation) => {
        if (operation === 'pull' && fault) throw fault;
      };
      const pulled: string[] = [];
      const step: Step = {
        kind: 'image',
        uuid: 'u',
        target: '',
        reference,
        registryId: 1,
        platform: '',
        rebuildCount: 0,
        policy,
        pull: { reference },
        instance: 'test',
      };
      const outcome = await executeAlone(step, { engine, pulled: (_step, id) => pulled.push(id) });
      expect(outcome).toMatchObject(want.reason ? { ok: false, reason: want.reason } : { ok: true, imageId: want.id });
      expect(pulled.length > 0).toBe(want.pulled);
    });
});

describe('an image on the machine that was pulled with the credentials of a registry', () => {
  const REFERENCE = 'private.example/app:1';
  const account = (username: string) => ({ username, password: 'p', host: 'private.example' });
  /** A machine on which the registry 5 has pulled the image, and a function that asks for it for another microservice. */
  async function machine(credentials?: object) {
    const engine = new MemoryEngine({ anyImage: true });
    const database = memoryDatabase();
    const ask = (change: Partial<StepOf<'image'>>): Promise<Ended> =>
      executeAlone(
        {
          ...{ kind: 'image', uuid: 'u', target: '', reference: REFERENCE, registryId: 2, platform: '' },
          ...{ rebuildCount: 0, policy: 'ifMissing', pull: { reference: REFERENCE }, instance: 'test', ...change },
        } as Step,
        {
          engine,
          pulled: (step, id, isNew) => noteImagePull(database, id, step, isNew),
          mayUse: (step, id) => mayUseImage(database, id, step),
        },
      );
    const first = { registryId: 5, pull: { reference: REFERENCE, credentials } } as Partial<StepOf<'image'>>;
    expect(await ask(first)).toMatchObject({ ok: true });
    let pulls = 0;
    engine.faults.before = (operation) => {
      if (operation === 'pull') pulls++;
    };
    return { engine, ask, first, pulls: () => pulls };
  }
  const pinned = { reference: `app@${digest}`, pull: { reference: `app@${digest}` } };

  test('is not for a microservice with the local cache as its registry', async () => {
    const { ask } = await machine(account('limpet'));
    expect(await ask({ policy: 'never' })).toMatchObject({
      ok: false,
      reason: 'ImageUnauthorized',
      message: expect.stringMatching(/credentials of a registry that this microservice does not name/),
    });
  });

  test.each<[string, Partial<StepOf<'image'>>]>([
    ['another registry', { registryId: 6 }],
    ['another user of the registry', { registryId: 5, pull: { reference: REFERENCE, credentials: account('whelk') } }],
    ['no credentials', { registryId: 5 }],
  ])('is pulled for a microservice that names %s, and refused when that cannot pull it', async (_name, change) => {
    const { engine, ask, pulls } = await machine(account('limpet'));
    engine.faults.before = (operation) => {
      if (operation === 'pull') throw new EngineError('ImageUnauthorized', 'denied');
    };
    expect(await ask(change)).toMatchObject({ ok: false, reason: 'ImageUnauthorized' });
    // A registry that cannot be reached is no proof of access either.
    engine.faults.before = (operation) => {
      if (operation === 'pull') throw new EngineError('ImagePullFailed', 'no route');
    };
    expect(await ask({ ...change, policy: 'preferFresh' })).toMatchObject({ ok: false, reason: 'ImagePullFailed' });
    expect(pulls()).toBe(0);
  });

  test('is not for a pinned reference without these credentials', async () => {
    const { engine, ask, pulls } = await machine(account('limpet'));
    engine.images.set(pinned.reference, imageIdOf(REFERENCE));
    await ask({ ...pinned, policy: 'fresh' });
    expect(pulls()).toBe(1);
  });

  test('is used without a pull by a microservice that names the registry', async () => {
    const { ask, first, pulls } = await machine(account('limpet'));
    expect(await ask(first)).toMatchObject({ ok: true, imageId: imageIdOf(REFERENCE) });
    expect(pulls()).toBe(0);
  });

  test('is for all when it was pulled without credentials', async () => {
    const { ask, pulls } = await machine();
    expect(await ask({ policy: 'never' })).toMatchObject({ ok: true });
    expect(pulls()).toBe(0);
  });

  test('is for both when a second registry has pulled it, and for all after a pull without credentials', async () => {
    const { ask, first, pulls } = await machine(account('limpet'));
    const second = { registryId: 6, pull: { reference: REFERENCE, credentials: account('whelk') } };
    for (const each of [second, second, first]) expect(await ask(each)).toMatchObject({ ok: true });
    expect(pulls()).toBe(1);
    await ask({ registryId: 1 });
    expect(await ask({ policy: 'never' })).toMatchObject({ ok: true });
    expect(pulls()).toBe(2);
  });
});

test('a start that fails because a container of another agent has the port names that container and how to remove it', async () => {
  const engine = new MemoryEngine({ anyImage: true });
  const port = { internal: 80, external: 8080, protocol: 'tcp' as const };
  engine.faults.before = (operation) => {
    if (operation === 'start')
      throw new EngineError('PortTaken', 'Bind for 0.0.0.0:8080 failed: port is already allocated');
  };
  const names = { id: 'c', instance: 'a', nodeUuid: 'n', application: 'shop', microservice: 'web' };
  const start = () =>
    executeAlone(
      {
        ...{ kind: 'start', uuid: 'u', target: '', containerId: 'c1', protects: false, reason: 'New', ports: [port] },
      } as Step,
      { engine },
    );
  engine.containersOfOtherAgents = async () => [{ ...names, name: 'skerry-web', running: true, ports: [port] }];
  expect(await start()).toMatchObject({
    reason: 'PortTaken',
    message: expect.stringMatching(
      /^port 8080\/tcp .* the container skerry-web .*skerry-agent orphans --remove skerry-web/,
    ),
  });
  engine.containersOfOtherAgents = async () => [{ ...names, name: 'skerry-web', running: false, ports: [port] }];
  expect(await start()).toMatchObject({ message: expect.stringContaining('already allocated') });
});
