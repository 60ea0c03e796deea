import { describe, expect, test } from 'vitest';
import { type TunnelSettings, tunnelServer } from './tunnel.ts';

const SETTINGS: TunnelSettings = {
  host: 'bastion.example',
  port: 2222,
  username: 'tunnel',
  ports: { first: 2000, last: 2009 },
  localPort: 22,
  secretName: 'ssh',
};
const secret = (data: Record<string, string>, isShareable = false) => ({
  isShareable,
  text: { name: 'ssh', data, identify: () => 'id-1' },
});
const WHOLE = { rsaKey: 'key', knownHosts: 'bastion.example ssh-ed25519 AAAA' };

describe('the ssh server of tunnels', () => {
  test('has what the Secret has, and an identity that says nothing of it', () => {
    expect(tunnelServer(SETTINGS, secret(WHOLE))).toEqual({
      ...{ host: 'bastion.example', port: 2222, username: 'tunnel', localPort: 22 },
      ...{ ...WHOLE, password: '', identity: 'id-1' },
    });
    expect(tunnelServer(SETTINGS, secret({ password: 'p', knownHosts: 'k' }))).toMatchObject({ password: 'p' });
  });

  test.each([
    ['SKERRY_TUNNEL_SECRET is not set', { secretName: undefined }, undefined],
    ['there is no Secret ssh; create it', {}, undefined],
    ['the Secret ssh is shareable', {}, secret(WHOLE, true)],
    ['the Secret ssh has neither rsaKey nor password', {}, secret({ knownHosts: 'k' })],
    [
      'the Secret ssh has no knownHosts: the host keys of bastion.example',
      {},
      secret({ rsaKey: 'k', knownHosts: '\n' }),
    ],
  ])('is unusable because %s', (problem, settings, given) => {
    const { secretName, ...others } = { ...SETTINGS, ...settings };
    const found = tunnelServer({ ...others, ...(secretName && { secretName }) }, given);
    expect(found).toEqual({ problem: expect.stringContaining(problem) });
  });
});
