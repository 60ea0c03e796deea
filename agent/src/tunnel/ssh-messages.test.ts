import { describe, expect, test } from 'vitest';
import { makeTunnel } from './_make.ts';
import { reasonOf, SshMessages } from './ssh-messages.ts';

/** What ssh of Debian 12 writes with -v, cut. */
const OPENED = `OpenSSH_9.2p1 Debian-2+deb12u6, OpenSSL 3.0.19 27 Jan 2026
debug1: Connecting to 127.0.0.1 [127.0.0.1] port 2222.
Authenticated to 127.0.0.1 ([127.0.0.1]:2222) using "publickey".
debug1: Remote connections from LOCALHOST:2001 forwarded to local address localhost:22
debug1: remote forward success for: listen 2001, connect localhost:22
`;

function read(text: string, size = text.length) {
  let opened = 0;
  const messages = new SshMessages(() => opened++);
  for (let at = 0; at < text.length; at += size) messages.read(text.slice(at, at + size));
  return { opened, errors: messages.errors };
}

describe('messages of ssh', () => {
  test.each([1, 7, 4096])('say that the tunnel is open, in pieces of %d characters', (size) => {
    expect(read(OPENED, size)).toEqual({ opened: 1, errors: [] });
  });

  test('are errors unless they are for debugging', () => {
    const text = `${OPENED}Connection to 127.0.0.1 closed by remote host.\ndebug1: channel 0: free\nlast words`;
    expect(read(text).errors).toEqual(['Connection to 127.0.0.1 closed by remote host.', 'last words']);
  });

  test('take as much memory whatever a server sends', () => {
    const { errors } = read(`${'x'.repeat(10_000_000)}\n${'\u001b[31mbanner\n'.repeat(100_000)}`, 65_536);
    expect(errors.length).toBeLessThanOrEqual(32);
    expect(errors.at(-1)).toBe('[31mbanner');
  });
});

describe('the reason of an end', () => {
  const view = makeTunnel({ host: 'b.example' });
  test.each<[string, string[], RegExp]>([
    [
      'an unknown host key',
      [
        'No ED25519 host key is known for b.example and you have requested strict checking.',
        'Host key verification failed.',
      ],
      /^the host key of b\.example is none of knownHosts/,
    ],
    [
      'another host key',
      ['WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!', 'Host key verification failed.'],
      /none of knownHosts/,
    ],
    [
      'a key that cannot be read',
      ['Load key "/d/key": error in libcrypto', 'tunnel@b.example: Permission denied (publickey).'],
      /^the private key in the Secret of the tunnels cannot be used: error in libcrypto$/,
    ],
    [
      'a refused login',
      ['tunnel@b.example: Permission denied (publickey).'],
      /^b\.example refuses the login as tunnel: Permission denied \(publickey\)\.$/,
    ],
    [
      'a refused port',
      ['Error: remote port forwarding failed for listen port 2001'],
      /^b\.example does not open its port 2001: /,
    ],
    [
      'anything else',
      ['first', 'ssh: connect to host b.example port 22: Connection refused'],
      /port 22: Connection refused$/,
    ],
  ])('says what to do about %s', (_title, errors, want) => {
    expect(reasonOf(view, errors, 255)).toMatch(want);
  });

  test('is there without any message', () => {
    expect(reasonOf(view, [], 0)).toBe('b.example ended the connection');
    expect(reasonOf(view, [], 255)).toBe('ssh ended with the code 255');
    expect(reasonOf(view, [], null)).toBe('ssh ended with the code of a signal');
  });
});
