import { describe, expect, test } from 'vitest';
import { EngineError } from '../domain/engine.ts';
import { OPEN_POLICY, PLAIN_PLACES } from '../domain/policy.ts';
import type { ImagePolicy, Step } from '../domain/step.ts';
import { imageIdOf, MemoryEngine } from '../engines/memory/engine.ts';
import { execute } from './executors.ts';
import { createMachineAccess } from './machine-access.ts';
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
      const outcome = await execute(
        step,
        {
          engine,
          machine: createMachineAccess({ policy: OPEN_POLICY, protectedPaths: [], places: PLAIN_PLACES }, {}),
          slots: createPullSlots(),
          pullBegins: () => () => {},
          pulled: (_reference, id) => pulled.push(id),
        },
        () => {},
        new AbortController().signal,
      );
      expect(outcome).toMatchObject(want.reason ? { ok: false, reason: want.reason } : { ok: true, imageId: want.id });
      expect(pulled.length > 0).toBe(want.pulled);
    });
});
