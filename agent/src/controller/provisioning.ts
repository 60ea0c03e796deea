import { createHash } from 'node:crypto';
import { type JoinString, parseJoinString } from '../../../src/wire/node-token.ts';
import { AgentError } from '../domain/agent-error.ts';
import type { Config } from '../domain/config.ts';
import { type Node, newKey, publicPart } from '../state/identity.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import { errorText, type Log } from '../system/log.ts';
import { architectureId, type Machine } from '../system/machine.ts';
import { ControllerError } from './client.ts';
import type { Membership, Scope } from './membership.ts';
import type { SavedResponses } from './saved-responses.ts';

export interface ProvisioningDependencies {
  config: Config;
  log: Log;
  machine: Pick<Machine, 'architecture'>;
  identity: OwnIdentity;
  responses: SavedResponses;
  membership: Membership;
  /** the container engine, as the controller knows it */
  engineKind(): Config['containerEngine'];
  /** Adopts the containers of an earlier installation of this node. */
  adopt(): Promise<void>;
  /** microservices that are here */
  microservices(): string[];
  /** fetches the authority that a join string names */
  fetchAuthority?: (controllerUrl: string, digest: string) => Promise<string>;
}

/** How a membership begins, and how it ends on the machine's side; one at a time. */
export class Provisioning {
  readonly #deps: ProvisioningDependencies;
  #busy = false;

  constructor(deps: ProvisioningDependencies) {
    this.#deps = deps;
  }

  /** Exchanges a join string for an identity. The key pair is made and stored before anything is sent. */
  async provision(text: string, signal?: AbortSignal): Promise<Node> {
    const { config, identity, membership } = this.#deps;
    const join = readJoinString(text, config.controllerUrl);
    const { node } = identity.current;
    // A controller that proves not to know this identity may give another: everything runs on under the new one.
    if (node && membership.connection.state !== 'UNAUTHORIZED')
      throw new AgentError('CONFLICT', `already provisioned as node ${node.name ?? node.uuid}; deprovision first`);
    return this.#alone(() => this.#provisionWith(join, signal));
  }

  /**
   * Ends the membership. From then on nothing is wanted here, and what runs is being removed; or, with
   * the scope `local`, it runs on. What an earlier end with that scope left is ended by one with `all`.
   */
  async deprovision(scope: Scope, signal?: AbortSignal): Promise<{ controllerTold?: boolean }> {
    const { identity, membership, microservices } = this.#deps;
    const { node } = identity.current;
    if (!node && (scope === 'local' || microservices().length === 0))
      throw new AgentError('CONFLICT', 'the agent is not provisioned');
    return this.#alone(async () => {
      const controllerTold = node && (await this.#tellDeprovision(scope === 'all' ? microservices() : [], signal));
      membership.end(scope);
      return { controllerTold };
    });
  }

  /** Keeps in touch at another address, as the same node. */
  moveController(url: string): void {
    const { identity, membership, log } = this.#deps;
    const { node } = identity.current;
    const controllerUrl = new URL(url).origin;
    if (!node || node.controllerUrl === controllerUrl) return;
    identity.become({ ...identity.current, node: { ...node, controllerUrl } });
    membership.close();
    membership.open();
    log.info('The controller has another address', { controllerUrl, before: node.controllerUrl });
  }

  async #alone<T>(act: () => Promise<T>): Promise<T> {
    if (this.#busy) throw new AgentError('CONFLICT', 'another provisioning or deprovisioning is under way');
    this.#busy = true;
    try {
      return await act();
    } finally {
      this.#busy = false;
    }
  }

  async #provisionWith({ controllerUrl, key, caDigest }: JoinString, signal?: AbortSignal): Promise<Node> {
    const { log, machine, identity, responses, membership, engineKind } = this.#deps;
    const before = identity.current;
    const keyDigest = createHash('sha256').update(key).digest('hex');
    // The same key again after an answer that was lost: the controller knows our public key and answers once more.
    const again = before.joining?.keyDigest === keyDigest && before.joining.controllerUrl === controllerUrl;
    if (!again || !before.nodeKey)
      identity.become({ ...before, nodeKey: newKey(), joining: { controllerUrl, keyDigest } });
    const { nodeKey } = identity.current;
    if (!nodeKey) throw new AgentError('INTERNAL', 'there is no node key');
    const ca = caDigest ? await this.#authorityOf(controllerUrl, caDigest) : undefined;
    const client = membership.newClient(controllerUrl, ca);
    try {
      const reply = await client.provision(
        { key, type: architectureId(machine.architecture), engine: engineKind(), publicKey: publicPart(nodeKey) },
        signal,
      );
      const node: Node = { uuid: reply.uuid, name: reply.name, namespace: reply.namespace, controllerUrl, ca };
      const { joining, ...rest } = identity.current;
      membership.makeWay();
      // What an earlier controller wanted is not what this one wants.
      responses.forget();
      responses.reload();
      identity.become({ ...rest, node });
      log.info('Provisioned', { node: node.uuid, name: node.name, controllerUrl });
      await this.#deps.adopt();
      membership.open();
      return node;
    } catch (error) {
      // Who we were counts on, should that controller come back to its senses.
      if (before.node) identity.become(before);
      throw provisioningError(error);
    } finally {
      client.close();
    }
  }

  async #authorityOf(controllerUrl: string, digest: string): Promise<string> {
    const { fetchAuthority } = this.#deps;
    if (!fetchAuthority) throw new AgentError('INTERNAL', 'no way to fetch a certificate authority');
    try {
      return await fetchAuthority(controllerUrl, digest);
    } catch (error) {
      throw new AgentError('INVALID_ARGUMENT', errorText(error), { cause: error });
    }
  }

  async #tellDeprovision(ending: string[], signal?: AbortSignal): Promise<boolean> {
    const { membership, log } = this.#deps;
    const deadline = AbortSignal.timeout(15_000);
    try {
      await membership.client?.deprovision(ending, signal ? AbortSignal.any([signal, deadline]) : deadline);
      return true;
    } catch (error) {
      log.warn('The controller could not be told', { error: errorText(error) });
      return false;
    }
  }
}

/** A join string, or a bare key for the controller that the settings name. */
function readJoinString(text: string, controllerUrl: string | undefined): JoinString {
  try {
    const bare = /^[A-Za-z0-9-]{8,255}$/.test(text.trim()) && controllerUrl !== undefined;
    if (bare) return { controllerUrl: new URL(controllerUrl).origin, key: text.trim() };
    return parseJoinString(text.trim());
  } catch (error) {
    throw new AgentError('INVALID_ARGUMENT', errorText(error), { cause: error });
  }
}

/** What a failed provisioning means for whoever ordered it. */
function provisioningError(error: unknown): AgentError {
  if (!(error instanceof ControllerError)) return new AgentError('INTERNAL', errorText(error), { cause: error });
  const { status } = error;
  if (status === 404)
    return new AgentError(
      'INVALID_ARGUMENT',
      'the controller does not know this key: it was used, replaced, or never given',
      { cause: error },
    );
  if (status === 401)
    return new AgentError('INVALID_ARGUMENT', 'the key has expired; ask for a new one', { cause: error });
  if (status >= 400 && status < 500) return new AgentError('INVALID_ARGUMENT', errorText(error), { cause: error });
  return new AgentError('INTERNAL', errorText(error), { cause: error });
}
