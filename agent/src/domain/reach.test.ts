import { describe, expect, test } from 'vitest';
import { limitsOf } from './_reach.ts';
import type { Policy } from './policy.ts';
import { type AddressPlace, placeOf, Reach } from './reach.ts';

const OWN = ['192.168.7.2', 'fd00:7::2', '203.0.113.9'];

describe('an address lies', () => {
  const places: Record<AddressPlace, string[]> = {
    public: ['198.51.100.1', '172.32.0.1', '100.128.0.1', '2606:4700::1', '::ffff:9.9.9.9', '64:ff9b::909:909'],
    private: [
      ...['10.1.2.3', '172.16.0.1', '172.31.255.255', '192.168.7.3', '100.64.0.1', 'fd12::1', 'fec0::1'],
      // The same addresses as IPv6 carries them: mapped, by NAT64 and its local prefix, by 6to4.
      ...['::ffff:10.1.2.3', '::ffff:a01:203', '64:ff9b::a01:203', '64:ff9b:1::a01:203', '2002:a01:203::1'],
    ],
    machine: [
      ...['127.0.0.1', '127.9.9.9', '0.0.0.0', '::', '::1', '::ffff:127.0.0.1', '64:ff9b::7f00:1', '2002:7f00:1::'],
      ...OWN,
      '::ffff:192.168.7.2',
    ],
    link: [
      ...['169.254.169.254', '::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe', 'fe80::1', 'fe80::1%eth0'],
      ...['fd00:ec2::254', '100.100.100.200', '168.63.129.16', '224.0.0.1', '255.255.255.255', 'ff02::1'],
    ],
  };
  for (const [place, addresses] of Object.entries(places))
    test.each(addresses)(`%s: ${place}`, (address) => expect(placeOf(address, OWN)).toBe(place));
});

const HUB = 'hub.example';

interface Case {
  policy?: Partial<Policy>;
  /** the address of the registry's own host */
  at?: string;
  /** the host that the registry leads to, and its address */
  hop?: [host: string, address: string];
  /** the registry's own name, where it is another one */
  host?: string;
  refused?: RegExp;
}

describe('a registry', () => {
  const cases: Record<string, Case> = {
    'of a private network is asked, whatever the policy says of the network': {
      policy: { hostNetwork: false },
      at: '10.0.0.5',
    },
    'on the machine itself is asked where containers may have the network of the machine': { at: '127.0.0.1' },
    'on the machine itself is not asked where containers may not have its network': {
      policy: { hostNetwork: false },
      at: '127.0.0.1',
      refused: /^the registry hub\.example has the address 127\.0\.0\.1, one of the machine itself; .* "registries"$/,
    },
    'at an address of an interface of the machine is one on the machine itself': {
      policy: { hostNetwork: false },
      at: '203.0.113.9',
      refused: /one of the machine itself/,
    },
    'on the machine itself is asked where the policy names it': {
      policy: { hostNetwork: false, registries: [HUB] },
      at: '127.0.0.1',
    },
    'named with the port that its scheme has anyway is the same registry': {
      policy: { hostNetwork: false, registries: [`${HUB}:80`] },
      at: '127.0.0.1',
    },
    'that answers where clouds give the credentials of the machine is not asked, also without a policy': {
      at: '169.254.169.254',
      refused: /one that only the machine reaches/,
    },
    'leads to public hosts': { hop: ['cdn.example', '198.51.100.1'] },
    'that is public does not lead into a private network': {
      hop: ['cdn.example', '10.0.0.7'],
      refused: /^the registry hub\.example leads to cdn\.example, which has the address 10\.0\.0\.7, one of a private/,
    },
    'that is public leads into a private network to a host that the policy names': {
      policy: { storage: ['cdn.example'] },
      hop: ['cdn.example', '10.0.0.7'],
    },
    'that is public does not lead into a private network because a pattern of the policy covers the host': {
      policy: { registries: [HUB], storage: ['*', '*.example'] },
      hop: ['cdn.example', '10.0.0.7'],
      refused: /10\.0\.0\.7/,
    },
    'of a private network leads to other hosts of private networks': { at: '10.0.0.5', hop: ['s3.plant', '10.0.0.7'] },
    'of a private network does not lead to the machine itself': {
      at: '10.0.0.5',
      hop: ['evil.example', '127.0.0.1'],
      refused: /127\.0\.0\.1/,
    },
    'on the machine itself does not lead to where clouds give the credentials of the machine': {
      at: '127.0.0.1',
      hop: ['evil.example', '169.254.169.254'],
      refused: /169\.254\.169\.254/,
    },
    'leads to no host that the policy does not name when the policy names registries': {
      policy: { registries: [HUB] },
      hop: ['cdn.example', '198.51.100.1'],
      refused: /^the registry hub\.example leads to cdn\.example, which policy\.yaml of the machine names neither in/,
    },
    'leads to hosts in "storage" of the policy': {
      policy: { registries: [HUB], storage: ['cdn.example', '*.store.example'] },
      hop: ['eu.store.example', '198.51.100.1'],
    },
    'does not lead to a host whose name only ends like a pattern of "storage"': {
      policy: { registries: [HUB], storage: ['*.store.example'] },
      hop: ['evilstore.example', '198.51.100.1'],
      refused: /evilstore\.example/,
    },
    'leads to another port of its own host only where the policy names that port': {
      policy: { registries: [HUB] },
      hop: [`${HUB}:2375`, '198.51.100.1'],
      refused: /hub\.example:2375/,
    },
    'named in other letters than URLs have is the same registry': {
      host: 'H\u00dcB.example',
      policy: { hostNetwork: false, registries: ['h\u00fcb.example'] },
      hop: ['xn--hb-xka.example', '10.0.0.5'],
    },
    'with the name of the public hub is asked where that answers': {
      host: 'docker.io',
      policy: { registries: ['docker.io'] },
      hop: ['registry-1.docker.io', '198.51.100.1'],
    },
  };
  for (const [name, { policy, at = '198.51.100.5', hop, host = HUB, refused }] of Object.entries(cases))
    test(name, () => {
      const reach = new Reach(host, limitsOf(policy, OWN));
      const own = reach.hostRefusal(host) ?? reach.addressRefusal(host, at);
      const found = own ?? (hop && (reach.hostRefusal(hop[0]) ?? reach.addressRefusal(...hop)));
      if (refused) expect(found).toMatch(refused);
      else expect(found).toBeUndefined();
    });
});
