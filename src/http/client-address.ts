import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';

/**
 * The client address to which rate limits are applied. Behind a proxy it is the last address of the header, which the nearest
 * proxy added: the client can forge those before it. For IPv6 it is the network, since a client can use all its addresses.
 */
export function addressOf(request: IncomingMessage, trustProxy: boolean): string {
  const forwarded = trustProxy
    ? String(request.headers['x-forwarded-for'] ?? '')
        .split(',')
        .at(-1)
        ?.trim()
    : '';
  return clientAddress(forwarded || request.socket.remoteAddress);
}

/** The address, or for IPv6 its network, of the other end of a connection; empty when the connection is closed already. */
export function clientAddress(remote: string | undefined): string {
  const address = (remote ?? '').replace(/^::ffff:/i, '').slice(0, 64);
  return isIPv6(address) ? networkOf(address) : address;
}

/** The first half: `2001:db8:0:1::/64`. */
function networkOf(address: string): string {
  const [head = '', tail] = (address.split('%')[0] ?? '').split('::');
  const groups = (text = '') => (text === '' ? [] : text.split(':'));
  const left = groups(head);
  const filled =
    tail === undefined ? left : [...left, ...Array<string>(8 - left.length - groups(tail).length).fill('0')];
  const network = [...filled, ...groups(tail)].slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
