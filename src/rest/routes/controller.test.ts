import { expect, test } from 'vitest';
import { serveInMemory } from '../_server.ts';

const client = await serveInMemory();

test('the architectures are listed without a token, in the order of their numbers', async () => {
  const { architectures } = (await client.get('/architectures')).body;
  expect(architectures.map(({ id, name }: { id: number; name: string }) => `${id} ${name}`)).toEqual([
    '0 auto',
    '1 amd64',
    '2 arm64',
    '3 riscv64',
    '4 arm',
  ]);
});

test('a runtime class is shown alone and in the list', async () => {
  const admin = client.as('admin');
  const { body } = await admin.post('/runtimeClasses', { json: { name: 'wasm', handler: 'wasmtime' } });
  expect((await admin.get('/runtimeClasses/wasm')).body).toEqual(body);
  expect((await admin.get('/runtimeClasses')).body).toEqual({ runtimeClasses: [body] });
});
