import { expect, test } from 'vitest';
import { startTestCluster } from './_cluster.ts';

/** Tokens of a real API server, sent to a complete controller. */
test('a bearer token is accepted for the audience in SKERRY_TOKEN_AUDIENCE; an empty audience accepts tokens for the API server', async () => {
  const cluster = await startTestCluster();
  const tokens: string[] = [];
  for (const audience of ['plant', 'skerry', '']) tokens.push(await cluster.token('nobody', { audience }));
  const seen: Record<string, number[]> = {};
  for (const audience of ['plant', 'skerry', '']) {
    const { client } = await cluster.startController({ SKERRY_TOKEN_AUDIENCE: audience });
    seen[audience] = [];
    for (const token of tokens) seen[audience].push((await client.get('/node-list', { token })).status);
  }
  // 403: the token is accepted, but has no role.
  expect(seen).toEqual({ plant: [403, 401, 401], skerry: [401, 403, 401], '': [401, 403, 403] });
});
