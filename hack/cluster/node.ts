import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { shortHash } from '../paths.ts';
import { type Daemon, startDaemon } from '../process.ts';
import { waitFor } from '../wait.ts';
import { type Calico, calicoPlugin, felixSettings, isFelixReady, pluginsWith } from './calico.ts';
import { cgroupsOf } from './cgroups.ts';
import type { ClusterNetwork } from './network.ts';

/** A node of a cluster: containerd, kubelet and kube-proxy in namespaces of their own, so that this machine stays as it is. */
export interface Node extends AsyncDisposable {
  readonly name: string;
  /** where NodePorts listen */
  readonly address: string;
  /** of the first process in its namespaces */
  readonly pid: number;
  /** Runs a program on it. */
  run(...command: string[]): Promise<{ stdout: string; stderr: string }>;
  /** Stores an image, from an archive as saveImage makes it. */
  load(archive: Buffer): Promise<void>;
  /** Sends a signal to the program of a container, which `containerID` of a pod's status names. */
  signal(container: string, signal: NodeJS.Signals): Promise<void>;
}

export interface NodeOptions {
  name: string;
  dir: string;
  network: ClusterNetwork;
  /** number of the node: 0, 1 ... */
  index: number;
  /** of all nodes */
  nodes: number;
  programs: { kubelet: string; 'kube-proxy': string };
  kubeconfigs: { kubelet: string; proxy: string; calico: string };
  /** archive of the image that holds the namespaces of pods, and its name */
  pause: { archive: Buffer; reference: string };
  /** enforces NetworkPolicies; without it, nothing does */
  calico?: Calico | undefined;
  /** whom pods ask for names; without it, nobody answers */
  nameServer?: string | undefined;
}

const execute = promisify(execFile);
/** The pods of all nodes, and of one. */
export const PODS = '10.245.0.0/16';
const podSubnet = (index: number) => `10.245.${index}.0/24`;
const hostNumber = (index: number) => 11 + index;

/**
 * What kubelet would write into these settings, which all of this machine share, when they have other values. A file with the
 * value that it wants, mounted over each, makes it leave the real one alone.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  'vm/overcommit_memory': '1',
  'vm/panic_on_oom': '0',
  'kernel/panic': '10',
  'kernel/panic_on_oops': '1',
  'kernel/keys/root_maxkeys': '1000000',
  'kernel/keys/root_maxbytes': '25000000',
};

/** The program that makes a node of the namespaces that it is started in. */
function initScript(dir: string): string {
  const masks = Object.keys(SETTINGS).map(
    (name) => `[ ! -e /proc/sys/${name} ] || mount --bind ${join(dir, 'settings', name)} /proc/sys/${name}`,
  );
  return [
    ...['#!/bin/sh', 'set -e', 'mount -t tmpfs tmpfs /run'],
    ...['lib', 'log'].map((name) => `mount --bind ${join(dir, name)} /var/${name}`),
    ...masks,
    'echo 1 > /proc/sys/net/ipv4/ip_forward',
    `touch ${join(dir, 'made')}`,
    'exec sleep infinity',
    '',
  ].join('\n');
}

