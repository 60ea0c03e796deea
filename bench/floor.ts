import { fork } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { signToken } from '../agent/src/state/token.ts';
import { createHttp } from './http.ts';
import { assertAllAnswered, closedLoop } from './load.ts';
import { cpuMsOf } from './processes.ts';

/** CPU-ms of a response of floor-server.ts, on this machine at this moment. */
export async function measureFloor(count: number, concurrency: number): Promise<number> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const child = fork(join(import.meta.dirname, 'floor-server.ts'));
  try {
    child.send(publicKey.export({ format: 'jwk' }));
    const port = await new Promise<unknown>((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => reject(new Error(`floor-server.ts ended with code ${code}`)));
    });
    await using http = createHttp(`http://127.0.0.1:${port}`, concurrency);
    const run = async () => {
      const claims = { sub: 'x'.repeat(36), iss: 'x'.repeat(50), aud: ['controller'], tokenUse: 'controller' };
      const tokens = Array.from({ length: count }, () => signToken(privateKey, claims, 0, 60));
      const load = await closedLoop(count, concurrency, async (i) => {
        const headers = { authorization: `Bearer ${tokens[i]}`, 'skerry-agent': '0.1.0' };
        const { status } = await http.send({ method: 'GET', path: `/?have=${'x'.repeat(80)}`, headers });
        if (status !== 200) throw new Error(`the floor server answered ${status}`);
      });
      assertAllAnswered(load);
    };
    await run();
    const before = cpuMsOf(child.pid as number);
    await run();
    return (cpuMsOf(child.pid as number) - before) / count;
  } finally {
    child.disconnect();
  }
}
