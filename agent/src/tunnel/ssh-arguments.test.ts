import { describe, expect, test } from 'vitest';
import { tunnelReplySchema } from '../../../src/wire/tunnel.ts';
import { NOTHING_SENT, readResponses } from '../domain/desired.ts';
import { makeTunnel } from './_make.ts';
import { sshArguments } from './ssh-arguments.ts';

const FILES = { knownHosts: '/d/known_hosts', key: '/d/key' };

describe('the arguments of ssh', () => {
  test('end with the host, and name a remote forward to the machine itself', () => {
    const view = makeTunnel({ host: '2001:db8::1', port: 2222, remotePort: 2001, localPort: 8022, username: 'tunnel' });
    const given = sshArguments(view, FILES);
    expect(given.slice(given.indexOf('-R'))).toEqual([
      ...['-R', '2001:localhost:8022', '-p', '2222', '-l', 'tunnel', '--', '2001:db8::1'],
    ]);
    expect(given).toContain('StrictHostKeyChecking=yes');
    expect(given).toContain('GlobalKnownHostsFile=/dev/null');
    expect(given).toContain('PreferredAuthentications=publickey');
    expect(given).toContain('BatchMode=yes');
  });

  test('allow a password only where there is one', () => {
    const given = sshArguments(makeTunnel({ password: 'p' }), { knownHosts: '/k' });
    expect(given).toContain('PreferredAuthentications=password,keyboard-interactive');
    expect(given).toContain('IdentityFile=none');
    expect(given.join(' ')).not.toMatch(/=p\b|\bp\b.*password/);
  });

  test('quote paths, whose percent signs are no tokens', () => {
    const odd = '/a b/%h/"q"';
    expect(sshArguments(makeTunnel(), { knownHosts: odd, key: odd })).toEqual(
      expect.arrayContaining(['UserKnownHostsFile="/a b/%%h/\\"q\\""', 'IdentityFile="/a b/%%h/\\"q\\""']),
    );
  });
});

describe('a tunnel that the controller sends', () => {
  test.each([
    ['host', '-oProxyCommand=x'],
    ['host', 'a b'],
    ['host', 'a\nb'],
    ['host', ''],
    ['host', 'host;reboot'],
    ['host', '$(reboot)'],
    ['username', '-l'],
    ['username', 'a b'],
    ['username', 'a\u0000'],
    ['username', '%h'],
    ['remotePort', 0],
    ['remotePort', '2001'],
    ['localPort', 65536],
    ['port', -1],
    ['rsaKey', 'x'.repeat(70_000)],
  ])('is refused by its %s %j, and nothing else that was sent with it', (member, value) => {
    const tunnel = { ...makeTunnel(), [member]: value };
    expect(tunnelReplySchema.safeParse({ tunnel }).success).toBe(false);
    const { sent, unreadable } = readResponses(
      new Map([['tunnel', { digests: {}, body: JSON.stringify({ tunnel }) }]]),
    );
    expect(unreadable).toEqual([]);
    expect(sent.tunnel).toEqual({ problem: expect.stringContaining(`cannot be read: tunnel.${member}`) });
  });

  test('has defaults for members that other controllers do not send', () => {
    const { host, username, remotePort } = makeTunnel();
    const body = JSON.stringify({ tunnel: { host, username, remotePort }, host, username });
    const { sent } = readResponses(new Map([['tunnel', { digests: {}, body }]]));
    expect(sent.tunnel).toMatchObject({ port: 22, localPort: 22, rsaKey: '', knownHosts: '', closed: false });
    expect(NOTHING_SENT.tunnel).toBeUndefined();
  });
});
