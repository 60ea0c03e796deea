import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const isRoot = process.platform === 'linux' && process.getuid?.() === 0;
const [LEFT, USED] = ['netns-00000000-0000-4000-8000-000000000001', 'netns-00000000-0000-4000-8000-000000000002'];

/** Two networks of podman in a machine of their own: the first has no process. Prints the rest after the removal. */
const script = `
mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up
for i in 1 2; do
  name=netns-00000000-0000-4000-8000-00000000000$i
  ip netns add $name
  ip link add podman$i type bridge && ip address add 10.1.$i.1/24 dev podman$i && ip link set podman$i up
  ip link add cable$i type veth peer name eth0 netns $name && ip link set cable$i master podman$i up
  iptables -t nat -N NETAVARK-00000000000A$i
  iptables -t nat -A NETAVARK-00000000000A$i -d 10.1.$i.0/24 -j ACCEPT
  iptables -t nat -A POSTROUTING -s 10.1.$i.0/24 -j NETAVARK-00000000000A$i
done
ip link add podman3 type bridge
nsenter --net=/run/netns/${USED} sleep 1000 &
"$@"
ls /run/netns && ip -brief link | cut -d' ' -f1 && iptables-save -t nat | grep -- -A
kill %1
`;

test.runIf(isRoot)(
  'namespaces without a process, bridges without a cable and their rules go, and a network with a process stays whole',
  () => {
    const module = JSON.stringify(join(import.meta.dirname, 'podman-networks.ts'));
    const remove = [process.execPath, '-e', `import(${module}).then((m) => m.removePodmanNetworks())`];
    const words = ['--net', '--mount', '--propagation', 'private', 'bash', '-ec', script, 'bash', ...remove];
    const left = execFileSync('unshare', words, { encoding: 'utf8' });
    expect(left).not.toMatch(new RegExp(`${LEFT}|podman1|podman3|10\\.1\\.1\\.|A1`));
    expect(left).toContain(USED);
    expect(left).toMatch(/^podman2/m);
    expect(left).toContain('-A POSTROUTING -s 10.1.2.0/24 -j NETAVARK-00000000000A2');
  },
  60_000,
);
