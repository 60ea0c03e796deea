import { type Adapter, type AdapterConstructor, type AdapterPayload, errors } from 'oidc-provider';
import type { Artefacts } from '../identity/contract/once.ts';
import type { Log } from '../lib/log.ts';

/** Of writes that another replica always precedes. */
const TRIES = 8;

/**
 * What the provider stores. The id of an artefact is a credential: it is in the hashed name alone. Our member `steps` of an
 * interaction survives the writes of the library.
 */
export function createAdapter(artefacts: Artefacts, log: Log): AdapterConstructor {
  /** The datastore says nothing useful to a client, and much that is none of its business. */
  async function asked<T>(question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } catch (err) {
      log.warn({ err }, 'An artefact of a login was neither read nor written');
      throw notAvailable();
    }
  }

  return class implements Adapter {
    readonly model: string;

    constructor(model: string) {
      this.model = model;
    }

    upsert(id: string, { jti: _, ...payload }: AdapterPayload, ttlSeconds: number) {
      const { model } = this;
      return asked(async () => {
        if ((await artefacts.write(model, id, payload, ttlSeconds, 'new')) === 'written') return undefined;
        for (let tries = 0; tries < TRIES; tries++) {
          const known = await artefacts.read(model, id);
          const next = known?.payload.steps === undefined ? payload : { ...payload, steps: known.payload.steps };
          const condition = known ? { version: known.version } : undefined;
          if ((await artefacts.write(model, id, next, ttlSeconds, condition)) === 'written') return undefined;
        }
        throw new Error(`an artefact ${model} is always written by others first`);
      });
    }

    find(id: string) {
      return asked(async () => {
        const found = await artefacts.read(this.model, id);
        return found && ({ ...found.payload, jti: id } as AdapterPayload);
      });
    }

    /** Of several clients with one code, all but one fail here, and end nothing. */
    async consume(id: string) {
      if (await asked(() => artefacts.consume(this.model, id))) return;
      throw new errors.InvalidGrant('it was already used');
    }

    destroy(id: string) {
      return asked(() => artefacts.remove(this.model, id));
    }

    revokeByGrantId(grantId: string) {
      return asked(() => artefacts.ofGrant(grantId));
    }

    /** Only for tokens that end with a session, and for devices: there are neither. */
    async findByUid() {
      return undefined;
    }

    async findByUserCode() {
      return undefined;
    }
  };
}

function notAvailable(): errors.OIDCProviderError {
  const error = new errors.TemporarilyUnavailable('logins are not available at the moment, try again');
  error.status = 503;
  error.statusCode = 503;
  return error;
}
