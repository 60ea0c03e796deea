import { describe, expect, test } from 'vitest';
import { isRealRouter, makeRouterTrust, startRouter } from '../../../../testing/router.ts';
import { configProblems } from '../../../router-schema/check.ts';
import { SHAPES } from '../_shapes.ts';
import { type RouterConfigInput, routerConfigText, routerPairs, startPairs } from './config.ts';
import { mapForm } from './forms.ts';

const shapes = Object.entries(SHAPES);
const golden = (file: string) => `./testdata/${file}`;

describe.each(shapes)('the configuration of a router of the shape %s', (shape, input) => {
  test('is the golden file of the program', async () => {
    await expect(routerConfigText(routerPairs(input))).toMatchFileSnapshot(golden(`${shape}.skrouterd.json`));
  });

  test('is the golden file of images that fetch it', async () => {
    const text = `${JSON.stringify(mapForm(routerPairs(input)), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot(golden(`${shape}.config.json`));
  });

  test('obeys the schema of routers, as a list and as the text of its file', () => {
    expect(configProblems(routerPairs(input))).toEqual([]);
    expect(JSON.parse(routerConfigText(routerPairs(input)))).toEqual(routerPairs(input));
  });

  test('has every listener behind a certificate, but for probes', () => {
    for (const [kind, attributes] of routerPairs(input)) {
      if (kind !== 'listener') continue;
      const isProbe = attributes.http === true && attributes.websockets === false;
      const isCertain = attributes.authenticatePeer === true && attributes.saslMechanisms === 'EXTERNAL';
      expect(isProbe || (isCertain && attributes.sslProfile !== undefined)).toBe(true);
    }
  });
});

test('routers of every shape start, and take clients', { timeout: isRealRouter ? 60_000 : 120_000 }, async () => {
  const trust = await makeRouterTrust();
  for (const [, input] of shapes) {
    // The ports of a test's routers are free ones.
    const { ports: _, ...rest } = input;
    const router = await startRouter(trust, { ...rest, bridges: { listeners: [], connectors: [] } });
    const management = await router.manage();
    const { signal } = new AbortController();
    expect(management.router.id).toBe(input.id);
    for (const kind of ['sslProfile', 'listener', 'connector'] as const) {
      const names = routerPairs(input).flatMap(([entity, { name }]) => (entity === kind ? [name] : []));
      expect((await management.query(kind, signal)).map(({ name }) => name).sort()).toEqual(names.sort());
    }
    await router.kill();
  }
});

describe('what only a start reads', () => {
  const edge = SHAPES['edge-at-the-hub'] as RouterConfigInput;

  test('stays the same when services, upstreams and ports change', () => {
    const other = SHAPES['edge-with-two-upstreams-and-services'] as RouterConfigInput;
    expect(startPairs(other)).toEqual(startPairs(edge));
  });

  test('is another one in another mode', () => {
    expect(startPairs({ ...edge, mode: 'interior' })).not.toEqual(startPairs(edge));
  });
});
