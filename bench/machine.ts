import { spawnSync } from 'node:child_process';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { findTools } from '../hack/binaries.ts';

/** Where and when figures were taken. Nothing in it names the machine. */
export interface Conditions {
  /** ISO, UTC */
  at: string;
  cpu: string;
  cores: number;
  /** GiB */
  memory: number;
  kernel: string;
  node: string;
  kubernetes: string;
  etcd: string;
  /** of the last minute, when the run began */
  load: number;
}

export async function readConditions(): Promise<Conditions> {
  const tools = await findTools(['kube-apiserver', 'etcd']);
  return {
    at: new Date().toISOString(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory: Math.round(totalmem() / 2 ** 30),
    kernel: release().replace(/-.*/, ''),
    node: process.version.slice(1),
    kubernetes: versionIn(tools['kube-apiserver']),
    etcd: versionIn(tools.etcd),
    load: Math.round((loadavg()[0] ?? 0) * 100) / 100,
  };
}

/** The first version number that a program tells with --version. */
function versionIn(program: string): string {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return /\d+\.\d+\.\d+[\w.+-]*/.exec(stdout ?? '')?.[0] ?? 'unknown';
}
