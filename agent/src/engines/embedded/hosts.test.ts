import { describe, expect, test } from 'vitest';
import { hostsText, resolversOf } from './hosts.ts';

const id = '0123456789abcdef';
const neighbours = [
  { id, ip: '10.0.0.2', aliases: ['plant.own', 'plant.own.svc.bridge.local'] },
  { id: 'b', ip: '10.0.0.3', aliases: ['plant.other'] },
];
const spec = (extraHosts: { name: string; address: string }[], hostNetworkMode = false) => ({
  extraHosts,
  fields: { hostNetworkMode } as never,
});

describe('the hosts file of a container', () => {
  test('has itself, all others on the network by all of their names, and its extra hosts before them', () => {
    const extra = [
      { name: 'machine', address: 'host-gateway' },
      { name: 'printer', address: '192.0.2.7' },
      { name: 'db', address: 'plant.other' },
      { name: 'gone', address: 'plant.absent' },
    ];
    const text = hostsText({ id, spec: spec(extra), gateway: '10.0.0.1', neighbours });
    expect(text.split('\n').slice(2)).toEqual([
      '10.0.0.1\tmachine',
      '192.0.2.7\tprinter',
      '10.0.0.3\tdb',
      '10.0.0.2\t0123456789ab',
      '10.0.0.2\tplant.own plant.own.svc.bridge.local',
      '10.0.0.3\tplant.other',
      '',
    ]);
  });

  test('has no names of containers on the network of the machine, which is 127.0.0.1 there', () => {
    const extra = [{ name: 'machine', address: 'host-gateway' }];
    const text = hostsText({ id: 'h', spec: spec(extra, true), gateway: '10.0.0.1', neighbours });
    expect(text.split('\n').slice(2)).toEqual(['127.0.0.1\tmachine', '']);
  });
});

test('name servers that only the machine itself reaches are left out', () => {
  const text =
    'search a.example b.example\nnameserver 127.0.0.53\n nameserver 192.0.2.1\nnameserver ::1\n#nameserver 192.0.2.2\nnameserver 2001:db8::1\n';
  expect(resolversOf(text)).toEqual({
    nameServers: ['192.0.2.1', '2001:db8::1'],
    searches: ['a.example', 'b.example'],
  });
});
