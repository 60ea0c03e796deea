import { describe, expect, test } from 'vitest';
import { type RegistryView, registryViewSchema } from '../../../src/wire/agent.ts';
import { imageIdOf, MemoryEngine } from '../engines/memory/engine.ts';
import { EngineError } from '../engines/port.ts';
import type { ImagePolicy, Step } from '../plan/model.ts';
import { execute, pullTarget } from './executors.ts';
import { createPullSlots } from './pull-slots.ts';

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
  'missing, if missing': { policy: 'ifMissing', want: { id: pulledId, pulled: true } },
  'present, if missing': { policy: 'ifMissing', present: true, want: { id: old, pulled: false } },
  'present, to be fresh': { policy: 'fresh', present: true, want: { id: pulledId, pulled: true } },
  'present and pinned, to be fresh': {
    policy: 'fresh',
    present: true,
    reference: `app@${digest}`,
    want: { id: old, pulled: false },
  },
  'present, to be fresh, registry away': {
    policy: 'fresh',
    present: true,
    fault: new EngineError('ImagePullFailed', 'no route'),
    want: { reason: 'ImagePullFailed', pulled: false },
  },
  'present, better fresh, registry away': {
    policy: 'preferFresh',
    present: true,
    fault: new EngineError('ImagePullFailed', 'no route'),
    want: { id: old, pulled: false },
  },
  'present, better fresh, refused': {
    policy: 'preferFresh',
    present: true,
    fault: new EngineError('ImageUnauthorized', 'denied'),
    want: { reason: 'ImageUnauthorized', pulled: false },
  },
  'missing, never to be pulled': { policy: 'never', want: { reason: 'ImageMissing', pulled: false } },
  'present, never to be pulled': { policy: 'never', present: true, want: { id: old, pulled: false } },
};

describe('an image', () => {
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
        rebuildOrder: 0,
        policy,
      };
      const outcome = await execute(
        step,
        {
          engine,
          slots: createPullSlots(),
          stopGraceSeconds: 1,
          specOf: () => Promise.reject(new Error('not asked for')),
          pullOf: () => ({ reference }),
          pulled: (_reference, id) => pulled.push(id),
          onProgress: () => {},
        },
        new AbortController().signal,
      );
      expect(outcome).toMatchObject(want.reason ? { ok: false, reason: want.reason } : { ok: true, imageId: want.id });
      expect(pulled.length > 0).toBe(want.pulled);
    });
});

describe('where an image is pulled from', () => {
  const registry = (change: Partial<RegistryView>) =>
    registryViewSchema.parse({ id: 5, url: 'https://registry.example.com:5000', ...change });
  const targets: Record<string, [string, RegistryView | undefined, string]> = {
    'a reference with a host, as it is': ['other.example.com/a:1', registry({}), 'other.example.com/a:1'],
    'a reference without one, at its registry': ['team/a:1', registry({}), 'registry.example.com:5000/team/a:1'],
    'a registry without a scheme': ['a:1', registry({ url: 'registry.example.com' }), 'registry.example.com/a:1'],
    'the public hub, as it is': ['nginx:1', registry({ url: 'registry.hub.docker.com' }), 'nginx:1'],
    'no registry known, as it is': ['nginx:1', undefined, 'nginx:1'],
    'localhost is a host': ['localhost/a:1', registry({}), 'localhost/a:1'],
  };
  for (const [name, [reference, from, want]] of Object.entries(targets))
    test(name, () => expect(pullTarget(reference, from).reference).toBe(want));

  test('credentials go with the registry that has some', () => {
    expect(pullTarget('a:1', registry({ username: 'u', password: 'p' })).credentials).toEqual({
      username: 'u',
      password: 'p',
      host: 'registry.example.com:5000',
    });
    expect(pullTarget('a:1', registry({})).credentials).toBeUndefined();
  });
});
