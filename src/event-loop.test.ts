import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { ArtifactStore } from '../agent/src/content/artifacts/store.ts';
import { unpack } from '../agent/src/content/artifacts/unpack.ts';
import { parseChallenge } from '../agent/src/content/registries/challenge.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { expectShortTurns } from '../testing/turns.ts';
import { makeToken, startWithNode } from './agents/_util.ts';
import { createRest } from './assembly/rest.ts';
import { routes } from './assembly/routes.ts';
import { makeTar, pax } from './lib/tar/_parts.ts';
import { createMemoryDependencies } from './rest/_memory.ts';

/** The parser composes a document in one turn: twice what a file takes that has as many tokens as are read. A user sends 10 files a second. */
const FILE_BUDGET = 500;
const MIB = 2 ** 20;

async function startRest() {
  const server = createRest({ deps: createMemoryDependencies(), routes });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(async () => server[Symbol.asyncDispose]());
  return (method: string, path: string, type = '', body = Buffer.alloc(0)) =>
    new Promise<number>((resolve, reject) => {
      const headers = { authorization: 'Bearer admin', ...(type && { 'content-type': type }) };
      const sent = request(
        { port, host: '127.0.0.1', method, path: `/api/v3${path}`, headers, agent: false },
        (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
        },
      );
      sent.on('error', reject).end(body);
    });
}

const keys = (count: number) => Array.from({ length: count }, (_, i) => `k${i}: 1`);
const FILES: Record<string, string> = {
  'merges within merges': `a0: &a0 {k: 1}\n${Array.from({ length: 120 }, (_, i) => `a${i + 1}: &a${i + 1} {<<: [*a${i}, *a${i}]}\n`).join('')}`,
  'errors alone': `a: "${'\\q'.repeat(500_000)}"`,
  'closing brackets': '] '.repeat(30_000),
  'documents alone': '---\n'.repeat(20_000),
  'lines alone': `a: |\n${' \n'.repeat(130_000)}`,
  'spaces in a text': `a: "${' '.repeat(1_000_000)}"`,
  'more tokens than are read': `[${'x,'.repeat(500_000)}]`,
};

test.each(Object.entries(FILES))(
  'an uploaded file of %s is refused within a short turn of the event loop',
  async (_, text) => {
    const send = await startRest();
    const body = Buffer.from(text);
    await expectShortTurns(async () => {
      expect(await send('POST', '/application/yaml', 'application/x-yaml', body)).toBe(400);
    });
  },
);

test.each([
  [
    'one large map merged often',
    `a: &a {${keys(8000)}}\n${Array.from({ length: 250 }, (_, i) => `m${i}: {<<: *a}\n`).join('')}`,
  ],
  ['as many keys as are read', `{${keys(8000)}}`],
  ['as many lists as are read', `a: [${'[[[[[[x]]]]]],'.repeat(3500)}]`],
])('an uploaded file of %s is refused within the turn that a file of so many tokens takes', async (_, text) => {
  const send = await startRest();
  const body = Buffer.from(text);
  await expectShortTurns(
    async () => {
      expect(await send('POST', '/application/yaml', 'application/x-yaml', body)).toBe(400);
    },
    { budget: FILE_BUDGET },
  );
});

test.each([':', '/', '//:', '@', '"', 'a'])(
  'a body with half a megabyte of %s is refused within a short turn of the event loop',
  async (letters) => {
    const send = await startRest();
    const schedule = letters.repeat(Math.floor(500_000 / letters.length));
    const body = Buffer.from(JSON.stringify({ name: 'x', application: 'a', schedule }));
    await expectShortTurns(async () => {
      expect(await send('POST', '/microservices', 'application/json', body)).toBe(400);
    });
  },
);

test.each([
  ['path', `/microservices/${':'.repeat(14_000)}`],
  ['query', `/microservices?application=a&tail=${':'.repeat(14_000)}`],
])('a %s of colons alone is answered within a short turn of the event loop', async (_, path) => {
  const send = await startRest();
  await expectShortTurns(async () => {
    expect(await send('GET', path)).toBeLessThan(500);
  });
});

test('a token whose audience is slashes alone is refused within a short turn of the event loop', async () => {
  const { replica, node, key, clock } = await startWithNode({ publicUrl: 'http://controller/' });
  await using _ = replica;
  await expectShortTurns(async () => {
    const aud = `${'/'.repeat(2600)}x`;
    const token = makeToken(node.spec.uuid ?? '', key, clock.wall(), { claims: { aud } });
    const { status } = await replica.call('GET', '/config', { headers: { authorization: `Bearer ${token}` } });
    expect(status).toBe(401);
  });
});

test('an archive with a path of slashes is refused within a short turn of the event loop', async () => {
  const folder = temporaryFolder();
  const store = new ArtifactStore(folder);
  await store.open();
  const bytes = gzipSync(
    makeTar({ path: 'x', type: 'x', content: pax('path', `${'/'.repeat(65_000)}x`) }, { path: 'a', content: 'a' }),
  );
  expect(bytes.length).toBeLessThan(400);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  writeFileSync(store.blob(sha256), bytes);
  const archive = { name: 'a.tgz', sha256, size: bytes.length, form: 'tar+gzip' } as const;
  const deps = { store, owner: 'models/u', claim: () => {}, checkRoom: async () => {} };
  await expectShortTurns(() =>
    expect(unpack(archive, deps, new AbortController().signal)).rejects.toThrow(/is too long/),
  );
});

test.each(['a', ',', ' ', ', ', 'a=', 'a="', 'a="\\'])(
  'a challenge of a megabyte of %s is read within a short turn of the event loop',
  async (letters) => {
    const header = `Bearer ${letters.repeat(MIB / letters.length)}`;
    await expectShortTurns(async () => parseChallenge(header));
  },
);
