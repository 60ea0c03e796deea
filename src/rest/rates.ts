import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import { type Clock, systemClock } from '../kube/clock.ts';
import { createTokenBuckets, type TokenBuckets } from '../kube/token-bucket.ts';
import { tooOften } from './errors.ts';

/** How often something may be asked: so many in the long run, and so many at once. */
const RATES = {
  /** routes that passwords and codes can be guessed at, per address (docs/spec/rest-v3.md#rate-limits) */
  credentials: { perSecond: 1, burst: 60 },
  /** tokens that the cluster had to be asked about and that stood for nobody, per address */
  unknownTokens: { perSecond: 1, burst: 60 },
  /** files, per caller: a large one takes the process a quarter of a second to read */
  uploads: { perSecond: 10, burst: 120 },
  /** bytes of bodies, per caller: a megabyte of JSON takes it a twentieth */
  bytes: { perSecond: 4 * 2 ** 20, burst: 32 * 2 ** 20 },
} as const;

/** Keeps one caller from using up what all need. Each method throws 429 with Retry-After. */
export interface Rates {
  credentials(address: string): void;
  upload(caller: string): void;
  /** Before a body is read; what arrives of it is charged to the caller. */
  body(caller: string): (bytes: number) => void;
  /** Before the cluster is asked about a token. */
  unknownToken(address: string): void;
  /** It stood for nobody. */
  wrongToken(address: string): void;
}

export function createRates(clock: Clock = systemClock): Rates {
  const rates = (name: keyof typeof RATES) => createTokenBuckets({ clock, ...RATES[name] });
  const [credentials, unknownTokens] = [rates('credentials'), rates('unknownTokens')];
  const [uploads, bytes] = [rates('uploads'), rates('bytes')];
  const refuse = (of: TokenBuckets, key: string, what: string): never => {
    throw tooOften(`too many ${what}, try again later`, of.waitMs(key) / 1000);
  };
  return {
    credentials(address) {
      if (!credentials.take(address)) refuse(credentials, address, 'attempts from this address');
    },
    upload(caller) {
      if (!uploads.take(caller)) refuse(uploads, caller, 'files of this caller');
    },
    body(caller) {
      if (!bytes.take(caller)) refuse(bytes, caller, 'bytes of this caller');
      return (more) => bytes.charge(caller, more);
    },
    unknownToken(address) {
      if (unknownTokens.waitMs(address) > 0) refuse(unknownTokens, address, 'wrong tokens from this address');
    },
    wrongToken: (address) => void unknownTokens.take(address),
  };
}

/**
 * The address that a request counts for. Behind a proxy it is the one that the nearest proxy saw: what stands before it in
 * the header is the client's own word. Of IPv6 it is the network, since a client has as many addresses there as it likes.
 */
export function addressOf(request: IncomingMessage, trustProxy: boolean): string {
  const forwarded = trustProxy
    ? String(request.headers['x-forwarded-for'] ?? '')
        .split(',')
        .at(-1)
        ?.trim()
    : '';
  const address = (forwarded || request.socket.remoteAddress || '').replace(/^::ffff:/i, '').slice(0, 64);
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
