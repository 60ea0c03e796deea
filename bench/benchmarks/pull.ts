import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { NODE_FLAGS } from '../../hack/agent-release.ts';
import type { Benchmark } from '../benchmark.ts';

const MIB = 1024 ** 2;
const SIZE = 1024 * MIB;
const COMMIT = 'c'.repeat(40);
const CHILD = join(import.meta.dirname, '../pull-model.ts');

/** A model of one large file: how fast the agent pulls it, and what memory that takes. */
export const pull: Benchmark = {
  name: 'pull',
  about: 'a model of 1 GiB pulled from a hub on the loopback interface: throughput and memory of the agent',
  rows: {
    throughput: {
      what: 'a model of 1 GiB from the loopback interface, its checksum included',
      unit: 'MiB/s',
      budget: { atLeast: 150 },
    },
    cpu: { what: 'the same: the agent, for each MiB', unit: 'CPU-ms', budget: { atMost: 8 } },
    memory: { what: 'the same: growth of resident memory', unit: 'MiB', budget: { atMost: 48 } },
  },
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'skerry-pull-'));
    const hub = createHub();
    await new Promise<void>((resolve) => hub.listen(0, '127.0.0.1', resolve));
    try {
      const url = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
      const { stdout } = await promisify(execFile)(process.execPath, [...NODE_FLAGS, CHILD, folder, url], {
        timeout: 600_000,
      });
      const { milliseconds, cpuMs, before, peak } = JSON.parse(stdout) as Pulled;
      const size = SIZE / MIB;
      return {
        figures: { throughput: size / (milliseconds / 1000), cpu: cpuMs / size, memory: (peak - before) / MIB },
        notes: ['the agent with the flags of Node of an installed one; the hub is in the process that measures'],
      };
    } finally {
      hub.closeAllConnections();
      hub.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

type Pulled = Record<'milliseconds' | 'cpuMs' | 'before' | 'peak', number>;

/** A hub with one model, whose only file is 1 GiB of one byte. */
function createHub() {
  const piece = Buffer.alloc(MIB, 7);
  const hash = createHash('sha256');
  for (let sent = 0; sent < SIZE; sent += piece.length) hash.update(piece);
  const sha256 = hash.digest('hex');
  const siblings = [{ rfilename: 'weights.bin', size: SIZE, lfs: { sha256, size: SIZE } }];
  return createServer((incoming, outgoing) => {
    if (incoming.url?.startsWith('/api/')) return outgoing.end(JSON.stringify({ sha: COMMIT, siblings }));
    outgoing.writeHead(200, { 'content-length': SIZE });
    let sent = 0;
    const send = (): unknown => {
      while (sent < SIZE) {
        sent += piece.length;
        if (!outgoing.write(piece)) return outgoing.once('drain', send);
      }
      return outgoing.end();
    };
    return send();
  });
}
