import { generateKeyPairSync } from 'node:crypto';
import { FIELD_MANAGERS } from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { encodeData, isOwnedBy } from '../../datastore/keyed-text.ts';
import { provisioningKeyName, readProvisioningKey } from '../../datastore/provisioning-key.ts';
import type { ReadStores } from '../../datastore/stores.ts';
import { createOrUpdate, type KubeClient } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { v3Name } from '../../rules/names.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { archOf } from '../../subjects/nodes/rules/settings.ts';
import { type ProvisionReply, type PublicKey, provisionRequestSchema } from '../../wire/agent.ts';
import { AgentFailure, notReady } from '../channel/failure.ts';
import type { NodeDirectory } from '../channel/node-directory.ts';
import {
  mayReplace,
  type NodeKey,
  nodeKeyName,
  nodeKeySecret,
  parsePublicKey,
  readNodeKey,
} from '../channel/node-key.ts';

/** A provisioned agent and the response to it. */
export interface Provisioned {
  node: EdgeNode;
  key: NodeKey;
  reply: ProvisionReply;
  /** false when this agent had the identity already and repeated the request */
  isNew: boolean;
}

export interface ProvisionOptions {
  client: Pick<KubeClient, 'find' | 'create' | 'replace'>;
  stores: Pick<ReadStores, 'secrets'>;
  directory: NodeDirectory;
  namespace: string;
  clock: Pick<Clock, 'wall'>;
}

/** A provisioning key, and the agent that used it up. */
interface UsedKey {
  nodeUuid: string;
  /** Unix ms */
  expiresAt: number;
  /** Unix ms, whole seconds of the API server */
  issuedAt: number;
  issuedFor?: 'version';
  usedBy?: PublicKey;
}

const fieldManager = FIELD_MANAGERS.controller;
const CALL_MS = 10_000;
const unknownKey = () =>
  new AgentFailure('INVALID_PROVISIONING_KEY', 'the provisioning key is unknown, used or replaced');
/** The engine names that agents send, and the engine names of the controller. */
const ENGINES: ReadonlyMap<string, string> = new Map([
  ['docker', 'docker'],
  ['podman', 'podman'],
  ['embedded', 'embedded'],
  ['engine_a', 'docker'],
  ['engine_b', 'podman'],
]);

/**
 * Gives the identity of a node to an agent that sends a provisioning key of the node.
 *
 * The key is used up by one update, conditional on the version of its Secret, that writes the agent's public
 * key into it: of many agents at many replicas one wins. An agent that did not get the response repeats the request with the same
 * public key and gets it again, until the key expires. Only then is the node's key written, so a crash between the two
 * loses nothing that asking again does not restore.
 */
