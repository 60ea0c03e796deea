import { createHash } from 'node:crypto';
import type { Log } from '../../../src/lib/log.ts';
import { type JoinString, parseJoinString } from '../../../src/wire/node-token.ts';
import { AgentError, saving } from '../domain/agent-error.ts';
import type { Config } from '../domain/config.ts';
import { errorText } from '../machine/log.ts';
import { architectureId, type Machine } from '../machine/machine.ts';
import { type Identity, localPart, type Node, newKey, publicPart } from '../state/identity.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import type { Actions } from './actions.ts';
import { type ControllerClient, ControllerError, FOREIGN, NO_TLS } from './client.ts';
import type { Membership, Scope } from './membership.ts';
import type { SavedResponses } from './saved-responses.ts';

/** A controller has so long, ms, to answer at an address that a person names. */
const TRIAL = 8_000;

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
  /** why the identity is not used; undefined while it may be */
  refusal(): string | undefined;
  /** whether a microservice is the machine's own, of which the controller does not know */
  isMachinesOwn(uuid: string): boolean;
  /** fetches the authority that a join string names */
  fetchAuthority(controllerUrl: string, digest: string): Promise<string>;
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
   * earlier call with `local` left are removed by one with `all`. The end is saved here before the controller receives
   * it: a machine that cannot save it stays a node.
   */
  async deprovision(scope: Scope, signal?: AbortSignal): Promise<{ controllerTold?: boolean }> {
    const { identity, membership, microservices, isMachinesOwn } = this.#deps;
    const { node } = identity.current;
    if (!node && (scope === 'local' || microservices().length === 0))
      throw new AgentError('CONFLICT', 'the agent is not provisioned');
    return this.#alone(async () => {
      const removed = scope === 'all' ? microservices().filter((uuid) => !isMachinesOwn(uuid)) : [];
      // It has the key of the membership that ends.
      // Another machine that has the identity leaves without a word: the controller would take it for the node itself.
      const isUsed = this.#deps.refusal() === undefined;
      const client = node && isUsed ? membership.newClient(node.controllerUrl, node.ca, node) : undefined;
      try {
        saving('nothing was changed, and the controller was not told', () => membership.end(scope));
        if (client) return { controllerTold: await this.#tellDeprovision(client, removed, signal) };
        return node ? { controllerTold: false } : {};
      } finally {
        client?.close();
      }
    });
  }

  /**
   * Tries whether the controller answers at another address and knows this node there; answers what is wrong, for people.
   * Nothing to try without a node.
   */
  async problemAt(url: string, signal?: AbortSignal): Promise<string | undefined> {
    const { identity, membership } = this.#deps;
    const { node } = identity.current;
    const controllerUrl = new URL(url).origin;
    if (!node || node.controllerUrl === controllerUrl) return undefined;
    const refusal = this.#deps.refusal();
    if (refusal !== undefined) return refusal;
    const client = membership.newClient(controllerUrl, node.ca, node);
    const deadline = AbortSignal.timeout(TRIAL);
    const until = signal ? AbortSignal.any([signal, deadline]) : deadline;
    try {
      await client.ping(until);
      await client.document('/agent/config', until);
      return undefined;
    } catch (error) {
      const text = deadline.aborted
        ? `no controller answers at ${controllerUrl} within ${TRIAL / 1000} s`
        : errorText(error);
      return `${text}. The agent goes on trying there; back to the former address: skerry-agent config controllerUrl=${node.controllerUrl}`;
    } finally {
      client.close();
    }
  }

  /** Moves the membership to another address of the controller, as the same node. */
  moveController(url: string): void {
    const { identity, membership, log } = this.#deps;
    const { node } = identity.current;
    const controllerUrl = new URL(url).origin;
    if (!node || node.controllerUrl === controllerUrl) return;
    saving('nothing was changed', () => identity.become({ ...identity.current, node: { ...node, controllerUrl } }));
    membership.renew();
    log.info({ controllerUrl, before: node.controllerUrl }, 'The controller has another address');
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
      saving('the key was not used', () =>
        identity.become({ ...before, nodeKey: newKey(), joining: { controllerUrl, keyDigest } }),
      );
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
      saving('the machine is no node yet; the same join string works again within 20 minutes', () => {
        // What a former membership left to the machine has to be its own before another list comes.
        membership.clear();
        membership.makeWay();
        // The saved responses are those of an earlier controller.
        responses.forget();
        responses.reload();
        // Counts and failures are of the node that asked; the same node keeps its own, or it would reboot once more.
        if (node.uuid !== before.node?.uuid) actions.forget();
        const { joining, ...rest } = identity.current;
        // Last: until then the machine is what it was.
        identity.become({ ...rest, node });
      });
      log.info({ node: node.uuid, name: node.name, controllerUrl }, 'Provisioned');
      await this.#deps.adopt();
      membership.open();
      return node;
    } catch (error) {
      if (before.node) this.#keep(before);
      throw provisioningError(error);
    } finally {
      client.close();
    }
  }

  /** The former identity stays in use, in case that controller accepts it again. */
  #keep(before: Identity): void {
    const { identity, membership, log } = this.#deps;
    try {
      identity.become({ ...before, ...localPart(identity.current) });
    } catch (error) {
      log.error({ error: errorText(error) }, 'Cannot save the former identity');
    }
    membership.open();
  }

  async #authorityOf(controllerUrl: string, digest: string): Promise<string> {
    const { fetchAuthority } = this.#deps;
    try {
      return await fetchAuthority(controllerUrl, digest);
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      const text = NO_TLS.test(code)
        ? `${controllerUrl} does not speak TLS; a join string for plain HTTP has neither tls=1 nor ca=`
        : errorText(error);
      throw new AgentError('INVALID_ARGUMENT', text, { cause: error });
    }
  }

  async #tellDeprovision(client: ControllerClient, removed: string[], signal?: AbortSignal): Promise<boolean> {
    const { log } = this.#deps;
    const deadline = AbortSignal.timeout(15_000);
    const until = signal ? AbortSignal.any([signal, deadline]) : deadline;
    try {
      // The client signs in the controller's time.
      await client.ping(until);
      await client.deprovision(removed, until);
      return true;
    } catch (error) {
      log.warn({ error: errorText(error) }, 'The controller could not be told');
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
  if (error instanceof AgentError) return error;
  if (!(error instanceof ControllerError)) return new AgentError('INTERNAL', errorText(error), { cause: error });
  const { status, code, message } = error;
  const wrong = (text: string) => new AgentError('INVALID_ARGUMENT', text, { cause: error });
  if (code === FOREIGN) return wrong(`${message}; check the address in the join string`);
  if (NO_TLS.test(code)) return wrong(`${message}, which is a join string without tls=1 and ca=`);
  if (status === 0) return new AgentError('UNAVAILABLE', errorText(error), { cause: error });
  if (status === 404) return wrong('the controller does not know this key: it was used, replaced, or never given');
  if (status === 401) return wrong('the key has expired; ask for a new one');
  if (status >= 400 && status < 500) return wrong(errorText(error));
  return new AgentError('INTERNAL', errorText(error), { cause: error });
}
