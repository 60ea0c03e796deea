import { readText } from '../../../machine/disk.ts';
import type { PodNetwork } from './network.ts';
import { startedBeside } from './places.ts';

/** What a private containerd was started with. Its adapter reads it, since containerd tells little of it. */
export interface StartedContainerd {
  /** of containerd, as it says it itself */
  version: string;
  root: string;
  state: string;
  /** a folder for each registry (hosts.toml) */
  registries: string;
  /** the parent of the control groups of containers, in the form that CRI wants: a slice with systemd, else a path */
  cgroupParent: string;
  systemd: boolean;
  network: PodNetwork;
  /** names of the runtimes, the default one first */
  handlers: readonly string[];
  /** whether containers can be given CDI devices */
  cdi: boolean;
  pauseImage: string;
}

/** The record of the containerd that listens at a socket; undefined where none was prepared there. */
export function startedAt(socket: string): StartedContainerd | undefined {
  const text = readText(startedBeside(socket));
  return text === undefined ? undefined : (JSON.parse(text) as StartedContainerd);
}
