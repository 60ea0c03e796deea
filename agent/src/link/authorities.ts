import { X509Certificate } from 'node:crypto';
import type { Log } from '../../../src/lib/log.ts';
import { digestOf } from '../../../src/wire/digest.ts';
import { type Digests, NO_DIGEST } from '../../../src/wire/sections.ts';
import { certificateBlocks, isCertificate, MOST_CERTIFICATES } from '../domain/certificates.ts';
import { type ShownCertificate, showCertificate } from '../machine/tls.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import { type ControllerClient, ControllerError } from './client.ts';
import { orDatabaseError } from './sync-loop.ts';

export interface AuthoritiesDependencies {
  identity: OwnIdentity;
  /** PEM of a further authority, which the settings of this machine name */
  controllerCa(): string | undefined;
  log: Log;
  /** looks at the certificate of the controller */
  show?: (origin: URL, ca: string | undefined) => Promise<ShownCertificate>;
}

/**
 * The authorities by which this agent knows its controller. The join string names the first; then the controller sends its list, which
 * has the next authority long before it signs anything. An agent that trusts the authorities of its system alone follows no list.
 */
export class Authorities {
  readonly #deps: AuthoritiesDependencies;
  /** digest of a list that would have locked the controller out */
  #refused: string | undefined;

  constructor(deps: AuthoritiesDependencies) {
    this.#deps = deps;
  }

  /** The digest of its list, as the agent names it; empty, and so not named, where it follows none. */
  get digests(): Digests {
    const { identity, controllerCa } = this.#deps;
    const { node } = identity.current;
    if (!node || (node.ca === undefined && controllerCa() === undefined)) return { authorities: '' };
    return { authorities: this.#refused ?? node.caDigest ?? NO_DIGEST };
  }

  /** PEM of all authorities that count beside this one; undefined: only the authorities of the system do. */
  with(ca: string | undefined): string | undefined {
    return [ca, this.#deps.controllerCa()].filter(Boolean).join('\n') || undefined;
  }

  /**
   * Fetches the list over the present connection, and trusts it from the next connection on. A list by which the certificate that the
   * controller shows cannot be verified is not taken, since the agent could not come back to take another one.
   */
  async follow(client: ControllerClient, signal?: AbortSignal): Promise<void> {
    const { identity, log, show = showCertificate } = this.#deps;
    const text = await client.authorities(signal);
    const { node } = identity.current;
    if (!node) return;
    const digest = text === undefined ? NO_DIGEST : digestOf(text);
    const ca = text === undefined ? undefined : certificatesIn(text);
    const problem =
      ca === '' ? 'it has no certificate in PEM' : await this.#problemWith(ca, show, client.controllerUrl);
    if (problem !== undefined) {
      this.#refused = digest;
      log.warn({ problem }, 'The authorities that the controller sends are not taken: they do not fit its certificate');
      return;
    }
    this.#refused = undefined;
    const { ca: _, ...rest } = node;
    orDatabaseError(() =>
      identity.become({ ...identity.current, node: { ...rest, ...(ca !== undefined && { ca }), caDigest: digest } }),
    );
    client.trust(this.with(ca));
    log.info({ authorities: namesIn(ca ?? '') }, 'The authorities of the controller are others');
  }

  async #problemWith(
    ca: string | undefined,
    show: NonNullable<AuthoritiesDependencies['show']>,
    controllerUrl: string,
  ): Promise<string | undefined> {
    const shown = await show(new URL(controllerUrl), this.with(ca));
    if (shown.state === 'none')
      throw new ControllerError(
        'NOT_CONNECTED',
        `the certificate of ${controllerUrl} cannot be seen: ${shown.message}`,
      );
    return shown.error && `${shown.error.message} (${shown.error.code})`;
  }
}

/** The certificates of a list, PEM; empty where none can be read. */
function certificatesIn(list: string): string {
  return certificateBlocks(Buffer.from(list, 'base64').toString('latin1'))
    .slice(0, MOST_CERTIFICATES)
    .filter(isCertificate)
    .map((block) => `${block}\n`)
    .join('');
}

const namesIn = (ca: string): string[] =>
  certificateBlocks(ca).map((block) => {
    const { subject, validTo } = new X509Certificate(block);
    return `${subject.replaceAll('\n', ', ')} until ${validTo}`;
  });
