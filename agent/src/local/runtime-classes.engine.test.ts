import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Home } from '../_home.ts';
import { pushVersions } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { openTestEngine, suiteEngines } from '../engines/_outside.ts';
import { manifestOf } from './_manifest.ts';

/**
 * Runtime classes of a machine on engines that let a container choose its runtime: podman does not. The routes themselves are
 * in own-content.test.ts.
 */

const image = `${new URL(inject('registryUrl')).host}/classes/sample:1`;
beforeAll(() => pushVersions(inject('registryUrl'), 'classes/sample', '1'));

const RUNTIMES = { docker: 'io.containerd.runc.v2', embedded: 'crun' } as const;

for (const tested of suiteEngines()) {
  const { kind } = tested;
  if (kind === 'podman') continue;
  describe.runIf(kind === 'embedded' || process.env.SKERRY_NIGHTLY)(kind, () => {
    const home = new Home({ engineUrl: tested.url });
    afterAll(() => home.remove());

    const file = (name: string, text: string) => {
      const path = join(home.folder, name);
      writeFileSync(path, text);
      return path;
    };
    const classFile = (handler: string) =>
      file(
        `${handler}.json`,
        JSON.stringify({
          ...{ apiVersion: 'agent.skerry.dev/v1', kind: 'RuntimeClass', metadata: { name: 'fast' } },
          handler,
        }),
      );
    const said = async (...words: string[]) => {
      const { code, out, err } = await home.cli(...words);
      expect(code, `${words.join(' ')}: ${out}${err}`).toBe(0);
      return out;
    };

    test('a class is judged, applied, listed, shown and run with, and removed once nothing names it', async () => {
      await home.up();
      const runtime = RUNTIMES[kind];
      expect(await home.cli('deploy', '-f', classFile('kata'))).toMatchObject({
        err: expect.stringContaining('has no runtime kata'),
      });
      await said('deploy', '--dry-run', '-f', classFile(runtime));
      expect(await said('runtimeclass', 'ls')).toBe('No runtime classes on this machine\n');
      await said('deploy', '-f', classFile(runtime));
      expect(await said('runtimeclass', 'ls')).toMatch(new RegExp(`fast +${runtime} +local`));
      expect(await said('runtimeclass', 'inspect', 'fast')).toContain(`handler: ${runtime}`);

      await said('deploy', '-f', file('web.json', manifestOf('web', image, { runtime: 'fast' })));
      const [web] = await home.containers();
      expect(web?.state).toBe('running');
      expect(await openTestEngine(tested, home.instance).processOf(web?.id ?? '')).toBeGreaterThan(0);
      const refused = await home.cli('runtimeclass', 'rm', 'fast');
      expect([refused.code, refused.err]).toEqual([expect.any(Number), expect.stringMatching(/fast.*web|web.*fast/)]);
      expect(refused.code).not.toBe(0);

      await said('ms', 'rm', 'skerry-agent.web');
      await until('the end of the container', async () => (await home.containers()).length === 0);
      expect(await said('runtimeclass', 'rm', 'fast')).toBe('fast: removed\n');
      expect(await said('runtimeclass', 'ls')).toBe('No runtime classes on this machine\n');
    }, 120_000);
  });
}
