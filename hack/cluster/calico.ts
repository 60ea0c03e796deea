import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installPackages, isThere } from '../apt.ts';
import type { Kube } from '../kube.ts';
import type { Log } from '../progress.ts';
import { buildTool } from '../tool.ts';

/** Calico, whose CNI plugin names the interfaces of pods as its daemon expects them, and whose daemon enforces NetworkPolicies. */
export interface Calico {
  plugin: string;
  felix: string;
  /** folder of its CRDs */
  crds: string;
}

const MODULE = 'github.com/projectcalico/calico';
const GROUP = 'crd.projectcalico.org/v1';
/** Of the CNI plugins of Debian. */
const PLUGINS = '/usr/lib/cni';
const HEALTH_PORT = 9099;
const run = promisify(execFile);

/** Builds it from its modules, which takes some minutes once, and installs what its daemon needs on nodes. */
export async function findCalico(log: Log): Promise<Calico> {
  await installPackages({
    packages: ['ipset', 'conntrack'],
    missing: () => ['ipset', 'conntrack'].filter((name) => !isThere(`/usr/sbin/${name}`)).join(', '),
    why: 'NetworkPolicies cannot be enforced',
    elsewhere: 'https://www.netfilter.org',
    log,
  });
  const build = (name: string, path: string) => buildTool(name, `${MODULE}/${path}`, { log, pins: 'calico' });
  const felix = await build('calico-felix', 'felix/cmd/calico-felix');
  const plugin = await build('calico', 'cni-plugin/cmd/calico');
  const pins = join(import.meta.dirname, '../tools/calico');
  const { stdout } = await run('go', ['mod', 'download', '-json', MODULE], { cwd: pins });
  return { plugin, felix, crds: join(JSON.parse(stdout).Dir, 'libcalico-go/config/crd') };
}

/** What Calico wants to find in the API: its kinds, that its objects are complete, and which addresses are of pods. */
export async function prepareCalico(
  { crds }: Calico,
  kube: Kube,
  kubectl: (...args: string[]) => Promise<string>,
  pods: string,
): Promise<void> {
  await kubectl('create', '--filename', crds);
  await kubectl('wait', '--for=condition=Established', 'crds', '--all', '--timeout=120s');
  const object = (kind: string, name: string, spec: object) =>
    kube.apply({ apiVersion: GROUP, kind, metadata: { name }, spec });
  await object('ClusterInformation', 'default', { datastoreReady: true });
  const pool = { cidr: pods, blockSize: 26, ipipMode: 'Never', vxlanMode: 'Never', natOutgoing: true };
  await object('IPPool', 'pods', { ...pool, nodeSelector: 'all()' });
}

/** A folder of CNI plugins for a node: Debian's and Calico's. */
export function pluginsWith({ plugin }: Calico, folder: string): string {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(PLUGINS)) symlinkSync(join(PLUGINS, name), join(folder, name));
  copyFileSync(plugin, join(folder, 'calico'));
  return folder;
}

export const calicoPlugin = (node: string, subnet: string, kubeconfig: string) => ({
  ...{ type: 'calico', datastore_type: 'kubernetes', nodename: node, nodename_file_optional: true, mtu: 1500 },
  ipam: { type: 'host-local', ranges: [[{ subnet }]] },
  policy: { type: 'k8s' },
  kubernetes: { kubeconfig },
});

/** The settings of Calico's daemon on a node. It reports no use of it. */
export const felixSettings = (node: string, address: string, kubeconfig: string) => ({
  ...{ FELIX_DATASTORETYPE: 'kubernetes', KUBECONFIG: kubeconfig, FELIX_FELIXHOSTNAME: node },
  ...{ FELIX_HEALTHENABLED: 'true', FELIX_HEALTHHOST: address, FELIX_HEALTHPORT: String(HEALTH_PORT) },
  ...{ FELIX_LOGSEVERITYSCREEN: 'Warning', FELIX_LOGFILEPATH: 'none', FELIX_LOGSEVERITYSYS: 'none' },
  ...{ FELIX_USAGEREPORTINGENABLED: 'false', FELIX_IPV6SUPPORT: 'false', FELIX_IGNORELOOSERPF: 'true' },
  ...{ FELIX_DEFAULTENDPOINTTOHOSTACTION: 'ACCEPT', FELIX_BPFENABLED: 'false', FELIX_XDPENABLED: 'false' },
});

/** Whether the daemon has programmed what the API has. */
export const isFelixReady = (address: string): Promise<boolean> =>
  fetch(`http://${address}:${HEALTH_PORT}/readiness`, { signal: AbortSignal.timeout(2_000) }).then(
    ({ ok }) => ok,
    () => false,
  );
