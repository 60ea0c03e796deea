import { afterEach, expect, test } from 'vitest';
import { makeClock } from '../agents/_util.ts';
import { createTestClient } from './_client.ts';
import { createMemoryDependencies } from './_memory.ts';
import { createTokenReviewAuthenticator } from './access/reviews.ts';
import { createRates } from './rates.ts';
import { routes } from './routes/index.ts';
import { createRestServer } from './server.ts';

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start(options: { trustProxy?: boolean } = {}) {
  const asked: string[] = [];
  const authenticator = createTokenReviewAuthenticator({
    reviewer: {
      async post(_, body) {
        const { token } = (body as { spec: { token: string } }).spec;
        asked.push(token);
        const isAdmin = token === 'admin';
        const status = isAdmin ? { authenticated: true, audiences: ['skerry'], user: { username: 'admin' } } : {};
        return { status } as never;
      },
    },
  });
  // The clock does not advance, or buckets would refill on a slow machine.
  const server = createRestServer({
    deps: createMemoryDependencies({ authenticator }),
    clock: makeClock(),
    ...options,
  });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  stops.push(async () => server[Symbol.asyncDispose]());
  return { client: createTestClient(`http://127.0.0.1:${port}`, routes), asked };
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
    expect(statuses.slice(0, 60)).toEqual(Array(60).fill(501));
    expect(statuses.at(-1)).toBe(429);
    // Another client behind the same proxy.
    expect((await client.post(path, from('192.0.2.2'))).status).toBe(501);
  },
);

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
