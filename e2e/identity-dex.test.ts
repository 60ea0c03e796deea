import { expect, test } from 'vitest';
import { localStack } from './_local-stack.ts';
import { shellOfReader, typeIdentityPage } from './_typed.ts';

/** `PROVIDER=dex make up` as typed: the people of Dex at REST and kubectl. In the night alone: a whole stack is started for it. */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;

test.skipIf(!isNightly)(
  'docs/identity.md holds as typed with Dex',
  async () => {
    const home = await localStack({ PROVIDER: 'dex' });
    const type = shellOfReader({ cwd: home, env: { ...process.env, HOME: home } });
    expect(await typeIdentityPage(type, ['With another provider'])).toEqual([]);
  },
  600_000,
);
