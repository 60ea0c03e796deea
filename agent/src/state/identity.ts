import { createPublicKey, generateKeyPairSync, type JsonWebKey, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { type PublicKey, publicKeySchema } from '../../../src/wire/agent.ts';
import { readText, setAside, writeDurably } from '../machine/disk.ts';

const privateKeySchema = publicKeySchema.extend({ d: z.string().regex(/^[A-Za-z0-9_-]{43}$/) });

/** An Ed25519 key pair as a JWK with its private half. */
export type PrivateKey = z.infer<typeof privateKeySchema>;

/** What the machine of an identity is known by: digests by name, signed by the local key. */
const fingerprintSchema = z.object({
  /** uuid of the node that it is about */
  node: z.string(),
  members: z.record(z.string(), z.string()),
  signature: z.string(),
});
export type HardwareFingerprint = z.infer<typeof fingerprintSchema>;

const identitySchema = z.object({
  /** names this agent on its machine; containers carry it */
  instance: z.string().regex(/^[0-9a-f]{32}$/),
  /** signs tokens of the local API; never leaves the machine */
  localKey: privateKeySchema,
  /** signs tokens for the controller; made before provisioning, so that an answer that is lost costs nothing */
  nodeKey: privateKeySchema.optional(),
  /** the last join string's key and controller, for which nodeKey was made */
  joining: z.object({ controllerUrl: z.string(), keyDigest: z.string() }).optional(),
  node: z
    .object({
      uuid: z.string(),
      name: z.string().optional(),
      namespace: z.string(),
      controllerUrl: z.string(),
      /** PEM of the authority that the controller's certificate must come from */
      ca: z.string().optional(),
      /** digest of the list of the controller in `ca`; absent while `ca` came from the join string */
      caDigest: z.string().optional(),
    })
    .optional(),
  /** absent until the edge guard was switched on */
  fingerprint: fingerprintSchema.optional(),
  /** how much was revoked of what the local key signed: a shorter list of revocations is not the whole one */
  revocations: z.int().nonnegative().optional(),
  /** the membership that has ended, whose saved responses are still to be cleared; says what ended with it */
  ending: z.enum(['all', 'local']).optional(),
  /** with `all`: a person ended it on the machine, so that the machine's own microservices end as well */
  endsOwn: z.boolean().optional(),
});

/** The identity of this agent. */
export type Identity = z.infer<typeof identitySchema>;
export type Node = NonNullable<Identity['node']>;

/** Where the identity is kept. `save` returns when it would survive a loss of power. */
export interface IdentityStore {
  load(): Identity | undefined;
  save(identity: Identity): void;
}

/** The identity in a file, for looking at: nothing is set aside. */
export function readIdentity(path: string): { identity?: Identity; damaged?: string } {
  try {
    const text = readText(path);
    return text === undefined ? {} : { identity: identitySchema.parse(JSON.parse(text)) };
  } catch (error) {
    // What is in the file is secret, and errors of parsers quote it.
    return { damaged: (error as NodeJS.ErrnoException).code ?? 'it is not an identity' };
  }
}

/** The identity in a file of its own, readable by its owner alone. */
export function identityFile(path: string, wall: () => number, onDamage: (path: string) => void): IdentityStore {
  return {
    load: () => {
      const text = readText(path);
      if (text === undefined) return undefined;
      try {
        return identitySchema.parse(JSON.parse(text));
      } catch {
        // Never overwritten: it may hold the only copy of a key.
        const suffix = `.damaged-${wall()}`;
        setAside(path, suffix);
        onDamage(path + suffix);
        return undefined;
      }
    },
    save: (identity) => writeDurably(path, `${JSON.stringify(identity, undefined, 2)}\n`, 0o600),
  };
}

/** A new agent: an instance id and a local key, no node yet. A known instance id finds its containers again. */
export function newIdentity(instance?: string): Identity {
  const known = instance !== undefined && /^[0-9a-f]{32}$/.test(instance);
  return { instance: known ? instance : randomBytes(16).toString('hex'), localKey: newKey() };
}

/** What the end of a membership leaves as it is. */
export const localPart = ({ instance, localKey, revocations }: Identity): Identity => ({
  instance,
  localKey,
  ...(revocations !== undefined && { revocations }),
});

export function newKey(): PrivateKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { kty, crv, x, d } = privateKey.export({ format: 'jwk' });
  return privateKeySchema.parse({ kty, crv, x, d });
}

/** What the other side may know of a key. */
export function publicPart({ kty, crv, x }: PrivateKey): PublicKey {
  return { kty, crv, x };
}

/** The public key, for verifying the agent's own tokens. */
export function publicKeyObject(key: PrivateKey) {
  return createPublicKey({ key: publicPart(key) as JsonWebKey, format: 'jwk' });
}
