import { get } from 'node:https';
import { expect, test } from 'vitest';
import { createRest } from '../../assembly/rest.ts';
import { certificateOfLocalhost } from '../_certificate.ts';
import { createMemoryDependencies } from '../_memory.ts';

test('the listener serves TLS when it has a certificate', async () => {
  const { ca, ...tls } = certificateOfLocalhost();
  await using server = createRest({ deps: createMemoryDependencies(), tls });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const options = {
    host: '127.0.0.1',
    port,
    path: '/api/v3/live',
    ca,
    servername: 'localhost',
    agent: false,
  };
  const status = await new Promise<number | undefined>((resolve, reject) => {
    get(options, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).on('error', reject);
  });
  expect(status).toBe(200);
});
