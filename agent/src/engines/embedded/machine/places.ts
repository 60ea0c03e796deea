import { dirname, join } from 'node:path';

/** Where one private containerd keeps what it has. Nothing of it is shared with another containerd of the machine. */
export interface ContainerdPlaces {
  /** images, snapshots and records: outlives a restart of the machine */
  root: string;
  /** sockets, shims, mounts of containers: empty after a restart of the machine */
  state: string;
  socket: string;
  /** the file of settings that containerd is started with */
  config: string;
  /** the record of what it was started with, which the adapter reads */
  started: string;
  /** the folder of the network of its containers */
  networks: string;
  /** a folder for each registry whose authority or protocol containerd has to know (hosts.toml) */
  registries: string;
  /** the parent of the control groups of its containers: a slice where systemd manages them, else a path */
  cgroupParent: string;
  /** of the network and of its bridge, at most 15 characters */
  network: string;
}

export interface PlacesOptions {
  root: string;
  state: string;
  /** of the network, its bridge and the parent of control groups */
  name: string;
  /** whether systemd manages the control groups */
  systemd: boolean;
}

/** The places of the containerd of the unit `skerry-containerd`. */
export const EMBEDDED = {
  root: '/var/lib/skerry-containerd',
  state: '/run/skerry-containerd',
  name: 'skerry0',
  socket: '/run/skerry-containerd/containerd.sock',
  unit: '/usr/lib/systemd/system/skerry-containerd.service',
} as const;

export const containerdPlaces = ({ root, state, name, systemd }: PlacesOptions): ContainerdPlaces => ({
  root,
  state,
  socket: join(state, 'containerd.sock'),
  config: join(state, 'config.toml'),
  started: startedBeside(join(state, 'containerd.sock')),
  networks: join(root, 'networks'),
  registries: join(root, 'registries'),
  cgroupParent: systemd ? `${name}.slice` : `/${name}`,
  network: name,
});

/** The record of the containerd that listens at a socket. */
export const startedBeside = (socket: string): string => join(dirname(socket), 'started.json');
