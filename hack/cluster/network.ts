import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { processStartTime } from '../process.ts';

/**
 * The network of a cluster: a bridge, with this machine at its first address. Nodes and routers of machines outside are
 * attached to it.
 */
export interface ClusterNetwork extends Disposable {
  readonly bridge: string;
  /** `10.250.7.0/24` */
  readonly subnet: string;
  /** The address of a host number; 1 is this machine. */
  address(host: number): string;
  /** Gives a network namespace, by its name or the id of a process in it, an interface `eth0` on the bridge. */
  attach(namespace: string | number, host: number): void;
}

/** Of the names of bridges and namespaces; the id of the process that they belong to follows. */
export const PREFIX = 'skc-';
const NAMES = '/run/netns';
let count = 0;

/** Needs root, `ip` and `iptables` (Debian: iproute2, iptables). */
export function createClusterNetwork(): ClusterNetwork {
  removeLeftovers();
  // The name says whose it is: a later run removes what a killed run left.
  const bridge = `${PREFIX}${process.pid}-${++count}`;
  const used = ip('-4', '-o', 'address');
  const third = Array.from({ length: 64 }, () => randomInt(256)).find((each) => !used.includes(` 10.250.${each}.`));
  if (third === undefined) throw new Error('all networks in 10.250.0.0/16 are in use');
  const address = (host: number) => `10.250.${third}.${host}`;
  ip('link', 'add', bridge, 'type', 'bridge');
  ip('address', 'add', `${address(1)}/24`, 'dev', bridge);
  ip('link', 'set', bridge, 'up');
  // An engine on this machine may have packets between the ports of bridges filtered, and drop those that it does not know.
  run('iptables', ['--wait', '--insert', 'FORWARD', ...between(bridge)]);
  // A network of an engine here, also one of a run that was killed, may have the addresses of pods and hide them behind its own.
  run('iptables', ['--wait', '--table', 'nat', '--insert', 'POSTROUTING', ...through(bridge)]);
  return {
    bridge,
    subnet: `10.250.${third}.0/24`,
    address,
    attach(namespace, host) {
      const cable = `${bridge.replace(PREFIX, 'skv')}.${host}`.slice(-15);
      ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(namespace));
      ip('link', 'set', cable, 'master', bridge, 'up');
      const at =
        typeof namespace === 'number' ? ['--target', String(namespace), '--net'] : [`--net=${NAMES}/${namespace}`];
      const inside = (...args: string[]) => run('nsenter', [...at, 'ip', ...args]);
      inside('link', 'set', 'lo', 'up');
      inside('address', 'add', `${address(host)}/24`, 'dev', 'eth0');
      inside('link', 'set', 'eth0', 'up');
      inside('route', 'add', 'default', 'via', address(1));
    },
    [Symbol.dispose]() {
      // The cables are removed with the namespaces at their other ends.
      removeBridge(bridge);
    },
  };
}

/** Removes the bridges and the named namespaces of runs that were killed. */
function removeLeftovers(): void {
  const left = (folder: string) =>
    (existsSync(folder) ? readdirSync(folder) : []).filter((name) => {
      const [, pid] = /^skc-(\d+)-/.exec(name) ?? [];
      return pid !== undefined && processStartTime(Number(pid)) === undefined;
    });
  for (const name of left(NAMES)) spawnSync('ip', ['netns', 'delete', name]);
  for (const name of left('/sys/class/net')) removeBridge(name);
}

function removeBridge(name: string): void {
  spawnSync('iptables', ['--wait', '--delete', 'FORWARD', ...between(name)]);
  spawnSync('iptables', ['--wait', '--table', 'nat', '--delete', 'POSTROUTING', ...through(name)]);
  spawnSync('ip', ['link', 'delete', name]);
}

/** Takes all packets from one port of a bridge to another. */
const between = (bridge: string) => ['--in-interface', bridge, '--out-interface', bridge, '--jump', 'ACCEPT'];

/** Leaves the addresses of all packets to a bridge as they are. */
const through = (bridge: string) => ['--out-interface', bridge, '--jump', 'ACCEPT'];

const ip = (...args: string[]) => run('ip', args);

function run(command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr?.trim() || error?.message}`);
  return stdout;
}
