import { describe, expect, test } from 'vitest';
import { rulesToRemove } from './packet-rules.ts';

const network = { name: 'skerry0', subnet: '10.187.0.0/24' };
const ours = (text: string) => `-m comment --comment "${text}name: \\"skerry0\\" id: \\"cni-1\\""`;
const other = `-m comment --comment "name: \\"pods\\" id: \\"cni-2\\""`;

const nat = (...rules: string[]) =>
  [
    ...['*nat', ':PREROUTING ACCEPT [0:0]', ':POSTROUTING ACCEPT [0:0]', ':CNI-HOSTPORT-DNAT - [0:0]'],
    ...[
      ':CNI-HOSTPORT-SETMARK - [0:0]',
      ':CNI-HOSTPORT-MASQ - [0:0]',
      ':CNI-DN-aa - [0:0]',
      ':CNI-bb - [0:0]',
      ':CNI-cc - [0:0]',
    ],
    '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
    '-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ',
    '-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE',
    '-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000',
    `-A POSTROUTING -s 10.187.0.2/32 ${ours('')} -j CNI-bb`,
    `-A CNI-bb -d 10.187.0.0/24 ${ours('')} -j ACCEPT`,
    `-A CNI-HOSTPORT-DNAT -p tcp ${ours('dnat ')} -m multiport --dports 80 -j CNI-DN-aa`,
    '-A CNI-DN-aa -s 10.187.0.0/24 -p tcp -m tcp --dport 80 -j CNI-HOSTPORT-SETMARK',
    ...rules,
    'COMMIT',
    '',
  ].join('\n');

describe('the rules to remove', () => {
  test('are the ones of the network, and the shared chains when no other network has ports', () => {
    const lines = rulesToRemove(nat(`-A POSTROUTING -s 10.9.0.2/32 ${other} -j CNI-cc`), network).split('\n');
    expect(lines[0]).toBe('*nat');
    expect(lines).toContain(`-D POSTROUTING -s 10.187.0.2/32 ${ours('')} -j CNI-bb`);
    expect(lines).toContain('-D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT');
    for (const chain of ['CNI-bb', 'CNI-DN-aa', 'CNI-HOSTPORT-DNAT', 'CNI-HOSTPORT-MASQ', 'CNI-HOSTPORT-SETMARK']) {
      expect(lines).toContain(`-F ${chain}`);
      expect(lines).toContain(`-X ${chain}`);
    }
    expect(lines.join()).not.toContain('CNI-cc');
    expect(lines.slice(-2)).toEqual(['COMMIT', '']);
  });

  test('leave the shared chains to another network that has ports', () => {
    const text = rulesToRemove(
      nat(`-A CNI-HOSTPORT-DNAT -p tcp ${other} -m multiport --dports 81 -j CNI-DN-other`),
      network,
    );
    expect(text).toContain('-X CNI-DN-aa');
    expect(text).toContain(`-D CNI-HOSTPORT-DNAT -p tcp ${ours('dnat ')} -m multiport --dports 80 -j CNI-DN-aa`);
    expect(text).not.toMatch(/-[XF] CNI-HOSTPORT|PREROUTING/);
  });

  test('include the firewall of its addresses alone', () => {
    const filter = (...rules: string[]) =>
      ['*filter', ':FORWARD ACCEPT [0:0]', ':CNI-ADMIN - [0:0]', ':CNI-FORWARD - [0:0]', ...rules, 'COMMIT'].join('\n');
    const shared = [
      '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD',
      '-A CNI-FORWARD -m comment --comment "x" -j CNI-ADMIN',
    ];
    const own = '-A CNI-FORWARD -s 10.187.0.2/32 -j ACCEPT';
    const foreign = '-A CNI-FORWARD -d 10.9.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT';
    expect(rulesToRemove(filter(...shared, own, foreign), network)).toBe(
      `*filter\n${own.replace('-A', '-D')}\nCOMMIT\n`,
    );
    expect(rulesToRemove(filter(...shared, own), network)).toContain('-X CNI-ADMIN\n-X CNI-FORWARD\n');
    const people = '-A CNI-ADMIN -s 10.1.0.0/16 -j DROP';
    expect(rulesToRemove(filter(...shared, people, own), network)).toBe(
      `*filter\n${own.replace('-A', '-D')}\nCOMMIT\n`,
    );
  });

  test('are none where nothing is left', () => {
    expect(rulesToRemove('*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n', network)).toBe('');
  });
});
