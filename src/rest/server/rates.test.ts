import { expect, test } from 'vitest';
import { makeClock } from '../../agents/_util.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { serveInMemory } from '../_server.ts';
import { createTokenReviewAuthenticator } from '../access/reviews.ts';
import { createRates, limitAttempts } from './rates.ts';

async function start(options: { trustProxy?: boolean } = {}) {
  const asked: string[] = [];
  const authenticator = createTokenReviewAuthenticator({
    reviewer: {
      async post(_, body) {
        const { token } = (body as { spec: { token: string } }).spec;
        asked.push(token);
        const isAdmin = token === 'admin' || token.endsWith('.right');
        const status = isAdmin ? { authenticated: true, audiences: ['skerry'], user: { username: 'admin' } } : {};
        return { status } as never;
      },
    },
  });
  // The clock does not advance, or buckets would refill on a slow machine.
  const deps = createMemoryDependencies({ authenticator });
  const client = await serveInMemory({ deps, clock: makeClock(), ...options });
  return { client, asked };
}

test('an address that tries unknown tokens gets 429, and costs no more token reviews', async () => {
  const { client, asked } = await start();
  const statuses: number[] = [];
  for (let i = 0; i < 70; i++) statuses.push((await client.get('/application', { token: `guess-${i}` })).status);
  expect(new Set(statuses.slice(0, 60))).toEqual(new Set([401]));
  expect(statuses.at(-1)).toBe(429);
  expect(asked.length).toBeLessThan(65);
  const { headers, body } = await client.get('/application', { token: 'guess-again' });
  expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect(body).toMatchObject({ name: 'RateLimitExceededError', code: 'TOO_MANY_REQUESTS' });
});

test('a caller with a cached token is served while others at its address get 429', async () => {
  const { client } = await start();
  expect((await client.get('/application', { token: 'admin' })).status).toBe(200);
  for (let i = 0; i < 70; i++) await client.get('/application', { token: `guess-${i}` });
  expect((await client.get('/application', { token: 'guess' })).status).toBe(429);
  expect((await client.get('/application', { token: 'admin' })).status).toBe(200);
});

/** A token of a service account; the API server accepts those that end in `right`. */
const tokenOf = (uid: string, issuedAt: number, signature = 'right') => {
  const sub = 'system:serviceaccount:plant:dashboard';
  const claims = { iss: 'https://cluster', sub, iat: issuedAt, 'kubernetes.io': { serviceaccount: { uid } } };
  return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
};

test('a renewed token of a proven subject is served while its address is over the limit of wrong tokens', async () => {
  const { client } = await start();
  const status = async (token: string) => (await client.get('/application', { token })).status;
  expect(await status(tokenOf('a', 1))).toBe(200);
  for (let i = 0; i < 70; i++) await status(`guess-${i}`);
  expect(await status(tokenOf('a', 2))).toBe(200);
  // The name of the service account is not enough.
  expect(await status(tokenOf('b', 2, 'wrong'))).toBe(429);
});

test('who copies the subject of a token takes reviews from that subject at that address only', async () => {
  const { client, asked } = await start({ trustProxy: true });
  const status = async (token: string, address = '192.0.2.1') =>
    (await client.get('/application', { token, headers: { 'x-forwarded-for': address } })).status;
  for (const uid of ['a', 'b']) expect(await status(tokenOf(uid, 1))).toBe(200);
  for (const address of ['192.0.2.1', '192.0.2.2'])
    for (let i = 0; i < 70; i++) await status(`guess-${address}-${i}`, address);
  const before = asked.length;
  for (let i = 0; i < 100; i++) await status(tokenOf('a', i, 'copied'));
  expect(asked.length - before).toBe(10);
  expect(await status(tokenOf('a', 2))).toBe(429);
  expect(await status(tokenOf('b', 2))).toBe(200);
  expect(await status(tokenOf('a', 2), '192.0.2.2')).toBe(200);
});

test('a caller is charged for the bytes of its bodies, other callers are not', () => {
  const clock = makeClock();
  const rates = createRates(clock);
  for (let i = 0; i < 32; i++) rates.body('ann')(2 ** 20);
  expect(() => rates.body('ann')).toThrow(/too many bytes of this caller/);
  expect(() => rates.body('bob')).not.toThrow();
});

test.each(['/user/login', '/user/refresh', '/user/change-password', '/user/interaction/x/login'])(
  '%s limits attempts per address',
  async (path) => {
    const { client } = await start({ trustProxy: true });
    const from = (address: string) => ({ headers: { 'x-forwarded-for': `6.6.6.6, ${address}` }, json: {} });
    const statuses: number[] = [];
    for (let i = 0; i < 65; i++) statuses.push((await client.post(path, from('192.0.2.1'))).status);
    expect(statuses.slice(0, 60)).not.toContain(429);
    expect(statuses.at(-1)).toBe(429);
    // Another client behind the same proxy.
    expect((await client.post(path, from('192.0.2.2'))).status).not.toBe(429);
  },
);

test('an address has as many attempts at once and in each window as is configured, or all', async () => {
  const clock = makeClock();
  const take = limitAttempts({ requests: 3, windowMs: 30_000 }, clock);
  for (let i = 0; i < 3; i++) take('192.0.2.1');
  expect(() => take('192.0.2.1')).toThrow(expect.objectContaining({ status: 429, headers: { 'retry-after': '10' } }));
  expect(() => take('192.0.2.2')).not.toThrow();
  await clock.advance(10_000, { timers: 0 });
  take('192.0.2.1');
  expect(() => take('192.0.2.1')).toThrow();
  const unlimited = limitAttempts(false);
  for (let i = 0; i < 10_000; i++) unlimited('192.0.2.1');
});

test('uploads are limited per caller, and 429 has Retry-After', async () => {
  const clock = makeClock();
  const rates = createRates(clock);
  const upload = () => {
    try {
      rates.upload('admin');
      return 'taken';
    } catch (error) {
      return error as { status: number; headers: Record<string, string> };
    }
  };
  for (let i = 0; i < 120; i++) expect(upload()).toBe('taken');
  expect(upload()).toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
  expect(() => rates.upload('other')).not.toThrow();
  await clock.advance(1_000, { timers: 0 });
  expect(upload()).toBe('taken');
});
