import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findEngine, removeEngineData } from './engine.ts';

test.runIf(!process.env.SKERRY_ENGINE)(
  'a stack that ran with podman runs with docker again in the same folder',
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'skerry-both-engines-'));
    onTestFinished(() => removeEngineData(dir));
    for (const kind of ['docker', 'podman', 'docker'] as const) {
      await using engine = await findEngine({ dir, kind, alwaysPrivate: true });
      expect(engine.kind).toBe(kind);
    }
  },
  120_000,
);
