import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { addressOf } from './client-address.ts';

test.each([
  ['is that of the socket', '192.0.2.7', undefined, true, '192.0.2.7'],
  [
    'is that of the socket, whatever a header says, without a trusted proxy',
    '192.0.2.7',
    '203.0.113.9',
    false,
    '192.0.2.7',
  ],
  ['is the one that the nearest trusted proxy saw', '10.0.0.1', '6.6.6.6, 203.0.113.9', true, '203.0.113.9'],
  ['of IPv4 in IPv6 is the IPv4 address', '::ffff:192.0.2.7', undefined, false, '192.0.2.7'],
  ['of IPv6 is its /64 network', '2001:db8:1:2:3:4:5:6', undefined, false, '2001:db8:1:2::/64'],
  ['of abbreviated IPv6 is its /64 network', '2001:db8::1', undefined, false, '2001:db8:0:0::/64'],
  ['of the IPv6 loopback is its /64 network', '::1', undefined, false, '0:0:0:0::/64'],
  ['is cut to 64 characters when a proxy forwards nonsense', '10.0.0.1', 'x'.repeat(9_999), true, 'x'.repeat(64)],
])('the client address %s', (_, remoteAddress, forwarded, trusted, expected) => {
  const request = { socket: { remoteAddress }, headers: { ...(forwarded && { 'x-forwarded-for': forwarded }) } };
  expect(addressOf(request as unknown as IncomingMessage, trusted)).toBe(expected);
});
