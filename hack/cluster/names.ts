import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Daemon, startDaemon } from '../process.ts';
import type { Log } from '../progress.ts';
import { buildTool } from '../tool.ts';
import { waitFor } from '../wait.ts';

const READY_PORT = 8181;

interface NamesOptions {
  dir: string;
  /** where it answers, which every pod reaches */
  address: string;
  /** of a user who may read Services, endpoints, namespaces and pods */
  kubeconfig: string;
  log?: Log;
}

/**
 * The name service of a cluster: CoreDNS as a process beside the control plane, built from its Go module in a minute once. It knows the names of
 * the cluster alone.
 */
export async function startNames({ dir, address, kubeconfig, log }: NamesOptions): Promise<Daemon> {
  const command = await buildTool('coredns', '.', { log });
  const file = join(dir, 'Corefile');
  const blockOf = (zone: string, ...lines: string[]) =>
    `${zone}:53 {\n${[`bind ${address}`, 'errors', ...lines].join('\n')}\n}\n`;
  const kubernetes = `kubernetes cluster.local {\nkubeconfig ${kubeconfig}\nttl 1\n}`;
  // What the cluster does not have exists nowhere.
  const blocks = [
    blockOf('cluster.local', `ready ${address}:${READY_PORT}`, kubernetes),
    blockOf('.', 'template ANY ANY {\nrcode NXDOMAIN\n}'),
  ];
  writeFileSync(file, blocks.join(''));
  const daemon = await startDaemon({ name: 'coredns', dir, command, args: ['-conf', file] });
  const isReady = async () => {
    daemon.assertRunning();
    return (await fetch(`http://${address}:${READY_PORT}/ready`, { signal: AbortSignal.timeout(2_000) })).ok;
  };
  try {
    await waitFor(isReady, { what: 'CoreDNS to know the names of the cluster', timeoutMs: 60_000 });
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  return daemon;
}