export function createProvision(options: ProvisionOptions): (body: unknown) => Promise<Provisioned> {
  const { client, stores, directory, namespace, clock } = options;

  return async (body) => {
    const parsed = provisionRequestSchema.safeParse(body);
    if (!parsed.success) throw invalid(parsed.error.issues);
    const { key, type, engine, publicKey } = parsed.data;
    const containerEngine = engine ? engineOf(engine) : undefined;
    const pair = publicKey ? { publicKey } : generateKeyPair();
    const { node, used, isFirstUse } = await useUp(key, type, pair.publicKey);
    const record: NodeKey = {
      nodeUuid: used.nodeUuid,
      publicKey: pair.publicKey,
      archId: type || recordedArch(used.nodeUuid),
      ...(containerEngine && { containerEngine }),
      provisionedAt: clock.wall(),
      keyExpiresAt: used.expiresAt,
      keyIssuedAt: used.issuedAt,
      ...(used.issuedFor && { keyIssuedFor: used.issuedFor }),
    };
    const isNew = await writeNodeKey(node, record, isFirstUse);
    const reply: ProvisionReply = {
      uuid: used.nodeUuid,
      namespace,
      name: v3Name(node),
      ...('privateKey' in pair && { privateKey: pair.privateKey }),
    };
    return { node, key: record, reply, isNew };
  };

  /** The store may be late: the write then leads to a conflict, and the Secret is read from the API server. */
  async function useUp(key: string, type: number, publicKey: PublicKey) {
    const name = provisioningKeyName(key);
    let taken: { node: EdgeNode; used: UsedKey; isFirstUse: boolean } | undefined;
    const take = async (secret: Secret | undefined) => {
      const found = secret && readUsedKey(secret);
      if (!found) throw unknownKey();
      if (found.expiresAt <= clock.wall()) {
        throw new AgentFailure('EXPIRED_PROVISION_KEY', 'the provisioning key has expired: issue another');
      }
      if (found.usedBy && found.usedBy.x !== publicKey.x) throw unknownKey();
      // Before the key is used up: an invalid request must not use up the key.
      const node = await nodeOf(found.nodeUuid);
      if (type === 0 && recordedArch(found.nodeUuid) === 0 && archOf(node) === 0) throw unknownArchitecture();
      taken = { node, used: { ...found, usedBy: publicKey }, isFirstUse: !found.usedBy };
      if (found.usedBy) return undefined;
      return { ...secret, data: { ...secret.data, ...encodeData({ publicKey: JSON.stringify(publicKey) }) } };
    };
    await write(name, take);
    return taken as NonNullable<typeof taken>;
  }

  /** Changes a Secret under optimistic locking, and adds the result to the store. */
  async function write(name: string, change: (secret: Secret | undefined) => Promise<Secret | undefined>) {
    const { object, written } = await createOrUpdate(client, RESOURCES.secrets, { namespace, name }, change, {
      known: stores.secrets.get(namespace, name),
      call: { fieldManager, timeoutMs: CALL_MS },
    });
    if (written && object) stores.secrets.observe(object);
    return written;
  }

  /** The architecture that the last provisioning named, which the status shows a moment later; 0 for none. */
  function recordedArch(uuid: string): number {
    const secret = stores.secrets.get(namespace, nodeKeyName(uuid));
    return (secret && readNodeKey(secret)?.archId) || 0;
  }

  async function nodeOf(uuid: string): Promise<EdgeNode> {
    let node = directory.node(uuid);
    if (!node) {
      if ((await directory.refresh(uuid)) === 'busy') throw notReady('too many nodes are looked up at present');
      node = directory.node(uuid);
    }
    if (!node || node.metadata.deletionTimestamp) throw unknownKey();
    return node;
  }

  /** False when the node has this key already. */
  async function writeNodeKey(node: EdgeNode, record: NodeKey, isFirstUse: boolean): Promise<boolean> {
    const wanted = nodeKeySecret(node, record);
    return write(nodeKeyName(nodeUuid(node)), async (known) => {
      const before = known && readNodeKey(known);
      // A replacement that was provisioned with a later key in between keeps the identity.
      if (before && !mayReplace(before, { ...record, isFirstUse })) throw unknownKey();
      if (before?.publicKey.x === record.publicKey.x && known && isOwnedBy(known, node)) return undefined;
      return known ? withVersion(wanted, known) : wanted;
    });
  }
}

/** Called before the key is used up: after an unknown engine name an agent may repeat the request with the same key. */
function engineOf(engine: string): string {
  const known = ENGINES.get(engine);
  if (known) return known;
  throw new AgentFailure(
    'VALIDATION_ERROR',
    `engine: ${JSON.stringify(engine)} is unknown; send one of ${[...ENGINES.keys()].join(', ')}`,
  );
}

const unknownArchitecture = () =>
  new AgentFailure(
    'VALIDATION_ERROR',
    'type: 0 is allowed only once the architecture of the node is known; send 1 to 4',
  );

const withVersion = (wanted: Secret, known: Secret): Secret => ({
  ...wanted,
  metadata: { ...wanted.metadata, resourceVersion: known.metadata.resourceVersion, uid: known.metadata.uid },
});

function readUsedKey(secret: Secret): UsedKey | undefined {
  const key = readProvisioningKey(secret);
  if (!key) return undefined;
  const { nodeUuid, expiresAt, publicKey, issuedFor } = key;
  const issuedAt = Date.parse(secret.metadata.creationTimestamp ?? '') || 0;
  const usedBy = parsePublicKey(publicKey);
  // A key with an unreadable user counts as used.
  if (publicKey !== undefined && !usedBy) return undefined;
  return { nodeUuid, expiresAt, issuedAt, ...(issuedFor && { issuedFor }), ...(usedBy && { usedBy }) };
}

/** For agents that send no public key. The private key is in the response and nowhere else. */
function generateKeyPair(): { publicKey: PublicKey; privateKey: string } {
  const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  const publicKey: PublicKey = { kty: 'OKP', crv: 'Ed25519', x: jwk.x ?? '' };
  const privateKey = Buffer.from(JSON.stringify({ ...publicKey, d: jwk.d })).toString('base64');
  return { publicKey, privateKey };
}

function invalid(issues: readonly { path: PropertyKey[]; message: string }[]): AgentFailure {
  const text = issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; ');
  return new AgentFailure('VALIDATION_ERROR', text.slice(0, 1024));
}
