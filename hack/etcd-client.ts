import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';

const PACKAGES = { etcdctl: 'go.etcd.io/etcd/etcdctl/v3', etcdutl: 'go.etcd.io/etcd/etcdutl/v3' } as const;

/** Path of a program of etcd's own version that takes snapshots (etcdctl) or restores them (etcdutl), for tests. */
export const findEtcdClient = (name: keyof typeof PACKAGES, log?: Log): Promise<string> =>
  buildTool(name, PACKAGES[name], { log, pins: 'etcd-client' });