export async function startNode(options: NodeOptions): Promise<Node> {
  const { name, dir, network, index, nodes, programs, kubeconfigs, pause, calico, nameServer } = options;
  await using started = new AsyncDisposableStack();
  for (const folder of ['lib', 'log', 'cni', 'logs']) mkdirSync(join(dir, folder), { recursive: true });
  for (const [setting, value] of Object.entries(SETTINGS)) {
    mkdirSync(join(dir, 'settings', setting, '..'), { recursive: true });
    writeFileSync(join(dir, 'settings', setting), `${value}\n`);
  }
  writeFileSync(join(dir, 'init'), initScript(dir), { mode: 0o755 });

  const cgroups = cgroupsOf(`skerry-${shortHash(dir)}`);
  started.defer(() => cgroups.remove());
  const namespaces = [
    '--mount',
    '--net',
    '--pid',
    '--fork',
    '--mount-proc',
    '--kill-child',
    '--propagation',
    'private',
  ];
  const holder = await startDaemon({ name: 'node', dir, command: 'unshare', args: [...namespaces, join(dir, 'init')] });
  started.defer(async () => {
    // With the first process of a PID namespace, all others in it end.
    holder.signal('SIGKILL');
    await holder.exited;
  });
  const pid = await waitFor(
    () => {
      holder.assertRunning();
      const child = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8').trim();
      return child !== '' && existsSync(join(dir, 'made')) && Number(child);
    },
    { what: `the namespaces of ${name}` },
  );
  const address = network.address(hostNumber(index));
  network.attach(pid, hostNumber(index));
  const enter = ['--target', String(pid), '--mount', '--net', '--pid', '--'];
  const run = (...command: string[]) => execute('nsenter', [...enter, ...command], { maxBuffer: 64 * 1024 ** 2 });
  for (let other = 0; other < nodes; other++)
    if (other !== index) await run('ip', 'route', 'add', podSubnet(other), 'via', network.address(hostNumber(other)));

  const daemon = (program: string, command: string, ...args: string[]): Promise<Daemon> =>
    startDaemon({ name: program, dir, command: 'nsenter', args: [...enter, command, ...args] });
  const file = (path: string, content: object) => {
    // JSON is YAML.
    writeFileSync(join(dir, path), `${JSON.stringify(content, undefined, 2)}\n`);
    return join(dir, path);
  };

  const subnet = podSubnet(index);
  file('cni/10-pods.conflist', cniConfig(calico ? calicoPlugin(name, subnet, kubeconfigs.calico) : bridge(subnet)));
  const plugins = calico ? pluginsWith(calico, join(dir, 'plugins')) : '/usr/lib/cni';
  writeFileSync(join(dir, 'containerd.toml'), containerdConfig(plugins, join(dir, 'cni'), pause.reference));
  const containerd = await daemon('containerd', 'containerd', '--config', join(dir, 'containerd.toml'));
  await waitFor(
    async () => {
      containerd.assertRunning();
      return (await run('ctr', 'version')) !== undefined;
    },
    { what: 'containerd to answer' },
  );
  const load = (archive: Buffer) =>
    new Promise<void>((resolve, reject) => {
      const args = [...enter, 'ctr', '--namespace', 'k8s.io', 'images', 'import', '-'];
      const child = spawn('nsenter', args, { stdio: ['pipe', 'ignore', 'pipe'] });
      let said = '';
      child.stderr.on('data', (piece) => {
        said += piece;
      });
      // It may end before it has read all; its exit code says so.
      child.stdin.on('error', () => {});
      child.stdin.end(archive);
      child.once('error', reject);
      child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`ctr images import: ${said.trim()}`))));
    });
  await load(pause.archive);
  const signal = async (container: string, name: NodeJS.Signals) => {
    const id = container.replace('containerd://', '');
    await run('ctr', '--namespace', 'k8s.io', 'tasks', 'kill', '--signal', name, id);
  };

  writeFileSync(join(dir, 'resolv.conf'), 'nameserver 192.0.2.1\n');
  const kubelet = file('kubelet.yaml', kubeletConfig(cgroups.root, join(dir, 'resolv.conf'), nameServer));
  const identity = ['--hostname-override', name, '--node-ip', address];
  await daemon('kubelet', programs.kubelet, '--config', kubelet, '--kubeconfig', kubeconfigs.kubelet, ...identity);
  await daemon(
    'kube-proxy',
    programs['kube-proxy'],
    '--config',
    file('proxy.yaml', proxyConfig(name, kubeconfigs.proxy)),
  );

  if (calico) {
    const settings = Object.entries(felixSettings(name, address, kubeconfigs.calico)).map((pair) => pair.join('='));
    // Without a file of settings, those of its environment are all.
    const felix = await daemon('calico-felix', 'env', ...settings, calico.felix, '--config-file', '/dev/null');
    const isReady = () => {
      felix.assertRunning();
      return isFelixReady(address);
    };
    await waitFor(isReady, { what: `Calico on ${name} to be ready`, timeoutMs: 120_000 });
  }

  const owned = started.move();
  return { name, address, pid, run, load, signal, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const cniConfig = (network: object) => ({
  cniVersion: '1.0.0',
  name: 'pods',
  plugins: [network, { type: 'portmap', capabilities: { portMappings: true }, snat: true }],
});

const bridge = (subnet: string) => ({
  ...{ type: 'bridge', bridge: 'pods', isDefaultGateway: true, ipMasq: true, hairpinMode: true },
  ipam: { type: 'host-local', ranges: [[{ subnet }]] },
});

/** Where this machine is itself a container, a score of the OOM killer cannot be lowered. */
const containerdConfig = (plugins: string, cni: string, pause: string) => `version = 2
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '${pause}'
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '${plugins}'
    conf_dir = '${cni}'
`;

/** The network that a kubelet listens on is private, so it lets everyone in: the API server has no certificate for it. */
const kubeletConfig = (cgroupRoot: string, resolvConf: string, nameServer: string | undefined) => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
  ...{ cgroupDriver: 'cgroupfs', cgroupRoot, failCgroupV1: false, enforceNodeAllocatable: [] },
  ...{ oomScoreAdj: 0, failSwapOn: false },
  ...{ clusterDomain: 'cluster.local', resolvConf, ...(nameServer && { clusterDNS: [nameServer] }) },
  evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
  ...{ imageGCHighThresholdPercent: 100, imageGCLowThresholdPercent: 99 },
  ...{ syncFrequency: '10s', nodeStatusUpdateFrequency: '5s' },
});

const proxyConfig = (name: string, kubeconfig: string) => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  ...{ mode: 'iptables', hostnameOverride: name, clusterCIDR: PODS, clientConnection: { kubeconfig } },
  // The table of connections belongs to all of this machine.
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
});
