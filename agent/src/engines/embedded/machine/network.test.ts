import { describe, expect, test } from 'vitest';
import { networkList, podNetwork, subnetIn } from './network.ts';
import { networksIn } from './routes.ts';

const none = { asked: undefined, former: undefined, addresses: [], routes: [], isMade: false };

describe('the network of containers', () => {
  test('is the first that overlaps with no network of the machine', () => {
    expect(podNetwork('skerry0', none)).toEqual({ name: 'skerry0', subnet: '10.187.0.0/24', gateway: '10.187.0.1' });
    expect(podNetwork('skerry0', { ...none, addresses: ['10.187.0.7/23'] }).subnet).toBe('10.187.2.0/24');
    expect(() => podNetwork('skerry0', { ...none, routes: ['10.0.0.0/8'] })).toThrow(/set bridgeCidr$/);
  });

  test('stays, since containers have its addresses, until another network is asked for without a bridge', () => {
    const former = { ...none, former: '10.187.9.0/24', addresses: ['10.187.9.0/24'] };
    expect(podNetwork('skerry0', former).subnet).toBe('10.187.9.0/24');
    const asked = { ...former, asked: '172.30.0.0/16' };
    expect(podNetwork('skerry0', { ...asked, isMade: true }).subnet).toBe('10.187.9.0/24');
    expect(podNetwork('skerry0', asked).gateway).toBe('172.30.0.1');
  });

  test('is not made where the asked network has addresses of an interface', () => {
    const asked = { ...none, asked: '172.30.0.0/16', addresses: ['192.168.1.2/24', '172.30.4.5/24'] };
    expect(() => podNetwork('skerry0', asked)).toThrow(
      'bridgeCidr 172.30.0.0/16 overlaps with 172.30.4.5/24 of this machine: set another one',
    );
    const routed = { ...asked, addresses: [], routes: asked.addresses };
    expect(podNetwork('skerry0', routed).subnet).toBe('172.30.0.0/16');
    expect(podNetwork('skerry0', { ...asked, former: '172.30.0.0/16' }).subnet).toBe('172.30.0.0/16');
  });

  test('is read back from its list of plugins', () => {
    const network = podNetwork('skerry0', none);
    const list = JSON.stringify(networkList(network, '/data/addresses'), undefined, 2);
    expect(subnetIn(list)).toBe('10.187.0.0/24');
    expect(list).toContain('"dataDir": "/data/addresses"');
    expect(subnetIn('{}')).toBeUndefined();
  });
});

test('the networks of a table of routes are those without the default route', () => {
  const table = [
    'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
    'eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
    'eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    'tun0\t000000AC\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0',
    '',
  ].join('\n');
  expect(networksIn(table)).toEqual(['192.168.1.0/24', '172.0.0.0/8']);
});
