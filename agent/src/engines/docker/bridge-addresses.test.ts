import { expect, test } from 'vitest';
import { otherAddresses, takenBy } from './bridge-addresses.ts';

/** The setting bridgeCidr against what the engine and the machine have. */

const network = (name: string, ...subnets: string[]) =>
  ({ Id: name, Name: name, IPAM: { Config: subnets.map((Subnet) => ({ Subnet })) } }) as never;
const interfaces = { eth0: [{ cidr: '192.168.7.20/24' }, { cidr: 'fe80::1/64' }] } as never;

test.each([
  ['172.30.0.0/16', undefined],
  ['172.18.4.0/24', 'the network shop (172.18.0.0/16) of the engine'],
  ['172.16.0.0/12', 'the network shop (172.18.0.0/16) of the engine'],
  ['10.9.0.0/24', 'the network two (10.9.0.128/25) of the engine'],
  ['192.168.8.0/28', undefined],
  ['192.168.7.16/28', 'the interface eth0 (192.168.7.20/24) of this machine'],
  ['192.168.0.0/16', 'the interface eth0 (192.168.7.20/24) of this machine'],
])('%s is taken by %s', (cidr, what) => {
  const networks = [network('host'), network('shop', '172.18.0.0/16'), network('two', 'fd00::/64', '10.9.0.128/25')];
  expect(takenBy(cidr, networks, interfaces)).toBe(what);
});

test('a network with other addresses than the setting is named with both, and any is right without the setting', () => {
  const own = network('skerry-1', '10.1.0.0/24');
  expect(otherAddresses(own, '10.2.0.0/24')).toMatch(
    /^bridgeCidr 10\.2\.0\.0\/24 has no effect: .* has 10\.1\.0\.0\/24/,
  );
  expect([otherAddresses(own, '10.1.0.0/24'), otherAddresses(own, undefined)]).toEqual([undefined, undefined]);
});
