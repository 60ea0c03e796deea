import { createHash } from 'node:crypto';
import { type JoinString, parseJoinString } from '../../../src/wire/node-token.ts';
import { AgentError } from '../domain/agent-error.ts';
import type { Config } from '../domain/config.ts';
import { type Node, newKey, publicPart } from '../state/identity.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import { errorText, type Log } from '../system/log.ts';
import { architectureId, type Machine } from '../system/machine.ts';
import type { Actions } from './actions.ts';
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
  actions: Pick<Actions, 'forget'>;
  /** the container engine, as the controller names it */
  engineKind(): Config['containerEngine'];
  /** Adopts the containers of an earlier installation of this node. */
  adopt(): Promise<void>;
  /** microservices on this machine */
  microservices(): string[];
  /** fetches the authority that a join string names */
  fetchAuthority?: (controllerUrl: string, digest: string) => Promise<string>;
}

/** Begins a membership, and ends it from the machine's side; one operation at a time. */
export class Provisioning {
  readonly #deps: ProvisioningDependencies;
  #busy = false;

  constructor(deps: ProvisioningDependencies) {
    this.#deps = deps;
  }

  /** Exchanges a join string for an identity. The key pair is created and saved before the first request. */
  async provision(text: string, signal?: AbortSignal): Promise<Node> {
    const { config, identity, membership } = this.#deps;
    const join = readJoinString(text, config.controllerUrl);
    const { node } = identity.current;
    // A controller that does not know this identity may issue another; the containers keep running under the new one.
    if (node && membership.connection.state !== 'UNAUTHORIZED')
      throw new AgentError('CONFLICT', `already provisioned as node ${node.name ?? node.uuid}; deprovision first`);
    return this.#alone(() => this.#provisionWith(join, signal));
  }

  /**
   * Ends the membership and begins to remove its containers; with the scope `local` they keep running. Those that an
   * earlier call with `local` left are removed by one with `all`.
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

  /** Moves the membership to another address of the controller, as the same node. */
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
    const { log, machine, identity, responses, membership, actions, engineKind } = this.#deps;
    const before = identity.current;
    const keyDigest = createHash('sha256').update(key).digest('hex');
    // The same join string again after a lost response: the controller knows the public key and sends the response again.
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
      // The saved responses are those of an earlier controller.
      responses.forget();
      responses.reload();
      identity.become({ ...rest, node });
      // Counts and failures are of the node that asked; the same node keeps its own, or it would reboot once more.
      if (node.uuid !== before.node?.uuid) actions.forget();
      log.info('Provisioned', { node: node.uuid, name: node.name, controllerUrl });
      await this.#deps.adopt();
      membership.open();
      return node;
    } catch (error) {
      // The former identity stays in use, in case that controller accepts it again.
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

/** Translates the error of a failed provisioning for the caller. */
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
