import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { Log } from '../../../src/lib/log.ts';
import { readText, writeDurably } from '../machine/disk.ts';
import { errorText } from '../machine/log.ts';
import { authorityCertificate, type KeyedCertificate, newCertificateKey, serverCertificate } from './certificates.ts';

const DAY = 24 * 3600 * 1000;
const AUTHORITY_DAYS = 3650;
const SERVER_DAYS = 365;
/** A certificate is renewed when it is valid for less than this. The authority outlives what it signs. */
const LEAST_DAYS = { authority: 400, server: 30 };
/** No clock is right that is before this; a machine without a battery starts in 1970. */
const EARLIEST = Date.UTC(2026, 0, 1);

export interface LocalAuthorityOptions {
  /** JSON with certificate and key, readable by its owner alone */
  file: string;
  /** the name by which containers reach the local API */
  host: string;
  /** Unix ms */
  wall(): number;
  log: Log;
}

/**
 * The authority of the local API of this machine. Containers know its certificate. It signs a certificate of the server at
 * each start, and anew before that ends or when an address is added, which clients do not notice.
 *
 * The key of the authority stays as long as its file can be read, also when its certificate is renewed: a former certificate of
 * it, also one of the release before, still verifies the server.
 */
export class LocalAuthority {
  readonly #options: LocalAuthorityOptions;
  #authority: KeyedCertificate;
  #server: (KeyedCertificate & { addresses: ReadonlySet<string> }) | undefined;

  constructor(options: LocalAuthorityOptions) {
    this.#options = options;
    this.#authority = this.#read() ?? this.#make(newCertificateKey());
  }

  /** PEM by which clients verify the server. */
  get certificate(): string {
    return this.#renewed().cert;
  }

  /** The certificate of the server, for these addresses and those that it had before. The same object while it stays. */
  server(addresses: readonly string[]): KeyedCertificate {
    const present = this.#server;
    const isKnown = addresses.every((address) => present?.addresses.has(address));
    if (present && isKnown && !this.#isDue(present.cert, LEAST_DAYS.server, SERVER_DAYS)) return present;
    const all = new Set([...(present?.addresses ?? []), ...addresses]);
    const { host } = this.#options;
    const names = { commonName: 'local API', dns: [host, 'localhost'], addresses: [...all] };
    const made = serverCertificate(this.#renewed(), names, this.#in(SERVER_DAYS));
    this.#server = { ...made, addresses: all };
    return this.#server;
  }

  #renewed(): KeyedCertificate {
    if (this.#isDue(this.#authority.cert, LEAST_DAYS.authority, AUTHORITY_DAYS))
      this.#authority = this.#make(this.#authority.key);
    return this.#authority;
  }

  get #now(): number {
    return Math.max(this.#options.wall(), EARLIEST);
  }

  #in(days: number): Date {
    return new Date(this.#now + days * DAY);
  }

  /** Whether a certificate ends too soon, or was made when the clock was far ahead or for longer than is usual now. */
  #isDue(cert: string, least: number, most: number): boolean {
    const end = Date.parse(new X509Certificate(cert).validTo);
    return end < this.#in(least).getTime() || end > this.#in(most + 1).getTime();
  }

  #make(key: string): KeyedCertificate {
    const { file, host, log } = this.#options;
    const made = authorityCertificate(key, { commonName: host, dns: [host, 'localhost'] }, this.#in(AUTHORITY_DAYS));
    try {
      writeDurably(file, JSON.stringify(made), 0o600);
    } catch (error) {
      log.warn(
        { error: errorText(error) },
        'Cannot save the authority of the local API; the next start makes another one',
      );
    }
    return made;
  }

  #read(): KeyedCertificate | undefined {
    const { file, host } = this.#options;
    try {
      const { cert, key } = JSON.parse(readText(file) ?? '{}') as Partial<KeyedCertificate>;
      if (cert === undefined || key === undefined) return undefined;
      const read = new X509Certificate(cert);
      return read.checkHost(host) && read.checkPrivateKey(createPrivateKey(key)) ? { cert, key } : undefined;
    } catch {
      return undefined;
    }
  }
}
