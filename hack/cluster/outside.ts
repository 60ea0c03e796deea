import { execFileSync } from 'node:child_process';
import { type ClusterNetwork, PREFIX } from './network.ts';

/**
 * A place outside for one machine: a network namespace behind a router that translates addresses. Connections go out to the
 * cluster; none comes in.
 */
interface Outside extends Disposable {
  /** prefix of a command that is to run there */
  readonly command: readonly string[];
  /** the address there, which only the router knows a way to */
  readonly address: string;
  /** of its router, in the network of the cluster */
  readonly router: string;
}

const MACHINE = '192.168.77.2';
const ROUTER = '192.168.77.1';
let count = 0;

/** Needs root, `ip` and `iptables`. */
export function createOutside(network: ClusterNetwork): Outside {
  const number = ++count;
  const nameOf = (what: string) => `${PREFIX}${process.pid}-${what}-${number}`;
  const [machine, router] = [nameOf('machine'), nameOf('router')];
  const ip = (...args: string[]) => execFileSync('ip', args);
  const onRouter = (...args: string[]) => ip('netns', 'exec', router, ...args);
  for (const name of [machine, router]) ip('netns', 'add', name);
  const host = 100 + number;
  network.attach(router, host);
  ip('-n', router, 'link', 'add', 'lan', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', machine);
  ip('-n', router, 'address', 'add', `${ROUTER}/24`, 'dev', 'lan');
  ip('-n', router, 'link', 'set', 'lan', 'up');
  ip('-n', machine, 'link', 'set', 'lo', 'up');
  ip('-n', machine, 'address', 'add', `${MACHINE}/24`, 'dev', 'eth0');
  ip('-n', machine, 'link', 'set', 'eth0', 'up');
  ip('-n', machine, 'route', 'add', 'default', 'via', ROUTER);
  onRouter('sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward');
  onRouter('iptables', '-t', 'nat', '-A', 'POSTROUTING', '-o', 'eth0', '-j', 'MASQUERADE');
  onRouter('iptables', '-A', 'FORWARD', '-i', 'eth0', '-m', 'conntrack', '--ctstate', 'NEW', '-j', 'DROP');
  return {
    command: ['ip', 'netns', 'exec', machine],
    address: MACHINE,
    router: network.address(host),
    [Symbol.dispose]() {
      for (const name of [machine, router]) ip('netns', 'delete', name);
    },
  };
}
