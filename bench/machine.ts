import { spawnSync } from 'node:child_process';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { findTools } from '../hack/binaries.ts';

/** The machine and the time of the measurement, without the name of the machine. */
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
  /** average of the last minute, at the start of the run */
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

/** Whether other work took so much of the machine at the start that figures are worse. */
export const isBusy = ({ load, cores }: Pick<Conditions, 'load' | 'cores'>): boolean => load > cores / 4;

/** The first version number in the output of a program with --version. */
function versionIn(program: string): string {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return /\d+\.\d+\.\d+[\w.+-]*/.exec(stdout ?? '')?.[0] ?? 'unknown';
}
